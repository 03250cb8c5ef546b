"""The history of a fit as charts: each figure that a method records, against the rounds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from feddag.drawing.figures import find_figure, format_figure
from feddag.drawing.formats import format_value

_NO_CURVES = ("round", "sub_problem", "step", "seconds", "site", "stage")
_OF_A_SITE = re.compile(r"(loss|fit)\[(.*)\]", re.DOTALL)
_SPAN_OF_A_LINEAR_SCALE = 300.0
_MOST_POINTS = 240
MOST_LINES = 12
"""More are shown as the band that they fill."""

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
        """All lines, one row each."""
        return np.array(list(self.lines.values()))

    @property
    def mean(self) -> Rounds:
        """The mean of the lines at each round, over those that have a value there."""
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

    def format_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Format the round numbers at the axis: with no more digits than they have, and enough to tell them apart."""
        texts = [self.format(tick) if self.in_bytes else format_value(tick) for tick in ticks]
        if len(set(texts)) == len(texts):
            return texts
        digits = max(0, math.ceil(-math.log10(np.diff(ticks).min()) - 1e-9))
        return [f"{tick:,.{digits}f}".replace("-", "−") for tick in ticks]


def make_charts(history: pd.DataFrame) -> list[Chart]:
    """Make a chart of each figure that changes from round to round."""
    axis = "round" if "round" in history else "step"
    alone = "site" in history
    rounds, figures = (_of_each_site if alone else _of_all_sites)(history)
    found = [_chart(identifier, rounds, lines, axis) for identifier, lines in figures.items()]
    return [chart for chart in found if chart is not None]


def _of_all_sites(history: pd.DataFrame) -> tuple[Rounds, Figures]:
    """Collect the figures of a federation; those of single sites stand together, and first."""
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
    """Collect the figures of sites that learned alone, each with as many rounds as it took."""
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
