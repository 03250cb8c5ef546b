"""Put values into the missing cells of one site's table that go with the rest of their rows.

A constant, such as the median, weakens what a column has to do with all others, and heaps rows up at one value. So each
missing value is drawn from the column's own values: that of one of the few rows whose value the other columns predict
to be about the same. The columns take turns, several times, since each is predicted from what was put into the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import KDTree

from feddag.silos.quantiles import normal_quantiles
from feddag.silos.variable_types import Kind

_TURNS = 5
_MOST_DONORS = 5_000
"""So many rows, evenly spaced, give values."""
_NEAREST = 5
"""One of so many donors is drawn, those whose values are predicted to be nearest."""
_DEGREES = 3
"""Numbers predict by powers up to this."""
_ROWS_PER_FUNCTION = 6
"""Products of two columns predict where there are so many rows for each function."""
_RIDGE = 1.0


def impute(
    values: Float[np.ndarray, "row column"], absent: Bool[np.ndarray, "row column"], kinds: Sequence[Kind]
) -> Float[np.ndarray, "row column"]:
    """Return the table without missing values; each column must have some."""
    rng = np.random.default_rng(0)
    filled = values.copy()
    for column in np.flatnonzero(absent.any(axis=0)):
        present = values[~absent[:, column], column]
        filled[absent[:, column], column] = rng.choice(present, absent[:, column].sum())
    functions = [_functions(column, kind) for column, kind in zip(filled.T, kinds, strict=True)]
    turns = sorted(np.flatnonzero(absent.any(axis=0)).tolist(), key=lambda column: int(absent[:, column].sum()))
    for _ in range(_TURNS):
        for column in turns:
            gaps, donors = (np.flatnonzero(here) for here in (absent[:, column], ~absent[:, column]))
            donors = donors[np.linspace(0, len(donors) - 1, min(len(donors), _MOST_DONORS)).astype(int)]
            others = [each for k, each in enumerate(functions) if k != column]
            of_donors, of_gaps = _predict(others, functions[column], donors, gaps)
            chosen = _nearest(of_donors, of_gaps, rng)
            filled[gaps, column] = values[donors[chosen], column]
            functions[column] = _functions(filled[:, column], kinds[column])
    return filled


def _functions(column: Float[np.ndarray, " row"], kind: Kind) -> Float[np.ndarray, "row function"]:
    """Return powers of a number that is bent to be normal, or an indicator of each level but the first."""
    if kind.discrete:
        return (column[:, None] == np.arange(1, len(kind.levels))).astype(float)
    return np.polynomial.hermite_e.hermevander(normal_quantiles(column), _DEGREES)[:, 1:] / np.sqrt([1.0, 2.0, 6.0])


def _predict(
    others: Sequence[Float[np.ndarray, "row function"]],
    own: Float[np.ndarray, "row target"],
    donors: Int[np.ndarray, " donor"],
    gaps: Int[np.ndarray, " gap"],
) -> tuple[Float[np.ndarray, "donor target"], Float[np.ndarray, "gap target"]]:
    """Predict the functions of a column from all other columns, by a regression on rows that have it."""
    seen, unseen = (_features([each[rows] for each in others], len(donors)) for rows in (donors, gaps))
    centre = seen.mean(axis=0)
    seen, unseen, target = seen - centre, unseen - centre, own[donors] - own[donors].mean(axis=0)
    weights = np.linalg.solve(seen.T @ seen + _RIDGE * np.eye(seen.shape[1]), seen.T @ target)
    return seen @ weights, unseen @ weights


def _features(parts: Sequence[Float[np.ndarray, "row function"]], rows: int) -> Float[np.ndarray, "row feature"]:
    """Return functions of single columns and, if a regression on so many rows has room for them, products of two."""
    count = sum(part.shape[1] for part in parts) + len(parts) * (len(parts) - 1) // 2
    products = combinations(parts, 2) if count * _ROWS_PER_FUNCTION <= rows else ()
    return np.concatenate([*parts, *(one[:, :1] * other[:, :1] for one, other in products)], axis=1)


def _nearest(
    of_donors: Float[np.ndarray, "donor target"], of_gaps: Float[np.ndarray, "gap target"], rng: np.random.Generator
) -> Int[np.ndarray, " gap"]:
    """Draw for each gap one of the donors that are predicted to be nearest."""
    several = min(_NEAREST, len(of_donors))
    near = np.asarray(KDTree(of_donors).query(of_gaps, k=several)[1]).reshape(len(of_gaps), several)
    return near[np.arange(len(of_gaps)), rng.integers(several, size=len(of_gaps))]
