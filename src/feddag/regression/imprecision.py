"""Whether small errors of measurement would explain an edge.

Columns that measure one cause's effects imprecisely all go together: given the measured cause, each still tells about
the others, and the evidence for edges between them grows with the rows. No column says how precise it is. So an edge
between two variables that have neighbours in common is held against these, and against all other causes of its effect:
if the two were independent given what these stand for, some of them being measured with an error that is a small share
of its variance, the edge may be none. Straight lines show it, between columns as they are or bent to be normal.

A column vouches for itself where it separates others. Two variables that hang together through their causes are
independent given these; were one of these measured with an error, they would not be. So separations that are there
tell how large a column's errors can be at most, and one that is surely precise explains nothing. Where all separations
together surely leave more than precise columns would, errors are in the data, and larger ones count, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import NamedTuple

import networkx as nx
import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from feddag.silos.quantiles import normal_quantiles

SHARES = (0.05, 0.1)
"""The shares of a column's variance that errors of measurement may make up."""
_NEIGHBOURS, _TOGETHER = 4, 2
"""So many common neighbours are held against an edge, those that are nearest to both; so many of them at once."""
_MOST_CAUSES = 5
"""Of so many other causes any may have errors; of more, each by itself or all."""
_LEAST_LEFT = 1e-3
"""Of the neighbours' variance, in any direction, that is more than their errors."""
_PRECISE = 0.25
"""A column is precise if its errors are surely less than so much of the smallest of `SHARES`."""
_SURELY = 2.0
"""Standard errors."""
VIEWS = 2
"""Columns as they are, and bent to be normal."""


class Separations(NamedTuple):
    """What separations by each column tell of its errors, per row: estimates of it add up over sites, by weight."""

    errors: Float[np.ndarray, "*view number"]
    """The share of the smallest of `SHARES` that its errors seem to be, times the weight."""
    error_weights: Float[np.ndarray, "*view number"]
    """One over the variance of that share in one row."""


def separations(
    values: Float[np.ndarray, "row number"],
    numbers: Int[np.ndarray, " number"],
    dag: Int8[np.ndarray, "node node"],
    effects: Bool[np.ndarray, " node"],
) -> Separations:
    """Say how large errors of columns are, by what is left between others that they separate in a graph.

    Each of the `effects` is held against all that it does not act on, given its causes: what is left between the two is
    compared with what errors of one of these causes would leave. Only columns of numbers tell, which `values` are.
    """
    graph, is_number = nx.DiGraph(dag), np.isin(np.arange(len(dag)), numbers)
    found = Separations(*np.zeros((2, VIEWS, len(dag))))
    views = _correlations(values)
    for effect in np.flatnonzero(effects & is_number & dag.any(axis=0)).tolist():
        is_cause = dag[:, effect] > 0
        acted_on = np.isin(np.arange(len(dag)), [effect, *nx.descendants(graph, effect)])
        causes, others = (
            np.searchsorted(numbers, np.flatnonzero(each)) for each in (is_cause, is_number & ~is_cause & ~acted_on)
        )
        for view, correlations in enumerate(views):
            within = correlations[np.ix_(causes, causes)] if is_number[is_cause].all() else np.zeros((1, 1))
            if len(others) and np.linalg.eigvalsh(within)[0] > SHARES[0] + _LEAST_LEFT:
                told = _told_of_causes(correlations, causes, others, int(np.searchsorted(numbers, effect)))
                found.errors[view, is_cause] += told.errors
                found.error_weights[view, is_cause] += told.error_weights
    return found


def _told_of_causes(
    correlations: Float[np.ndarray, "number number"],
    causes: Int[np.ndarray, " cause"],
    others: Int[np.ndarray, " other"],
    effect: int,
) -> Separations:
    """Compare what is left between an effect and others given its causes with what errors of each cause would leave."""
    pairs = np.append(others, effect)
    within, given = correlations[np.ix_(causes, causes)], correlations[np.ix_(causes, pairs)]
    unexplained = correlations[np.ix_(pairs, pairs)] - given.T @ np.linalg.solve(within, given)
    left = unexplained[:-1, -1]
    variances = np.maximum(np.diag(unexplained)[:-1] * unexplained[-1, -1], _LEAST_LEFT**2)
    errors, weights = np.zeros((2, len(causes)))
    for k in range(len(causes)):
        precise = within.copy()
        precise[k, k] -= SHARES[0]
        left_if_errors = correlations[others, effect] - given[:, :-1].T @ np.linalg.solve(precise, given[:, -1])
        by_errors = left - left_if_errors
        errors[k] = (by_errors * left / variances).sum()
        weights[k] = (by_errors**2 / variances).sum()
    return Separations(errors, weights)


def surely_precise(found: Separations, rows: float) -> Bool[np.ndarray, " number"]:
    """Say which columns are precise in one view, by the mean of what sites with so many rows in all answer."""
    share, margin = _estimate(found, rows)
    return np.asarray((np.maximum(share, 0) + margin < _PRECISE).any(axis=0))


def surely_imprecise(found: Separations, rows: float) -> bool:
    """Say whether the columns together have errors of measurement in each view."""
    together = Separations(found.errors.sum(axis=1), found.error_weights.sum(axis=1))
    share, margin = _estimate(together, rows)
    return bool((share - margin > _PRECISE).all())


def _estimate(found: Separations, rows: float) -> tuple[np.ndarray, np.ndarray]:
    """Return errors as a share of the smallest of `SHARES`, and how far off that may be."""
    weights = np.maximum(found.error_weights, np.finfo(float).tiny)
    return found.errors / weights, _SURELY / np.sqrt(rows * weights)


def explained_by_errors(
    values: Float[np.ndarray, "row number"],
    dag: Bool[np.ndarray, "number number"],
    edges: Int[np.ndarray, "edge 2"],
    precise: Bool[np.ndarray, " number"],
) -> Bool[np.ndarray, "edge share"]:
    """Say of each edge whether errors of such shares would explain it, of columns that are not known to be precise."""
    views, shares = _correlations(values), [share * ~precise for share in SHARES]
    return np.array(
        [
            [any(_explains(correlations, dag, i, j, each) for correlations in views) for each in shares]
            for i, j in edges.tolist()
        ],
        dtype=bool,
    ).reshape(len(edges), len(SHARES))


def most_by_errors(evidence: float) -> float:
    """Return the most log-evidence per row that others regain of a cause, if small errors hide a part of it.

    Args:
        evidence: What the cause tells about its effect, per row: half the logarithm of one plus its share of the
            variance, in units of the noise. Errors leave so much of that share to others.
    """
    return 0.5 * float(np.log1p(SHARES[0] * np.expm1(2 * max(evidence, 0.0))))


def _correlations(values: Float[np.ndarray, "row number"]) -> list[Float[np.ndarray, "number number"]]:
    """Return the correlations of the columns as they are, and bent."""
    found = []
    for each in (values, normal_quantiles(values)):
        centred = each - each.mean(axis=0)
        centred /= np.maximum(np.sqrt((centred**2).sum(axis=0)), 1e-9)
        found.append(centred.T @ centred)
    return found


def _explains(
    correlations: Float[np.ndarray, "number number"],
    dag: Bool[np.ndarray, "number number"],
    cause: int,
    effect: int,
    shares: Float[np.ndarray, " number"],
) -> bool:
    adjacent = dag | dag.T
    common = np.flatnonzero(adjacent[cause] & adjacent[effect])
    by_few = any(
        _vanishes(correlations, cause, effect, list(given), shares[list(given)])
        for given in _sets(correlations, common, cause, effect)
    )
    others = [node for node in np.flatnonzero(dag[:, effect]).tolist() if node != cause]
    return by_few or any(_vanishes(correlations, cause, effect, others, each) for each in _some_of(shares[others]))


def _some_of(shares: Float[np.ndarray, " other"]) -> Iterator[Float[np.ndarray, " other"]]:
    """Give errors to some of the columns that may have any."""
    may_have = np.flatnonzero(shares)
    if len(may_have) > _MOST_CAUSES:
        yield from (shares, *np.diag(shares)[may_have])
        return
    for chosen in product((0, 1), repeat=len(may_have)):
        some = np.zeros(len(shares))
        some[may_have] = shares[may_have] * chosen
        yield some


def _sets(
    correlations: Float[np.ndarray, "number number"], common: Iterable[int], one: int, other: int
) -> Iterator[tuple[int, ...]]:
    near = sorted(common, key=lambda k: -min(abs(correlations[one, k]), abs(correlations[other, k])))[:_NEIGHBOURS]
    for size in range(1, _TOGETHER + 1):
        yield from combinations(near, size)


def _vanishes(
    correlations: Float[np.ndarray, "number number"],
    one: int,
    other: int,
    given: list[int],
    shares: Float[np.ndarray, " given"],
) -> bool:
    """Say whether two columns are independent given others, with errors of some shares up to these."""
    if not shares.any():
        return False
    within = correlations[np.ix_(given, given)]
    precise = within - np.diag(shares)
    if np.linalg.eigvalsh(precise)[0] < _LEAST_LEFT:
        return True
    left, left_if_precise = (
        correlations[one, other] - correlations[one, given] @ np.linalg.solve(each, correlations[given, other])
        for each in (within, precise)
    )
    return bool(left * left_if_precise <= 0)
