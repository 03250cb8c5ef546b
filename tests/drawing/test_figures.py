"""A figure is a number until somebody looks at it."""

from __future__ import annotations

import pytest

from feddag.drawing.figures import find_figure, format_figure


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
