"""How far two variables depend on each other given some others: by straight lines, or by tables of levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_LEAST_LEFT = 1e-9
"""The least share of a column's variance that others leave unexplained: below it they tell the column."""
_FEWEST_ROWS = 3
"""A table of so few rows tells nothing."""


class PairDependence(NamedTuple):
    """How far two variables depend on each other given some others, in one site's rows."""

    excess: float
    """A statistic of dependence less what it is by chance, per row."""
    variance: float
    """By how much that varies by chance, per row."""
    correlation: float = 0.0
    """The partial correlation of two numbers; 0 where one of the two is discrete."""


def line_dependence(
    child: Float[np.ndarray, " row"], other: Float[np.ndarray, "row column"], given: Float[np.ndarray, "row column"]
) -> PairDependence:
    """Regress a number on another variable's columns beside given ones, by straight lines with normal noise.

    Twice what the log-likelihood rises by is the number of columns by chance, with a variance of twice that.
    """
    rows = len(child)
    both = np.column_stack([child, other])
    both = both - both.mean(axis=0)
    given = given - given.mean(axis=0)
    left = both - given @ np.linalg.lstsq(given, both, rcond=None)[0] if given.shape[1] else both
    variances, before = (left**2).mean(axis=0), np.maximum((both**2).mean(axis=0), np.finfo(float).tiny)
    told = variances > _LEAST_LEFT * before
    columns, number = left[:, 1:][:, told[1:]], left[:, 0]
    if not told[0] or not columns.shape[1]:
        return PairDependence(0.0, 0.0)
    unexplained = number - columns @ np.linalg.lstsq(columns, number, rcond=None)[0]
    share = max(float((unexplained**2).mean()) / float(variances[0]), _LEAST_LEFT)
    correlation = float(np.corrcoef(number, columns[:, 0])[0, 1]) if other.shape[1] == 1 else 0.0
    by_chance = columns.shape[1] / rows
    return PairDependence(-float(np.log(share)) - by_chance, 2 * by_chance, correlation)


def table_dependence(counts: Int[np.ndarray, "given one other"]) -> PairDependence:
    """Compare the counts of two variables' levels, for each combination of given levels, with chance.

    That is Pearson's statistic, summed over the combinations. Its mean and variance by chance are those of all tables
    with the same margins (Haldane 1940; Dawson 1954): they hold for few rows in many cells, too.
    """
    rows = max(int(counts.sum()), 1)
    counts = counts[counts.sum(axis=(1, 2)) > _FEWEST_ROWS].astype(float)
    one, other = counts.sum(axis=2), counts.sum(axis=1)
    total, ones, others = one.sum(axis=1), (one > 0).sum(axis=1), (other > 0).sum(axis=1)
    by_margins = one[:, :, None] * other[:, None, :]
    squares = np.divide(counts**2, by_margins, out=np.zeros_like(counts), where=by_margins > 0)
    statistic = total * (squares.sum(axis=(1, 2)) - 1)
    by_chance = total * (ones - 1) * (others - 1) / (total - 1)
    spreads, uneven = np.ones(len(total)), np.ones(len(total))
    for margin, levels in ((one, ones), (other, others)):
        inverse = np.divide(1, margin, out=np.zeros_like(margin), where=margin > 0).sum(axis=1)
        unevenness = (total * inverse - levels**2) / (total - 2)
        spreads *= (levels - 1) * (total - levels) / (total - 1) - unevenness
        uneven *= unevenness
    variance = 2 * total / (total - 3) * spreads + total**2 / (total - 1) * uneven
    return PairDependence(float((statistic - by_chance).sum() / rows), float(np.maximum(variance, 0.0).sum() / rows))


def deviations_from_chance(
    excess: Float[np.ndarray, " pair"],
    variance: Float[np.ndarray, " pair"],
    correlation: Float[np.ndarray, " pair"],
    rows: float,
) -> Float[np.ndarray, " pair"]:
    """Return by how many standard deviations pairs depend more than by chance, by the stronger of two signs.

    Where the dependences of sites point the same way the mean partial correlation tells more than each site's own.
    Each argument but the last is the mean over sites, weighted by rows, of what these say (`PairDependence`).
    """
    of_each = np.divide(rows * excess, np.sqrt(rows * variance), out=np.zeros(len(excess)), where=variance > 0)
    together = (rows * correlation**2 - 1) / np.sqrt(2)
    return np.where(correlation != 0, np.maximum(of_each, together), of_each)
