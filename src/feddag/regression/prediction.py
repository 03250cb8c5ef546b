"""One variable given its parents: a regression fitted to some rows, and how likely it finds others.

Numbers get the Gaussian-process regression of `evidence`: linear where that is enough, else with waves of each parent
and of several together, as the evidence decides. What it says of a new row is the exact posterior prediction, a Student
distribution, so that few rows mean wide predictions rather than wrong ones. Categories get a multinomial logistic
regression, linear or with waves of each parent. Parents that are categories enter as indicators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular
from scipy.stats import t as student

from feddag.regression.evidence import LEAST_VARIANCE, best_fit
from feddag.regression.features import Frame, IndicatorFeatures, contrasts
from feddag.regression.gram import centred_gram, means_of_products
from feddag.regression.logistic import VARIANCES, Levels, LogLikelihood, climb, log_probabilities, precisions

Family = tuple[int, tuple[int, ...]]
"""A child and its parents."""


def families(graph: np.ndarray) -> list[Family]:
    """List each variable with its parents."""
    return [(child, tuple(np.flatnonzero(graph[:, child]).tolist())) for child in range(len(graph))]


@dataclass(frozen=True)
class RegressionSums:
    """All that a regression of a number needs of the rows, as means over them: sites can add these up."""

    mean: Float[np.ndarray, " feature"]
    second: Float[np.ndarray, "feature feature"]
    cross: Float[np.ndarray, " feature"]
    child_mean: Float[np.ndarray, ""]
    child_second: Float[np.ndarray, ""]

    @classmethod
    def of(cls, features: Float[np.ndarray, "row feature"], child: Float[np.ndarray, " row"]) -> RegressionSums:
        """Average products over rows."""
        return cls(
            *means_of_products(features),
            features.T @ child / len(child),
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
    def axes(cls) -> dict[str, int]:
        """Return how many axes each field has."""
        return {"mean": 1, "child_mean": 0, "weights": 1, "factor": 2, "residual": 0, "rows": 0}

    @classmethod
    def to(cls, sums: RegressionSums, ends: list[int], rows: int) -> GaussianFit:
        """Fit to sums, with the layers that the evidence prefers."""
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
            np.array(max(total - half @ half, LEAST_VARIANCE * rows)),
            np.array(float(rows)),
        )

    def predictions(self, features: Float[np.ndarray, "row feature"]) -> Float[np.ndarray, " row"]:
        """Return the expected value of the child in each row."""
        return self.child_mean + (features[:, : len(self.mean)] - self.mean) @ self.weights

    def log_densities(
        self, features: Float[np.ndarray, "row feature"], child: Float[np.ndarray, " row"], scale: float
    ) -> Float[np.ndarray, " row"]:
        """Return the log-density of new rows, in the units that `scale` brings the child to."""
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
    """The parameters of `logistic`, for the levels seen; empty if there are frequencies alone."""
    rows: Float[np.ndarray, ""]

    @classmethod
    def to(
        cls, features: Float[np.ndarray, "row feature"], codes: Int[np.ndarray, " row"], levels: int, ends: list[int]
    ) -> CategoryFit:
        """Fit to own rows."""
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
        """Fit to a log-likelihood, of own rows or summed over sites, with the functions that the evidence supports."""
        seen, found = seen_levels(np.zeros(0, dtype=int), frequencies), [(np.zeros(0), -np.inf)]
        for end in [] if seen.constant else filter(None, ends[:2]):
            for variance in VARIANCES:
                precision = precisions(seen, end, variance)
                last = found[-1][0]
                start = np.concatenate([last, np.zeros(len(precision) - len(last))])
                found.append(climb(at, precision, start))
        theta, _ = max(found, key=lambda each: each[1])
        return cls(frequencies, theta, np.array(float(rows)))

    def log_densities(
        self, features: Float[np.ndarray, "row feature"], codes: Int[np.ndarray, " row"]
    ) -> Float[np.ndarray, " row"]:
        """Return the log-probability of each row's level."""
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
    """Evaluate a regression on as many of the features as it has parameters for."""
    return LogLikelihood.at(theta, _used(features, levels, theta), levels)


def _used(
    features: Float[np.ndarray, "row feature"], levels: Levels, theta: Float[np.ndarray, " parameter"]
) -> Float[np.ndarray, "row used"]:
    return features[:, : len(theta) // levels.shifts.shape[1] - 1]


def seen_levels(codes: Int[np.ndarray, " row"], frequencies: Float[np.ndarray, " level"]) -> Levels:
    """Express rows of a category by the levels that occur."""
    seen = np.flatnonzero(frequencies)
    return Levels(np.searchsorted(seen, codes), contrasts(len(seen)), contrasts(len(seen)))


@dataclass(frozen=True)
class OwnRegressions:
    """One site's regressions of each variable on any parents, fitted to some rows and tried on others.

    They never leave the site.
    """

    training: Float[np.ndarray, "row node"]
    held_out: Float[np.ndarray, "other node"]
    levels: Int[np.ndarray, " node"]
    """The number of levels of each column that holds categories; 0 for a number."""
    _known: dict[Family, Float[np.ndarray, " other"]] = field(default_factory=dict)

    @cached_property
    def frame(self) -> Frame:
        """Standardise by the rows to fit to."""
        return Frame.of(self.training.mean(axis=0), self.training.var(axis=0), self.levels)

    @cached_property
    def features(self) -> tuple[IndicatorFeatures, IndicatorFeatures]:
        """The features of the rows to fit to, and of those held out."""
        training, held_out = (self.frame.standardise(rows) for rows in (self.training, self.held_out))
        return IndicatorFeatures(training, self.levels), IndicatorFeatures(held_out, self.levels)

    def of_graph(self, graph: np.ndarray) -> Float[np.ndarray, " other"]:
        """Return the log-density of each row held out, every variable given its parents."""
        return np.sum([self.of_family(family) for family in families(graph)], axis=0)

    def of_family(self, family: Family) -> Float[np.ndarray, " other"]:
        """Return the log-density of the child in each row held out, fitting the regression once."""
        if family not in self._known:
            self._known[family], _ = self.fit(family)
        return self._known[family]

    def fit(self, family: Family) -> tuple[Float[np.ndarray, " other"], Float[np.ndarray, " other"] | None]:
        """Return the log-density of the child in each row held out and, of a number, the errors in predicting it."""
        child, parents = family
        training, held_out = self.features
        rows, levels = len(self.training), int(self.levels[child])
        features, unseen = (each.joint(parents, rows) for each in self.features)
        ends = training.layers(parents, rows)
        if levels:
            fit = CategoryFit.to(features, training.codes[child], levels, ends)
            return fit.log_densities(unseen, held_out.codes[child]), None
        fit = GaussianFit.to(RegressionSums.of(features, training.values[:, child]), ends, rows)
        values = held_out.values[:, child]
        return fit.log_densities(unseen, values, self.frame.scale[child]), values - fit.predictions(unseen)
