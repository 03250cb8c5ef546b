"""The history of a fit as curves: whatever figures a method takes down, each against the rounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from feddag.drawing.figures import find_figure, format_figure
from feddag.drawing.formats import format_value
from feddag.reports.markup import Markup, tag

_NO_CURVES = ("round", "sub_problem", "step", "seconds", "site", "stage")
_OF_A_SITE = re.compile(r"(loss|fit)\[(.*)\]", re.DOTALL)
_SPAN_OF_A_LINEAR_SCALE = 300.0
_MOST_POINTS = 240
MOST_LINES = 12
"""More are shown as the band that they fill."""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 380.0, 210.0, 52.0, 12.0, 12.0, 34.0


Rounds = Float[np.ndarray, "round"]
Figures = dict[str, dict[str, Rounds]]
"""By identifier, the line of each site, or the one of all."""


@dataclass(frozen=True)
class Chart:
    """One figure, of all sites together or a line for each."""

    identifier: str
    rounds: Rounds
    lines: dict[str, Rounds]
    logarithmic: bool
    axis: str
    """What the figures stand against: rounds, or steps of a method that has no rounds."""

    @property
    def values(self) -> Float[np.ndarray, "line round"]:
        return np.array(list(self.lines.values()))

    @property
    def mean(self) -> Rounds:
        return np.nanmean(self.values, axis=0)

    @property
    def title(self) -> str:
        """Name the figure and what it means."""
        return find_figure(self.identifier).title

    @property
    def in_bytes(self) -> bool:
        """Whether the figure counts bytes."""
        return find_figure(self.identifier).in_bytes

    def format(self, value: float) -> str:
        """Format a value of the figure."""
        return format_figure(self.identifier, value)

    def format_tick(self, value: float) -> str:
        """Format a round number at the axis, which needs no more digits than it has."""
        return self.format(value) if self.in_bytes else format_value(value)


def charts(history: pd.DataFrame) -> list[Chart]:
    """A chart for each figure that changes and has more than one value."""
    axis = "round" if "round" in history else "step"
    alone = "site" in history
    rounds, figures = (_of_each_site if alone else _of_all_sites)(history)
    found = [_chart(identifier, rounds, lines, axis) for identifier, lines in figures.items()]
    return [chart for chart in found if chart is not None]


def _of_all_sites(history: pd.DataFrame) -> tuple[Rounds, Figures]:
    """The columns of the sites stand together, and first."""
    figures: Figures = {"loss": {}, "fit": {}}
    for name in map(str, history.columns):
        of_a_site = _OF_A_SITE.fullmatch(name)
        if of_a_site:
            kind, site = of_a_site.groups()
            figures[kind][site] = history[name].to_numpy(float)
        elif _is_figure(history, name):
            figures[name] = {name: history[name].to_numpy(float)}
    own = history["round"].to_numpy(float) if "round" in history else np.full(len(history), np.nan)
    return np.where(np.isnan(own), np.arange(1.0, 1 + len(history)), own), figures


def _of_each_site(history: pd.DataFrame) -> tuple[Rounds, Figures]:
    """Sites that learned alone, each with as many rounds as it took."""
    parts = {str(site): part.reset_index(drop=True) for site, part in history.groupby("site", sort=False)}
    longest = max(map(len, parts.values()))
    figures: Figures = {"loss": {}}
    for site, part in parts.items():
        for name in map(str, part.columns):
            identifier = "loss" if name == f"loss[{site}]" else name
            if identifier == "loss" or (_is_figure(part, name) and not _OF_A_SITE.fullmatch(name)):
                figures.setdefault(identifier, {})[site] = part[name].reindex(range(longest)).to_numpy(float)
    return np.arange(1.0, 1 + longest), figures


def _is_figure(history: pd.DataFrame, name: str) -> bool:
    return name not in _NO_CURVES and pd.api.types.is_numeric_dtype(history[name])


def _chart(identifier: str, rounds: Rounds, lines: dict[str, Rounds], axis: str) -> Chart | None:
    lines = {name: line for name, line in lines.items() if np.isfinite(line).any()}
    values = np.array(list(lines.values())).reshape(len(lines), len(rounds))
    there = np.isfinite(values).any(axis=0)
    if there.sum() < 2 or np.ptp(values[np.isfinite(values)]) == 0:
        return None
    kept = np.flatnonzero(there)
    if len(kept) > _MOST_POINTS:  # the last round is always among them
        kept = kept[np.unique(np.linspace(0, len(kept) - 1, _MOST_POINTS).round().astype(int))]
    finite = values[np.isfinite(values)]
    wide = finite.min() > 0 and finite.max() / finite.min() > _SPAN_OF_A_LINEAR_SCALE
    logarithmic = bool(wide and not find_figure(identifier).in_bytes)  # a running total grows by sums, not by factors
    return Chart(identifier, rounds[kept], {name: line[kept] for name, line in lines.items()}, logarithmic, axis)


def chart_svg(chart: Chart, number: int) -> Markup:
    """The page's program finds the points of a chart by its number."""
    finite = chart.values[np.isfinite(chart.values)]
    across = _scale(chart.rounds.min(), chart.rounds.max(), _LEFT, _WIDTH - _RIGHT)
    ticks = _log_ticks(finite) if chart.logarithmic else _ticks(finite.min(), finite.max())
    low, high = min(finite.min(), ticks[0]), max(finite.max(), ticks[-1])
    bent = np.log10 if chart.logarithmic else np.asarray
    up = _scale(float(bent(low)), float(bent(high)), _HEIGHT - _BOTTOM, _TOP)

    def place(values: Rounds) -> Float[np.ndarray, "round 2"]:
        return np.column_stack([across(chart.rounds), up(bent(values))])

    grid = [
        tag(
            "g",
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=(y := float(up(bent(tick)))), y2=y, class_="grid"),
            tag("text", chart.format_tick(float(tick)), x=_LEFT - 6, y=y + 3.5, text_anchor="end"),
        )
        for tick in ticks
    ]
    base, ends = _HEIGHT - _BOTTOM, chart.mean[np.isfinite(chart.mean)].tolist()
    axis = [
        tag("text", f"{tick:.0f}", x=float(across(tick)), y=base + 15, text_anchor="middle")
        for tick in _ticks(chart.rounds.min(), chart.rounds.max(), most=6, whole=True)
        if chart.rounds.min() <= tick <= chart.rounds.max()
    ]
    return tag(
        "svg",
        *grid,
        *axis,
        tag("text", chart.axis, x=(_LEFT + _WIDTH - _RIGHT) / 2, y=_HEIGHT - 3, text_anchor="middle", class_="axis"),
        *_line_elements(chart, place),
        tag("line", class_="cursor", y1=_TOP, y2=base, x1=-9, x2=-9),
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
        return [tag("path", d=_path(place(chart.mean)), class_="line")]
    if len(chart.lines) <= MOST_LINES:
        thin = [tag("path", d=_path(place(line)), class_="line of-site") for line in chart.lines.values()]
        return [*thin, tag("path", d=_path(place(chart.mean)), class_="line")]
    low, high = place(np.nanmin(chart.values, axis=0)), place(np.nanmax(chart.values, axis=0))
    band = _path(np.concatenate([low, high[::-1]])) + "Z"
    return [tag("path", d=band, class_="band"), tag("path", d=_path(place(chart.mean)), class_="line")]


def _path(points: Float[np.ndarray, "point 2"]) -> str:
    there = points[np.isfinite(points).all(axis=1)]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in there)


def _scale(low: float, high: float, first: float, last: float) -> Callable[..., np.ndarray]:
    span = (high - low) or 1.0
    return lambda values: first + (np.asarray(values, float) - low) / span * (last - first)


def _ticks(low: float, high: float, most: int = 5, *, whole: bool = False) -> Sequence[float]:
    """Round numbers from below the lowest value to above the highest."""
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
