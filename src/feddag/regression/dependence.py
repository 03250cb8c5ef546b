"""How far two variables depend on each other given some others: by straight lines, or by tables of levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_LEAST_LEFT = 1e-9
"""The least share of a column's variance that others leave unexplained: below it they tell the column."""


class PairDependence(NamedTuple):
    """How far one variable depends on another given some others, in one site's rows."""

    gain: float
    """By how much the other variable raises the log-likelihood of a row."""
    size: float
    """With how many further parameters, per row."""
    correlation: float
    """The partial correlation of two numbers; 0 where one of the two is discrete."""


def line_dependence(
    child: Float[np.ndarray, " row"], other: Float[np.ndarray, "row column"], given: Float[np.ndarray, "row column"]
) -> PairDependence:
    """Regress a number on another variable's columns beside given ones, by straight lines with normal noise."""
    rows = len(child)
    both = np.column_stack([child, other])
    both = both - both.mean(axis=0)
    given = given - given.mean(axis=0)
    left = both - given @ np.linalg.lstsq(given, both, rcond=None)[0] if given.shape[1] else both
    variances, before = (left**2).mean(axis=0), np.maximum((both**2).mean(axis=0), np.finfo(float).tiny)
    told = variances > _LEAST_LEFT * before
    columns, number = left[:, 1:][:, told[1:]], left[:, 0]
    if not told[0] or not columns.shape[1]:
        return PairDependence(0.0, 0.0, 0.0)
    unexplained = number - columns @ np.linalg.lstsq(columns, number, rcond=None)[0]
    share = max(float((unexplained**2).mean()) / float(variances[0]), _LEAST_LEFT)
    single = other.shape[1] == 1
    correlation = float(np.corrcoef(number, columns[:, 0])[0, 1]) if single else 0.0
    return PairDependence(-0.5 * float(np.log(share)), columns.shape[1] / rows, correlation)


def excess_dependence(
    gain: Float[np.ndarray, " pair"],
    size: Float[np.ndarray, " pair"],
    correlation: Float[np.ndarray, " pair"],
    rows: float,
) -> Float[np.ndarray, " pair"]:
    """Return by how many standard deviations pairs depend more than by chance, by the stronger of two signs.

    Of sites whose dependences point the same way the mean partial correlation tells more than each site's own gain.

    Args:
        gain: The mean of all sites' gains, weighted by rows.
        size: The same of the numbers of parameters per row.
        correlation: The same of partial correlations.
        rows: The number of rows of all sites.
    """
    together = rows * correlation**2 / 2
    return np.maximum(excess_fit(rows * gain, rows * size), excess_fit(together, np.where(correlation != 0, 1.0, 0.0)))


def excess_fit(
    gain: Float[np.ndarray, " comparison"], parameters: Float[np.ndarray, " comparison"]
) -> Float[np.ndarray, " comparison"]:
    """Return by how many standard deviations a log-likelihood rises more than by chance.

    Free parameters that nothing needs raise it by half their number on average (Wilks 1938).

    Args:
        gain: By how much the log-likelihood rises.
        parameters: By how many free parameters.
    """
    by_chance = np.maximum(parameters / 2, np.finfo(float).tiny)
    return np.where(parameters > 0, (gain - by_chance) / np.sqrt(by_chance), 0.0)
