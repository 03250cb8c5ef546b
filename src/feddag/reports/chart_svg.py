"""A chart as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from feddag.drawing.charts import MOST_LINES, Chart, Rounds
from feddag.drawing.svg import element

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 380.0, 210.0, 52.0, 12.0, 12.0, 34.0


def chart_svg(chart: Chart, number: int) -> Markup:
    """Draw a chart. The page's program finds its points by its number."""
    finite = chart.values[np.isfinite(chart.values)]
    across = _scale(chart.rounds.min(), chart.rounds.max(), _LEFT, _WIDTH - _RIGHT)
    counts = bool((finite == finite.round()).all())
    ticks = _log_ticks(finite) if chart.logarithmic else _ticks(finite.min(), finite.max(), whole=counts)
    low, high = min(finite.min(), ticks[0]), max(finite.max(), ticks[-1])
    bent = np.log10 if chart.logarithmic else np.asarray
    up = _scale(float(bent(low)), float(bent(high)), _HEIGHT - _BOTTOM, _TOP)

    def place(values: Rounds) -> Float[np.ndarray, "round 2"]:
        return np.column_stack([across(chart.rounds), up(bent(values))])

    grid = [
        element(
            "g",
            element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=(y := float(up(bent(tick)))), y2=y, class_="grid"),
            element("text", text, x=_LEFT - 6, y=y + 3.5, text_anchor="end"),
        )
        for tick, text in zip(ticks, chart.format_ticks(ticks), strict=True)
    ]
    base, ends = _HEIGHT - _BOTTOM, chart.mean[np.isfinite(chart.mean)].tolist()
    axis = [
        element("text", f"{tick:.0f}", x=float(across(tick)), y=base + 15, text_anchor="middle")
        for tick in _ticks(chart.rounds.min(), chart.rounds.max(), most=6, whole=True)
        if chart.rounds.min() <= tick <= chart.rounds.max()
    ]
    return element(
        "svg",
        *grid,
        *axis,
        element(
            "text", chart.axis, x=(_LEFT + _WIDTH - _RIGHT) / 2, y=_HEIGHT - 3, text_anchor="middle", class_="axis"
        ),
        *_line_elements(chart, place),
        element("line", class_="cursor", y1=_TOP, y2=base, x1=-9, x2=-9),
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        class_="chart",
        role="img",
        aria_label=f"{chart.title}, from {chart.format(ends[0])} to {chart.format(ends[-1])}",
        data_chart=number,
        data_left=_LEFT,
        data_right=_WIDTH - _RIGHT,
    )


def _line_elements(chart: Chart, place: Callable[[Rounds], Float[np.ndarray, "round 2"]]) -> list[Markup]:
    if len(chart.lines) == 1:
        return [element("path", d=_path(place(chart.mean)), class_="line")]
    if len(chart.lines) <= MOST_LINES:
        thin = [element("path", d=_path(place(line)), class_="line of-site") for line in chart.lines.values()]
        return [*thin, element("path", d=_path(place(chart.mean)), class_="line")]
    low, high = place(np.nanmin(chart.values, axis=0)), place(np.nanmax(chart.values, axis=0))
    band = _path(np.concatenate([low, high[::-1]])) + "Z"
    return [element("path", d=band, class_="band"), element("path", d=_path(place(chart.mean)), class_="line")]


def _path(points: Float[np.ndarray, "point 2"]) -> str:
    there = points[np.isfinite(points).all(axis=1)]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in there)


def _scale(low: float, high: float, first: float, last: float) -> Callable[..., np.ndarray]:
    span = (high - low) or 1.0
    return lambda values: first + (np.asarray(values, float) - low) / span * (last - first)


def _ticks(low: float, high: float, most: int = 5, *, whole: bool = False) -> Sequence[float]:
    """Return round numbers from below the lowest value to above the highest."""
    rough = max((high - low) / most, 1e-300)
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    if whole:
        step = max(1.0, step)
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    return [float(step * k) for k in np.arange(first, last + 1)]


def _log_ticks(values: Float[np.ndarray, "value"]) -> Sequence[float]:
    first, last = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    every = max(1, int(np.ceil((last - first) / 5)))
    return [float(10.0**power) for power in np.arange(first, last + every, every)]
