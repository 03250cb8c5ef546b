"""One variable given its parents: a regression fitted to some rows, and how likely it finds others.

Numbers get the Gaussian-process regression of the evidence search: linear where that is enough, else with waves of each
parent and of several together, as the evidence decides. What it says of a new row is the exact posterior prediction,
a Student distribution, so that few rows mean wide predictions rather than wrong ones. Categories get a multinomial
logistic regression, linear or with waves of each parent. Parents that are categories enter as indicators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular
from scipy.stats import t as student

from feddag.learners.search.discrete import (
    VARIANCES,
    Levels,
    LogLikelihood,
    climbed,
    contrasts,
    log_probabilities,
    precisions,
)
from feddag.learners.search.evidence import (
    FUNCTIONS,
    LINEAR_WEIGHT,
    ROWS_PER_JOINT_FUNCTION,
    Features,
    best_fit,
    centred_gram,
    layers,
    may_be_summed,
    most_joint_functions,
)

_LEAST_RESIDUAL = 1e-9
"""The share of its variance below which a variable counts as determined by its parents."""


@dataclass(frozen=True)
class Frame:
    """What numbers are standardised with, and the number of levels of each column that holds categories."""

    origin: Float[np.ndarray, " node"]
    scale: Float[np.ndarray, " node"]
    levels: Int[np.ndarray, " node"]
    """0 for a number."""

    @classmethod
    def of(cls, mean: np.ndarray, variance: np.ndarray, levels: np.ndarray) -> Frame:
        """Categories stay as they are, and so do columns without variation."""
        numbers = levels == 0
        return cls(np.where(numbers, mean, 0.0), np.where(numbers & (variance > 0), np.sqrt(variance), 1.0), levels)


class Design:
    """The functions of a table's columns that regressions are made of."""

    def __init__(self, values: Float[np.ndarray, "row node"], frame: Frame) -> None:
        self.frame = frame
        self.values = (values - frame.origin) / frame.scale
        self._features = Features(np.where(frame.levels == 0, self.values, 0.0))

    def functions(self, parents: Sequence[int], rows: int, *, summed: bool = False) -> Float[np.ndarray, "row feature"]:
        """Those of one set of parents, in the layers of `layer_ends`, for a regression that is fitted to so many rows.

        Linear functions and indicators come first, then waves of single parents, then products of indicators with these
        and with each other if rows allow, and then waves of several parents.
        """
        numbers = tuple(parent for parent in parents if not self.frame.levels[parent])
        linear, single = len(numbers), len(numbers) * FUNCTIONS
        waves = self._features.joint(numbers, most_joint_functions(rows))
        indicators = [self._indicators(parent) for parent in parents if self.frame.levels[parent]]
        products = [_products(each, waves[:, :single]) for each in indicators]
        products += [_products(one, other) for k, one in enumerate(indicators) for other in indicators[:k]]
        if not _mixed(parents, self.frame.levels, rows):
            products = []
        every = [waves[:, :linear], *indicators, waves[:, linear:single], *products, waves[:, single:]]
        return np.concatenate(every, axis=1)[:, : layer_ends(parents, self.frame.levels, rows, summed=summed)[-1]]

    def _indicators(self, column: int) -> Float[np.ndarray, "row level"]:
        return LINEAR_WEIGHT * (self.values[:, column, None] == np.arange(self.frame.levels[column]))

    def codes(self, column: int) -> Int[np.ndarray, " row"]:
        return self.values[:, column].astype(int)


def layer_ends(
    parents: Sequence[int], levels: Int[np.ndarray, " node"], rows: int, *, summed: bool = False
) -> list[int]:
    """Where the layers of `Design.functions` end.

    If sites sum the products of functions over all their rows, there are fewer layers, but the first in any case.
    """
    indicators = int(sum(levels[parent] for parent in parents))
    linear, additive, *joint = layers(sum(not levels[parent] for parent in parents), most_joint_functions(rows))
    shift = indicators + _mixed(parents, levels, rows)
    ends = [linear + indicators, additive + indicators, *(end + shift for end in (additive, *joint))]
    return [end for end in dict.fromkeys(ends) if end == ends[0] or not summed or may_be_summed(end, rows)]


def _mixed(parents: Sequence[int], levels: Int[np.ndarray, " node"], rows: int) -> int:
    """How many products there are with indicators: all of them, or none if these are too many."""
    single = FUNCTIONS * sum(not levels[parent] for parent in parents)
    of_each = [int(levels[parent]) for parent in parents if levels[parent]]
    count = single * sum(of_each) + sum(one * other for k, one in enumerate(of_each) for other in of_each[:k])
    return count if count <= rows // ROWS_PER_JOINT_FUNCTION else 0


def _products(one: Float[np.ndarray, "row a"], other: Float[np.ndarray, "row b"]) -> Float[np.ndarray, "row ab"]:
    return (one[:, :, None] * other[:, None, :]).reshape(len(one), -1) / LINEAR_WEIGHT


@dataclass(frozen=True)
class Sums:
    """All that a regression of a number needs of the rows, as means over them: sites can add these up."""

    mean: Float[np.ndarray, " feature"]
    second: Float[np.ndarray, "feature feature"]
    cross: Float[np.ndarray, " feature"]
    child_mean: Float[np.ndarray, ""]
    child_second: Float[np.ndarray, ""]

    @classmethod
    def of(cls, features: Float[np.ndarray, "row feature"], child: Float[np.ndarray, " row"]) -> Sums:
        rows = len(child)
        return cls(
            features.mean(axis=0),
            features.T @ features / rows,
            features.T @ child / rows,
            np.array(child.mean()),
            np.array((child**2).mean()),
        )


@dataclass(frozen=True)
class GaussianFit:
    """A regression of a number, as its posterior."""

    mean: Float[np.ndarray, " used"]
    child_mean: Float[np.ndarray, ""]
    weights: Float[np.ndarray, " used"]
    factor: Float[np.ndarray, "used used"]
    """L of LLᵀ = ΦᵀΦ + λI."""
    residual: Float[np.ndarray, ""]
    """Q of the evidence."""
    rows: Float[np.ndarray, ""]

    @classmethod
    def to(cls, sums: Sums, ends: list[int], rows: int) -> GaussianFit:
        gram = centred_gram(sums.mean, sums.second, rows)
        cross = rows * (sums.cross - sums.mean * sums.child_mean)
        total = rows * float(sums.child_second - sums.child_mean**2)
        best = best_fit(gram, cross, total, rows, ends, None)
        factor = np.linalg.cholesky(gram[: best.size, : best.size] + best.ridge * np.eye(best.size))
        half = _solved(factor, cross[: best.size])
        return cls(
            sums.mean[: best.size],
            sums.child_mean,
            _solved(factor, half, transposed=True),
            factor,
            np.array(max(total - half @ half, _LEAST_RESIDUAL * rows)),
            np.array(float(rows)),
        )

    def predictions(self, features: Float[np.ndarray, "row feature"]) -> Float[np.ndarray, " row"]:
        return self.child_mean + (features[:, : len(self.mean)] - self.mean) @ self.weights

    def log_densities(
        self, features: Float[np.ndarray, "row feature"], child: Float[np.ndarray, " row"], scale: float
    ) -> Float[np.ndarray, " row"]:
        """Of rows that it has not seen, in the units that `scale` brings the child to."""
        centred = features[:, : len(self.mean)] - self.mean
        leverage = 1 / self.rows + (_solved(self.factor, centred.T) ** 2).sum(axis=0)
        freedom = self.rows - 1
        width = np.sqrt(self.residual / freedom * (1 + leverage))
        return student.logpdf((child - self.predictions(features)) / width, freedom) - np.log(width * scale)


def _solved(factor: np.ndarray, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    return solve_triangular(factor, right, lower=True, trans=int(transposed)) if len(factor) else right


@dataclass(frozen=True)
class CategoryFit:
    """A logistic regression of a category; each level is given one row more than was seen of it."""

    frequencies: Float[np.ndarray, " level"]
    theta: Float[np.ndarray, " parameter"]
    """Of `learners.search.discrete`, for the levels seen; empty where frequencies are all there is."""
    rows: Float[np.ndarray, ""]

    @classmethod
    def to(
        cls, features: Float[np.ndarray, "row feature"], codes: Int[np.ndarray, " row"], levels: int, ends: list[int]
    ) -> CategoryFit:
        frequencies = np.bincount(codes, minlength=levels) / len(codes)
        seen = seen_levels(codes, frequencies)
        return cls.by(lambda theta: likelihood(theta, features, seen), frequencies, ends, len(codes))

    @classmethod
    def by(
        cls,
        at: Callable[[np.ndarray], LogLikelihood],
        frequencies: Float[np.ndarray, " level"],
        ends: list[int],
        rows: int,
    ) -> CategoryFit:
        """From what rows say, by themselves or summed over sites, with as many functions as the evidence asks for."""
        seen, found = seen_levels(np.zeros(0, dtype=int), frequencies), [(np.zeros(0), -np.inf)]
        for end in [] if seen.constant else filter(None, ends[:2]):
            for variance in VARIANCES:
                precision = precisions(seen, end, variance)
                last = found[-1][0]
                start = np.concatenate([last, np.zeros(len(precision) - len(last))])
                found.append(climbed(at, precision, start))
        theta, _ = max(found, key=lambda each: each[1])
        return cls(frequencies, theta, np.array(float(rows)))

    def log_densities(
        self, features: Float[np.ndarray, "row feature"], codes: Int[np.ndarray, " row"]
    ) -> Float[np.ndarray, " row"]:
        probabilities = np.tile(self.frequencies, (len(codes), 1))
        if len(self.theta):
            seen = seen_levels(np.zeros(0, dtype=int), self.frequencies)
            logs = log_probabilities(_used(features, seen, self.theta), seen, self.theta)
            probabilities[:, self.frequencies > 0] = np.exp(logs)
        smoothed = (self.rows * probabilities + 1) / (self.rows + len(self.frequencies))
        return np.log(smoothed[np.arange(len(codes)), codes])


def likelihood(
    theta: Float[np.ndarray, " parameter"], features: Float[np.ndarray, "row feature"], levels: Levels
) -> LogLikelihood:
    """Of a regression on as many of the features as it has parameters for."""
    return LogLikelihood.at(theta, _used(features, levels, theta), levels)


def _used(
    features: Float[np.ndarray, "row feature"], levels: Levels, theta: Float[np.ndarray, " parameter"]
) -> Float[np.ndarray, "row used"]:
    return features[:, : len(theta) // levels.shifts.shape[1] - 1]


def seen_levels(codes: Int[np.ndarray, " row"], frequencies: Float[np.ndarray, " level"]) -> Levels:
    """Rows of a category in terms of those of its levels that occur."""
    seen = np.flatnonzero(frequencies)
    return Levels(np.searchsorted(seen, codes), contrasts(len(seen)), contrasts(len(seen)))
