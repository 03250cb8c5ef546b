"""The figures of the paper's tables, as `published.csv` has them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

PUBLISHED = files("feddag.experiments") / "published.csv"


@dataclass(frozen=True)
class Key:
    """Where a figure stands in the paper."""

    table: str
    functions: str
    graph: str
    nodes: int
    rows: int
    participation: float
    regime: str
    method: str
    metric: str


_ROUNDING = 1e-9
"""A mean that is off by the deviation itself is within it, whatever the last binary digit says."""


@dataclass(frozen=True)
class Figure:
    """A published mean and its standard deviation."""

    mean: float
    deviation: float
    half_a_digit: float
    """How far the printed mean may be from the true one."""

    def judge(self, mean: float, *, lower_is_better: bool | None) -> str:
        """Judge our mean by the published standard deviation: "better", "within" or "worse".

        Where `lower_is_better` is None, a mean outside is "different".
        """
        if abs(mean - self.mean) <= max(self.deviation, self.half_a_digit) + _ROUNDING:
            return "within"
        if lower_is_better is None:
            return "different"
        return "better" if (mean < self.mean) == lower_is_better else "worse"


@cache
def figures() -> dict[Key, Figure | None]:
    """Read the published figures by their place; None where the paper prints NaN."""
    with PUBLISHED.open(encoding="utf-8") as file:
        return {_key(row): _figure(row) for row in csv.DictReader(file)}


def find(
    tables: Iterable[str], of: tuple[str, str, int, int], participation: float, regime: str, method: str, metric: str
) -> Figure | None:
    """Find a figure in the first of the tables that has it."""
    for table in tables:
        key = Key(table, *of, participation, regime, method, metric)
        if key in figures():
            return figures()[key]
    return None


def _key(row: dict[str, str]) -> Key:
    data = row["functions"], row["graph"], int(row["nodes"]), int(row["n_per_client"])
    return Key(row["table"], *data, float(row["participation"]), row["regime"], row["method"], row["metric"])


def _figure(row: dict[str, str]) -> Figure | None:
    if not row["mean"]:
        return None
    digits = len(row["mean"].partition(".")[2])
    return Figure(float(row["mean"]), float(row["std"]), 10.0**-digits / 2)
