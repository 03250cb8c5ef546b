"""Tables like one table: new rows whose variables depend on one another as they do there.

Each column is regressed on smooth functions of those before it. A new row takes its value of a column from a row of the
table for which the regression predicts nearly the same (predictive mean matching: Little, Journal of Business &
Economic Statistics 6, 1988). So values, rounding and levels are those of the table, and no row of it comes back whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from feddag.regression.features import FUNCTIONS, ContrastFeatures, Frame, level_counts
from feddag.silos import Silo
from feddag.silos.preparation import AS_IT_IS

DONORS = 5
"""Rows among which the one that gives its value is drawn."""
_PENALTIES = np.logspace(-3, 4, 15)


@dataclass(frozen=True)
class Regression:
    """A ridge regression whose penalty generalised cross-validation has chosen."""

    origin: Float[np.ndarray, " feature"]
    mean: Float[np.ndarray, " target"]
    weights: Float[np.ndarray, "feature target"]
    variance: float
    """The variance that is left unexplained, over all targets."""

    @classmethod
    def fit(cls, features: Float[np.ndarray, "row feature"], targets: Float[np.ndarray, "row target"]) -> Regression:
        """Regress each target on the features."""
        origin, mean, rows = features.mean(axis=0), targets.mean(axis=0), len(features)
        left, sizes, right = np.linalg.svd(features - origin, full_matrices=False)
        projected = left.T @ (targets - mean)
        total = float(((targets - mean) ** 2).sum())
        best = (np.inf, _PENALTIES[-1], total)
        for penalty in _PENALTIES:
            kept = sizes**2 / (sizes**2 + penalty)
            misfit = total - float(((1 - (1 - kept) ** 2) @ projected**2).sum())
            freedom = max(rows - 1 - kept.sum(), 1e-9)
            best = min(best, (misfit / freedom**2, penalty, misfit / freedom))
        shrunk = sizes / (sizes**2 + best[1])
        return cls(origin, mean, right.T @ (shrunk[:, None] * projected), max(best[2], 0.0))

    def predict(self, features: Float[np.ndarray, "row feature"]) -> Float[np.ndarray, "row target"]:
        """Return the expected targets."""
        return self.mean + (features - self.origin) @ self.weights


class Population:
    """The law that a table's rows are taken to come from."""

    def __init__(self, silo: Silo) -> None:
        self._silo = silo
        self._levels = level_counts(silo.kinds)
        values = silo.values
        self._frame = Frame.of(values.mean(axis=0), values.var(axis=0), self._levels)
        self._functions = self.functions(values)

    @property
    def discrete(self) -> Int[np.ndarray, " column"]:
        """The levels of each column; 0 for a number."""
        return self._levels

    def functions(self, values: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row feature"]:
        """Return `FUNCTIONS` smooth functions of each column, one column after the other."""
        return ContrastFeatures(self._frame.standardise(values), self._levels).coarse()

    def targets(self, functions: Float[np.ndarray, "row feature"], column: int) -> Float[np.ndarray, "row target"]:
        """Return what stands for a column in a regression: the number itself, or the contrasts of its levels."""
        start = column * FUNCTIONS
        return functions[:, start : start + (FUNCTIONS if self._levels[column] else 1)]

    @cached_property
    def _steps(self) -> list[tuple[Regression, KDTree]]:
        """For each column but the first, its regression on those before it, and where each row of the table lies."""
        steps = []
        for column in range(1, len(self._levels)):
            before = self._functions[:, : column * FUNCTIONS]
            regression = Regression.fit(before, self.targets(self._functions, column))
            steps.append((regression, KDTree(regression.predict(before))))
        return steps

    def draw(self, rows: int, rng: np.random.Generator) -> Float[np.ndarray, "row column"]:
        """Draw new rows."""
        table = self._silo.values
        drawn = np.zeros((rows, table.shape[1]))
        drawn[:, 0] = rng.choice(table[:, 0], rows)
        donors = min(DONORS, len(table))
        for column, (regression, places) in enumerate(self._steps, start=1):
            functions = self.functions(drawn)[:, : column * FUNCTIONS]
            _, nearest = places.query(regression.predict(functions), k=donors)
            chosen = np.reshape(nearest, (rows, donors))[np.arange(rows), rng.integers(donors, size=rows)]
            drawn[:, column] = table[chosen, column]
        return drawn

    def silo(self, values: Float[np.ndarray, "row column"], name: str) -> Silo:
        """Return rows as a site's table; what experiments set in them is as in the table's rows, in turn."""
        targets = None if self._silo.targets is None else np.resize(self._silo.targets, values.shape)
        return replace(self._silo, name=name, values=np.ascontiguousarray(values), account=AS_IT_IS, targets=targets)

    def regress_on_others(self, values: Float[np.ndarray, "row column"], column: int) -> Regression:
        """Regress a column on smooth functions of all others."""
        return Regression.fit(without(self.functions(values), column), values[:, [column]])


def without(functions: Float[np.ndarray, "row feature"], column: int) -> Float[np.ndarray, "row feature"]:
    """Return the functions of all columns but one."""
    return np.delete(functions, np.s_[column * FUNCTIONS : (column + 1) * FUNCTIONS], axis=1)
