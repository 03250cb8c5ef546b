"""A figure is a number until somebody looks at it."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.drawing.charts import Chart
from feddag.drawing.figures import find_figure, format_figure
from feddag.reports.chart_svg import chart_svg


@pytest.mark.parametrize(
    ("identifier", "value", "heading", "text"),
    [
        ("rho", 1e-3, "ρ", "0.001"),
        ("h", 2e-7, "h", "2.0·10⁻⁷"),
        ("families", 12345, "families scored", "12,345"),
        ("score", -3.5, "score", "−3.5000"),
        ("bytes_sent", 12_300, "sent", "12.3 kB"),
        ("stage", "directions", "stage", "directions"),
        ("moves_tried", 7, "moves tried", "7"),  # a plug-in's own
        ("gain", float("nan"), "gain", "–"),
    ],
)
def test_the_identifier_says_how_a_figure_is_shown(identifier, value, heading, text):
    assert find_figure(identifier).heading == heading
    assert format_figure(identifier, value) == text


def test_ticks_of_an_axis_differ_from_each_other():
    chart = Chart("score", np.arange(2.0), {"score": np.array([3.0146, 3.0058])}, logarithmic=False, axis="round")
    assert chart.format_ticks([1000, 2000]) == ["1,000", "2,000"]
    assert chart.format_ticks([3.004, 3.006, 3.008]) == ["3.004", "3.006", "3.008"]
    assert chart.format_ticks([0.5, 1.0]) == ["0.5", "1"]


def test_a_count_has_whole_ticks():
    edges = Chart("edges", np.arange(2.0), {"edges": np.array([13.0, 14.0])}, logarithmic=False, axis="round")
    assert "13.5" not in chart_svg(edges, 0)
    assert ">14</text>" in chart_svg(edges, 0)
