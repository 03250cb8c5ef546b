"""Few values so far from all others of their column that what is learned of it is about them.

Mostly slips of typing, or numbers that stand for "not recorded".
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from feddag.silos.silo import Silo

FEW = 0.01
"""The greatest share of a column's values that count as few; one value always does."""
MOST_OF_THE_VARIANCE = 0.5
"""The share of the spread that few values must make up for a warning."""


def outlier_warnings(silos: Iterable[Silo]) -> list[str]:
    """Warn of each column with outliers, at the first site that has them. Show it to that site only: it has values."""
    found: dict[str, list[str]] = {}
    for silo in silos:
        for name, kind, values in zip(silo.columns, silo.kinds, silo.values.T, strict=True):
            if not kind.discrete and (warning := _far(values)):
                found.setdefault(name, []).append(f"Site {silo.name!r}, column {name!r}: {warning}")
    return [first + (f" The same at {len(others)} more sites." if others else "") for first, *others in found.values()]


def has_outliers(values: Float[np.ndarray, " row"]) -> bool:
    """Say whether few values make up most of a column's spread."""
    return bool(_shares(values)[max(1, math.floor(FEW * len(values))) - 1] > MOST_OF_THE_VARIANCE)


def _shares(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """Return the share of the spread that the farthest value makes up, the two farthest, and so on."""
    farthest = np.sort((values - np.median(values)) ** 2)[::-1]
    return farthest.cumsum() / (farthest.sum() or 1.0)


def _far(values: Float[np.ndarray, " row"]) -> str | None:
    if not has_outliers(values):
        return None
    squares, shares = (values - np.median(values)) ** 2, _shares(values)
    farthest = np.sort(squares)[::-1]
    needed = np.searchsorted(shares, MOST_OF_THE_VARIANCE, side="right")
    is_far = squares >= farthest[needed] / 4  # and those half as far
    far, others = np.unique(values[is_far]), values[~is_far]
    given = f"{far[0]:g}" if len(far) == 1 else f"{far[0]:g} to {far[-1]:g}"
    several = "1 value" if is_far.sum() == 1 else f"{is_far.sum()} values"
    share = squares[is_far].sum() / squares.sum()
    return (
        f"{share:.0%} of the spread is {several} of {len(values)} ({given}); all others lie between "
        f"{others.min():g} and {others.max():g}. What is learned of the column is about these rows: "
        "mend them, declare the values missing or, if they are right, take logarithms (a study: transform = 'log')."
    )
