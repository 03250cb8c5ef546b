"""Whether small errors of measurement would explain an edge.

Columns that measure one cause's effects imprecisely all go together: given the measured cause, each still tells about
the others, and the evidence for edges between them grows with the rows. No column says how precise it is. So an edge
between two variables that have neighbours in common is held against these: if the two were independent given what the
neighbours stand for, each of these being measured with an error that is a small share of its variance, the edge may be
none. Straight lines between columns that are bent to be normal show it.

A column vouches for itself where it separates others. Two variables that hang together through their causes are
independent given these; were one of these measured with an error, they would not be. So separations that are there
tell how large a column's errors can be at most, and one that is surely precise explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

import networkx as nx
import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from feddag.silos.quantiles import normal_quantiles

SHARES = (0.05, 0.1)
"""The shares of a column's variance that errors of measurement may make up."""
_NEIGHBOURS, _TOGETHER = 4, 2
"""So many common neighbours are held against an edge, those that are nearest to both; so many of them at once."""
_LEAST_LEFT = 1e-3
"""Of the neighbours' variance, in any direction, that is more than their errors."""
_PRECISE = 0.25
"""A column is precise if its errors are surely less than so much of the smallest of `SHARES`."""


class Separations(NamedTuple):
    """What separations by each column tell of its errors, per row: estimates of it add up over sites, by weight."""

    errors: Float[np.ndarray, " number"]
    """The share of the smallest of `SHARES` that its errors seem to be, times the weight."""
    error_weights: Float[np.ndarray, " number"]
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
    correlations, graph = _correlations(values), nx.DiGraph(dag)
    is_number = np.isin(np.arange(len(dag)), numbers)
    errors, weights = np.zeros((2, len(dag)))
    for effect in np.flatnonzero(effects & is_number & dag.any(axis=0)).tolist():
        is_cause = dag[:, effect] > 0
        acted_on = np.isin(np.arange(len(dag)), [effect, *nx.descendants(graph, effect)])
        causes, others = (
            np.searchsorted(numbers, np.flatnonzero(each)) for each in (is_cause, is_number & ~is_cause & ~acted_on)
        )
        within = correlations[np.ix_(causes, causes)] if is_number[is_cause].all() else np.zeros((1, 1))
        if len(others) and np.linalg.eigvalsh(within)[0] > SHARES[0] + _LEAST_LEFT:
            told = _told_of_causes(correlations, causes, others, int(np.searchsorted(numbers, effect)))
            errors[is_cause] += told.errors
            weights[is_cause] += told.error_weights
    return Separations(errors, weights)


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
    """Say which columns are precise, by the mean of what sites with so many rows in all answer."""
    weights = np.maximum(found.error_weights, np.finfo(float).tiny)
    margin = 2 / np.sqrt(rows * weights)
    return np.maximum(found.errors / weights, 0) + margin < _PRECISE


def explained_by_errors(
    values: Float[np.ndarray, "row number"],
    adjacent: Bool[np.ndarray, "number number"],
    edges: Int[np.ndarray, "edge 2"],
    precise: Bool[np.ndarray, " number"],
) -> Bool[np.ndarray, "edge share"]:
    """Say of each edge whether errors of such shares would explain it, of columns that are not known to be precise."""
    correlations = _correlations(values)
    shares = [share * ~precise for share in SHARES]
    return np.array(
        [[_explains(correlations, adjacent, i, j, each) for each in shares] for i, j in edges.tolist()],
        dtype=bool,
    ).reshape(len(edges), len(SHARES))


def _correlations(values: Float[np.ndarray, "row number"]) -> Float[np.ndarray, "number number"]:
    normal = normal_quantiles(values)
    normal -= normal.mean(axis=0)
    normal /= np.maximum(np.sqrt((normal**2).sum(axis=0)), 1e-9)
    return normal.T @ normal


def _explains(
    correlations: Float[np.ndarray, "number number"],
    adjacent: Bool[np.ndarray, "number number"],
    one: int,
    other: int,
    shares: Float[np.ndarray, " number"],
) -> bool:
    return any(
        _vanishes(correlations, one, other, list(given), shares[list(given)])
        for given in _sets(correlations, np.flatnonzero(adjacent[one] & adjacent[other]), one, other)
    )


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
