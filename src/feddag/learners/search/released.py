"""Scores of families from one noisy release: all that the search asks is post-processing of a matrix.

The matrix holds sums of products of bounded functions (`feddag.regression.bounded_features`), with noise of known size.
Scores know of it in two ways. The noise of a product adds to its sampling error, so that for each child the matrix is
worth that of fewer rows, and functions have the price that they have with so many. And eigenvalues that are below the
noise are raised to it, so that no regression rests on directions in which there is nothing but noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import xor
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from feddag.errors import FeddagError
from feddag.learners.bitsets import members, parents_of
from feddag.learners.search.scores import SOURCES, Comparison, Family, Scores
from feddag.regression.bounded_features import FeatureMap
from feddag.regression.clipped_moments import unclip
from feddag.regression.evidence import CoarseEvidence, Targets, best_fit, coefficients
from feddag.regression.frames import FramedMap

_LINEAR_WEIGHT = 3.0
"""The prior's standard deviation for the number itself, beside 1 for every other function."""
_DISTORTION = 0.005
"""By how much clamping, clipping and too few functions move a correlation, whatever the number of rows."""

_MODEL_ERROR, _TURN_ERROR = 0.004, 0.06
"""By how much the log-evidence of a row is wrong where there are discrete variables: of one variable's parents, and of
a change of several variables' parents (on simulations whose seeds are for tuning)."""


@dataclass(frozen=True)
class Release:
    """A noisy release, centred and standardised: correlations of all functions."""

    features: FeatureMap
    rows: float
    """The number of rows, up to noise."""
    correlations: Float[np.ndarray, "column column"]
    noise: float
    """The standard deviation of the noise in a correlation of two numbers."""
    deviations: Float[np.ndarray, " node"]
    """The standard deviation of each number, in its own unit."""
    metric: Float[np.ndarray, "column column"]
    """How much noise a combination v has: in the sum of its squares, of the variance 2 (noise · vᵀMv)²."""

    @classmethod
    def of(cls, features: FeatureMap, entries: Float[np.ndarray, " entry"], deviation: float) -> Release:
        """Read a release of which each entry has noise of this standard deviation."""
        read = _Read.of(features, entries, deviation)
        back = features.back if isinstance(features, FramedMap) else np.eye(features.columns)
        covariance = back @ read.covariance @ back.T
        scale = np.sqrt(np.where(features.used, covariance.diagonal(), 1.0))
        own, units = np.arange(features.nodes) * features.width, features.middles_and_units[1]
        if isinstance(features, FramedMap):
            noise, metric = read.noise, (back @ back.T) / np.outer(scale, scale)
        else:
            noise, metric = read.noise / float(np.mean(scale[own] ** 2)), np.eye(features.columns)
        return cls(features, read.rows, covariance / np.outer(scale, scale), noise, scale[own] * units, metric)

    @property
    def noise_share(self) -> float:
        """The share of noise in the variance of a correlation; the rest is sampling error."""
        return self.noise**2 / (self.noise**2 + 1 / self.rows)

    @cached_property
    def worth(self) -> Float[np.ndarray, " node"]:
        """How many rows without noise would tell as much about the parents of each variable.

        What is left of the variable, as a combination v of all functions, has the variance q. Its products with a
        function have the sampling variance nq, and noise of the variance (n · noise)² vᵀMv.
        """
        features = self.features
        own = np.arange(features.nodes * features.width)
        error = self.noise**2 + _DISTORTION**2
        worth = []
        for node in range(features.nodes):
            others = [k for k in own if k // features.width != node and features.used[k]]
            target = node * features.width
            system = self.correlations[np.ix_(others, others)] + np.eye(len(others)) / self.rows
            slopes = np.linalg.solve(system, self.correlations[others, target])
            left = max(1 - float(slopes @ self.correlations[others, target]), 1e-6)
            residual = np.zeros(len(self.correlations))
            residual[target], residual[others] = 1.0, -slopes
            worth.append(self.rows / (1 + self.rows * error * float(residual @ self.metric @ residual) / left))
        return np.array(worth)


def frame_of(features: FeatureMap, entries: Float[np.ndarray, " entry"], deviation: float) -> dict[str, np.ndarray]:
    """Return the frame in which numbers are uncorrelated, as far as a rough release tells."""
    read = _Read.of(features, entries, deviation)
    return {"center": read.means, "frame": np.linalg.inv(np.linalg.cholesky(read.covariance))}


class _Read(NamedTuple):
    """What a release says of its functions."""

    rows: float
    means: Float[np.ndarray, " column"]
    covariance: Float[np.ndarray, "column column"]
    noise: float
    """The standard deviation of the noise in a covariance of two functions."""

    @classmethod
    def of(cls, features: FeatureMap, entries: Float[np.ndarray, " entry"], deviation: float) -> _Read:
        rows, sums, products = features.unpack(entries)
        least = 2 * features.sum_noise(deviation)[0]
        if rows <= max(least, 10.0):
            raise FeddagError(
                f"The release tells of {max(rows, 0):.0f} rows, and its noise alone is as many as {least:.0f}: there "
                "are too few rows for this ε. Add sites or rows, leave out variables, or agree on a larger ε."
            )
        means, noise = sums / rows, features.product_noise(deviation) / rows
        covariance = _positive(products / rows - np.outer(means, means), features.used, noise)
        if not features.linear:
            return cls(rows, means, covariance, noise)
        found = unclip(features, means, covariance)
        return cls(rows, found.means, found.covariance, noise / found.kept)


def _positive(covariance: np.ndarray, used: np.ndarray, noise: float) -> np.ndarray:
    """Raise eigenvalues to the size that noise alone has, where they are below it."""
    inside = np.ix_(used, used)
    values, vectors = np.linalg.eigh(covariance[inside])
    floor = max(noise * np.sqrt(used.sum()), 1e-9 * float(values.max()), 1e-12)
    found = covariance.copy()
    found[inside] = (vectors * np.maximum(values, floor)) @ vectors.T
    return found


class ReleasedScores(Scores):
    """Scores of a release; nobody is asked."""

    def __init__(self, release: Release) -> None:
        features = release.features
        super().__init__(features.nodes, _nobody, 1)
        self._release = release
        self._worth = np.maximum(release.worth, 2.0)
        self._rows = round(release.rows)
        self._discrete = [node for node, levels in enumerate(features.levels) if levels]
        weights = np.ones(features.columns)
        weights[np.arange(self.nodes) * features.width] = _LINEAR_WEIGHT
        self._weights = weights
        self._gram = release.correlations * np.outer(weights, weights)
        self._precisions: Float[np.ndarray, " node"] | None = None
        self._fits: dict[tuple[Family, bool], _Regression] = {}

    def refer_to(self, graph: Int8[np.ndarray, "node node"]) -> None:
        """Estimate noise of equal variance with this graph."""
        super().refer_to(graph)
        deviations = self._release.deviations
        shares = [self._regression((child, parents)).share for child, parents in enumerate(parents_of(graph))]
        common = float(np.mean(deviations**2 * np.array(shares)))
        self._precisions = deviations**2 / common
        self._fits = {}

    @cached_property
    def _target_columns(self) -> list[list[int]]:
        """The columns that are to be explained of each variable: the number itself, or all indicators of its levels."""
        features = self._release.features
        return [
            [node * features.width + k for k in range(levels - 1 if levels else 1)]
            for node, levels in enumerate(features.levels)
        ]

    def _coarse(self, child: int) -> CoarseEvidence:
        width, rows = self._release.features.width, float(self._worth[child])
        own = self.nodes * width
        products = rows * self._gram[:own, child * width, None] / _LINEAR_WEIGHT
        precisions = None if self._precisions is None else self._precisions[child, None]
        targets = Targets(np.array([child]), products, np.array([rows]))
        return CoarseEvidence(rows * self._gram[:own, :own], rows, precisions, self.nodes, targets)

    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        found = np.empty((len(families), self.nodes))
        by_child: dict[int, list[int]] = {}
        for k, (child, _) in enumerate(families):
            by_child.setdefault(child, []).append(k)
        for child, chosen in by_child.items():
            if child in self._discrete:
                for k in chosen:
                    found[k] = [self._score((child, families[k][1] ^ _bit(node, child))) for node in range(self.nodes)]
            else:
                parents = self._rows_of(families[k][1] for k in chosen).astype(bool)
                found[chosen] = self._coarse(child).neighbourhoods(np.zeros(len(chosen), int), parents)
        return found

    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]:
        return ((family, self._score(family)) for family in families)

    def _score(self, family: Family) -> float:
        return self._regression(family).score

    def _regression(self, family: Family, *, bent: bool = False) -> _Regression:
        bent = bent and family[0] in self._discrete
        if (family, bent) not in self._fits:
            self._fits[family, bent] = self._regress(family, bent=bent)
        return self._fits[family, bent]

    def _regress(self, family: Family, *, bent: bool) -> _Regression:
        """Score a family: the evidence of each target given the targets before it, all of them given the parents."""
        child, parents = family
        columns, ends = self._parent_columns(parents, straight=child in self._discrete and not bent)
        score, residuals, share, rows = 0.0, [], 1.0, float(self._worth[child])
        for k, target in enumerate(self._target_columns[child]):
            used = [*self._target_columns[child][:k], *columns]
            weight = self._weights[target]
            cross = rows * self._gram[used, target] / weight
            gram = rows * self._gram[np.ix_(used, used)]
            precision = None if self._precisions is None else float(self._precisions[child])
            fit = best_fit(gram, cross, rows, rows, [k + end for end in ends], precision)
            score += fit.score
            vector = np.zeros(len(self._weights))
            vector[target] = 1.0
            if fit.size:
                vector[used[: fit.size]] = -coefficients(fit) * self._weights[used[: fit.size]]
            residuals.append(vector)
            share = float(vector @ self._release.correlations @ vector)
        return _Regression(score, np.array(residuals), share)

    def _parent_columns(self, parents: int, *, straight: bool) -> tuple[list[int], list[int]]:
        """Return the columns of a family's regression, and where its layers end: own functions, then pairs.

        The search explains a discrete child by straight lines, as if it were jointly normal with its parents: then
        tables and numbers favour neither direction between them, which a release of products could not tell fairly.
        """
        features, chosen = self._release.features, list(members(parents))
        width = features.width
        used = [
            [column for column in range(node * width, (node + 1) * width) if features.used[column]] for node in chosen
        ]
        if straight:
            used = [each if node in self._discrete else each[:1] for node, each in zip(chosen, used, strict=True)]
            columns = [column for each in used for column in each]
            return columns, [len(columns)]
        columns = [column for each in used for column in each]
        ends = [len(columns)]
        several = features.paired**2
        for k, pair in enumerate(features.pairs):
            if set(pair) <= set(chosen):
                start = self.nodes * width + k * several
                columns += range(start, start + several)
        return columns, ends if len(columns) == ends[0] else [*ends, len(columns)]

    def _ask_to_compare(self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]) -> Comparison:
        """Compare sums of scores, with standard errors from the release itself.

        What straight lines leave of a discrete variable may be bent, and others that follow the same causes then seem
        to explain it. So it is explained by all functions, too, and the less sure of the answers counts.
        """
        found = self._compare(families, terms, bent=False)
        if self._discrete:
            for asked in (families, self._given_numbers(families, terms)):
                other = self._compare(asked, terms, bent=True)
                less = other[0] / np.maximum(other[1], 1e-12) < found[0] / np.maximum(found[1], 1e-12)
                found = np.where(less, other, found)
        (difference, error), none = found, np.zeros(len(terms))
        if self._discrete:
            error = np.hypot(error, np.where(self._turns_discrete(families, terms), _TURN_ERROR, _MODEL_ERROR))
        return Comparison(difference, error, error, none, error, np.zeros((len(terms), len(SOURCES))))

    def _given_numbers(self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]) -> list[Family]:
        """Return the families with all numbers as further parents, but for those that their comparisons are about.

        The search may miss a cause whose effect on a discrete variable is bent. An edge is there given all others, too.
        """
        numbers = sum(1 << node for node in range(self.nodes) if node not in self._discrete)
        about = [0] * len(families)
        for row in terms:
            compared = np.flatnonzero(row).tolist()
            for child in {families[k][0] for k in compared}:
                chosen = [k for k in compared if families[k][0] == child]
                changed = reduce(xor, [families[k][1] for k in chosen])
                for k in chosen:
                    about[k] |= changed
        return [
            (child, parents | numbers & ~about[k] & ~(1 << child)) if child in self._discrete else (child, parents)
            for k, (child, parents) in enumerate(families)
        ]

    def _turns_discrete(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]
    ) -> Bool[np.ndarray, " comparison"]:
        """Say which comparisons change the parents of several variables, a discrete one among them.

        Which of these graphs is better rests on how a discrete variable follows from its causes, and products of
        functions do not tell enough of this.
        """
        children = np.array([child for child, _ in families])
        changed = np.array([(terms[:, children == node] != 0).any(axis=1) for node in range(self.nodes)])
        return (changed.sum(axis=0) > 1) & changed[self._discrete].any(axis=0)

    def _compare(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"], *, bent: bool
    ) -> Float[np.ndarray, "2 comparison"]:
        """Return differences and standard errors.

        A residual is a combination v of all functions, of variance q = vᵀCv. Over rows, if residuals are normal, the
        covariance of ½ log q of two families is half their squared correlation; the noise E adds vᵀEv to q.
        """
        regressions = [self._regression(family, bent=bent) for family in families]
        difference = terms @ np.array([each.score for each in regressions])
        owner = np.repeat(np.arange(len(families)), [len(each.residuals) for each in regressions])
        vectors = np.concatenate([each.residuals for each in regressions])
        signs = terms[:, owner].astype(float)
        between = vectors @ self._release.correlations @ vectors.T
        variances = between.diagonal()
        over_rows = (between**2 / np.outer(variances, variances)) / (2 * self._release.rows)
        # where noise rules, edges were chosen for the noise in them
        chosen = 1 + min(2 * self._release.noise_share, 1.0)
        overlap = 2 * (vectors @ self._release.metric @ vectors.T) ** 2
        if not self._release.features.linear:  # where squares have no more noise than products
            overlap -= vectors**2 @ (vectors**2).T
        of_noise = self._release.noise**2 * overlap / (4 * np.outer(variances, variances))
        error = np.sqrt(np.maximum(np.einsum("ci,ij,cj->c", signs, over_rows + chosen**2 * of_noise, signs), 0.0))
        return np.array([difference, error])


@dataclass(frozen=True)
class _Regression:
    """The regression of a family."""

    score: float
    residuals: Float[np.ndarray, "target column"]
    """What is left of each target, as a combination of standardised functions."""
    share: float
    """The share of the last target's variance that is left."""


def _bit(node: int, child: int) -> int:
    return 0 if node == child else 1 << node


def _nobody(task: object, arrays: object) -> dict[str, np.ndarray]:
    del task, arrays
    raise AssertionError("scores of a release ask nobody")
