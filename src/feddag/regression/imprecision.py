"""Whether small errors of measurement would explain an edge.

Columns that measure one cause's effects imprecisely all go together: given the measured cause, each still tells about
the others, and the evidence for edges between them grows with the rows. No column says how precise it is. So an edge
between two variables that have neighbours in common is held against these: if the two were independent given what the
neighbours stand for, each of these being measured with an error that is a small share of its variance, the edge may be
none. Straight lines between columns that are bent to be normal show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Int

from feddag.silos.quantiles import normal_quantiles

SHARES = (0.05, 0.1)
"""The shares of a column's variance that errors of measurement may make up."""
_NEIGHBOURS, _TOGETHER = 4, 2
"""So many common neighbours are held against an edge, those that are nearest to both; so many of them at once."""
_LEAST_LEFT = 1e-3
"""Of the neighbours' variance, in any direction, that is more than their errors."""


def explained_by_errors(
    values: Float[np.ndarray, "row number"],
    adjacent: Bool[np.ndarray, "number number"],
    edges: Int[np.ndarray, "edge 2"],
) -> Bool[np.ndarray, "edge share"]:
    """Say of each edge whether errors of such shares would explain it."""
    normal = normal_quantiles(values)
    normal -= normal.mean(axis=0)
    normal /= np.maximum(np.sqrt((normal**2).sum(axis=0)), 1e-9)
    correlations = normal.T @ normal
    return np.array(
        [[_explains(correlations, adjacent, i, j, share) for share in SHARES] for i, j in edges.tolist()],
        dtype=bool,
    ).reshape(len(edges), len(SHARES))


def _explains(
    correlations: Float[np.ndarray, "number number"],
    adjacent: Bool[np.ndarray, "number number"],
    one: int,
    other: int,
    share: float,
) -> bool:
    return any(
        _vanishes(correlations, one, other, list(given), share)
        for given in _sets(correlations, np.flatnonzero(adjacent[one] & adjacent[other]), one, other)
    )


def _sets(
    correlations: Float[np.ndarray, "number number"], common: Iterable[int], one: int, other: int
) -> Iterator[tuple[int, ...]]:
    near = sorted(common, key=lambda k: -min(abs(correlations[one, k]), abs(correlations[other, k])))[:_NEIGHBOURS]
    for size in range(1, _TOGETHER + 1):
        yield from combinations(near, size)


def _vanishes(
    correlations: Float[np.ndarray, "number number"], one: int, other: int, given: list[int], share: float
) -> bool:
    """Say whether two columns are independent given others, with errors of some share up to this one."""
    within = correlations[np.ix_(given, given)]
    precise = within - share * np.eye(len(given))
    if np.linalg.eigvalsh(precise)[0] < _LEAST_LEFT:
        return True
    left, left_if_precise = (
        correlations[one, other] - correlations[one, given] @ np.linalg.solve(each, correlations[given, other])
        for each in (within, precise)
    )
    return bool(left * left_if_precise <= 0)
