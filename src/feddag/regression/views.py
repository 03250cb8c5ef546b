"""The evidence of families by one site's own rows, as the columns are, or bent so that each is normal by itself.

A regression looks for effects that add up with the noise. If the effect is bent once more (a concentration that was
measured, the exponential of what the causes add up to), the bent columns show what the columns themselves do not. The
density of a bent child is that of the child once the slope of the bend is taken into account, so that both ways to look
at the rows compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri
from scipy.stats import rankdata

from feddag.regression.comparison import row_losses
from feddag.regression.evidence import CoarseEvidence, best_fit, coefficients, leave_one_out
from feddag.regression.features import FUNCTIONS, LINEAR_WEIGHT, Features
from feddag.regression.gram import centred_gram, means_of_products
from feddag.regression.noise_models import NoiseModels, row_log_densities
from feddag.regression.residual_checks import Dependence, dependence_on

Family = tuple[int, tuple[int, ...]]
"""A child and its parents."""
MOST_FURTHER = 2
"""Of the parents that a family does not have, models of noise look at so many."""
MOST_ROWS, MOST_ROWS_OF_QUICK = 10_000, 400
"""Models of noise look at so many rows, evenly spaced: these tell it well enough, and quick regressions need less."""
_BATCH_VALUES = 2**21
"""Residuals that are in memory at once."""


class Fits(NamedTuple):
    """The joint evidence of families, that with normal noise, and what their regressions leave unexplained."""

    scores: Float[np.ndarray, " family"]
    with_normal_noise: Float[np.ndarray, " family"]
    predictive: Float[np.ndarray, " family"]
    """The negative log-likelihood per row, with normal noise: each row's by the regression of all others."""
    residuals: Float[np.ndarray, "row family"]


class Bent(NamedTuple):
    """Columns bent so that each is normal by itself, and the logarithm of the bend's slope in every row."""

    values: Float[np.ndarray, "row node"]
    log_slopes: Float[np.ndarray, "row node"]


def bend(values: Float[np.ndarray, "row node"], levels: Int[np.ndarray, " node"]) -> Bent:
    """Bend standardised columns by the normal quantiles of their ranks; discrete ones stay as they are."""
    numbers = np.flatnonzero(levels == 0)
    bent, log_slopes = values.copy(), np.zeros(values.shape)
    normal = ndtri((rankdata(values[:, numbers], axis=0) - 0.5) / len(values))
    bent[:, numbers] = normal / np.maximum(normal.std(axis=0), 1e-9)
    log_slopes[:, numbers] = row_log_densities(values[:, numbers]) + 0.5 * (np.log(2 * np.pi) + bent[:, numbers] ** 2)
    return Bent(bent, log_slopes)


class View:
    """One way to look at a site's rows."""

    def __init__(self, features: Features, log_slopes: Float[np.ndarray, "row node"] | None = None) -> None:
        self.features = features
        self._log_slopes = np.zeros((1, features.values.shape[1])) if log_slopes is None else log_slopes
        self._known_gains: dict[Family, float] = {}
        self._coarse = lru_cache(maxsize=1)(self._coarse_given)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.features.values)

    @cached_property
    def coarse_features(self) -> Float[np.ndarray, "row feature"]:
        """Return the coarse functions of all variables, centred."""
        features = self.features.coarse()
        return features - features.mean(axis=0)

    @cached_property
    def gram(self) -> Float[np.ndarray, "feature feature"]:
        """Return the Gram matrix of the coarse functions."""
        return centred_gram(*means_of_products(self.features.coarse()), self.rows)

    @cached_property
    def _noise(self) -> NoiseModels:
        return NoiseModels(self.coarse_features[evenly_spaced(self.rows, MOST_ROWS)])

    @cached_property
    def _quick_rows(self) -> tuple[Int[np.ndarray, " quick"], Float[np.ndarray, "quick feature"], NoiseModels]:
        """Return the rows for quick regressions, their features, and the models of their noise in single precision."""
        chosen = evenly_spaced(self.rows, MOST_ROWS_OF_QUICK)
        features = self.coarse_features[chosen].astype(np.float32)
        return chosen, features, NoiseModels(features)

    def _coarse_given(self, precisions: bytes | None) -> CoarseEvidence:
        known = None if precisions is None else np.frombuffer(precisions)
        return CoarseEvidence(self.gram, self.rows, known, self.features.values.shape[1])

    def neighbourhoods(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        precisions: Float[np.ndarray, " node"] | None,
    ) -> Float[np.ndarray, "family node"]:
        """Score, for each family, each that differs from it by one parent; at the child, the family itself."""
        coarse = self._coarse(None if precisions is None else precisions.tobytes())
        scores = coarse.neighbourhoods(children, parents)
        if precisions is not None:
            return scores
        return scores - self._coarse_gains(children, parents, scores) - self._log_slopes.mean(axis=0)[children, None]

    def families(
        self, children: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"]
    ) -> tuple[Float[np.ndarray, " family"], Float[np.ndarray, " family"]]:
        """Score families by quick regressions: with models of the noise, and with normal noise."""
        normal = self._coarse(None).families(children, parents)
        families = [
            (child, tuple(np.flatnonzero(members).tolist()))
            for child, members in zip(children.tolist(), parents, strict=True)
        ]
        self._find_gains(families)
        gains = np.array([self._known_gains[family] for family in families])
        return normal - gains - self._log_slopes.mean(axis=0)[children], normal

    def _coarse_gains(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        scores: Float[np.ndarray, "family node"],
    ) -> Float[np.ndarray, "family node"]:
        """Return what models of the noise gain, for each family and each that differs from it by one parent.

        With a further parent that is not among those that help most if noise is normal, the noise counts as the same.
        """
        every = np.arange(len(children))
        further = np.where(parents, np.inf, scores)
        helpful = np.sort(further, axis=1)[:, : MOST_FURTHER + 1][:, -1:]
        looked_at = parents | (further <= np.minimum(helpful, scores[every, children, None]))
        looked_at[every, children] = True
        near: dict[tuple[int, int], Family] = {}
        for family, node in np.argwhere(looked_at).tolist():
            members = parents[family].copy()
            members[node] ^= node != children[family]
            near[family, node] = int(children[family]), tuple(np.flatnonzero(members).tolist())
        self._find_gains(list(dict.fromkeys(near.values())))
        own = [self._known_gains[near[place]] for place in enumerate(children.tolist())]
        gains = np.repeat(np.array(own)[:, None], parents.shape[1], axis=1)
        for place, family in near.items():
            gains[place] = self._known_gains[family]
        return gains

    def _find_gains(self, families: Sequence[Family]) -> None:
        """Compute what models of the noise gain for families, by quick regressions, where it is not known."""
        unknown = [family for family in families if family not in self._known_gains]
        for size in {len(parents) for _, parents in unknown}:
            batch = [family for family in unknown if len(family[1]) == size]
            step = _BATCH_VALUES // MOST_ROWS_OF_QUICK
            for some in (batch[start : start + step] for start in range(0, len(batch), step)):
                columns = _coarse_columns([parents for _, parents in some])
                residuals = self._coarse_residuals(np.array([child for child, _ in some]), columns)
                gains = self._quick_rows[2].gains(residuals, list(columns))
                self._known_gains.update(zip(some, gains.tolist(), strict=True))

    def _coarse_residuals(
        self, children: Int[np.ndarray, " family"], columns: Int[np.ndarray, "family column"]
    ) -> Float[np.ndarray, "row family"]:
        """Return what quick regressions of families with as many parents leave unexplained, in some rows."""
        chosen, features, _ = self._quick_rows
        products = self.gram[columns, children[:, None] * FUNCTIONS] / LINEAR_WEIGHT
        systems = self.gram[columns[:, :, None], columns[:, None, :]] + np.eye(columns.shape[1])
        weights = np.zeros((len(self.gram), len(children)), np.float32)
        np.put_along_axis(weights, columns.T, np.linalg.solve(systems, products[..., None])[..., 0].T, axis=0)
        return self.features.values[np.ix_(chosen, children)].astype(np.float32) - features @ weights

    def given_all_others(self) -> Float[np.ndarray, " node"]:
        """Score each variable given all others by quick regressions, with noise of any shape."""
        nodes = self.features.values.shape[1]
        scores, residuals = np.empty(nodes), np.empty((self.rows, nodes))
        for child in range(nodes):
            (columns,) = _coarse_columns([[other for other in range(nodes) if other != child]])
            gram, cross = self.gram[np.ix_(columns, columns)], self.gram[columns, child * FUNCTIONS] / LINEAR_WEIGHT
            values = self.features.values[:, child]
            fit = best_fit(gram, cross, float(values @ values), self.rows, [len(columns)], None)
            scores[child] = fit.score
            residuals[:, child] = values - self.coarse_features[:, columns] @ coefficients(gram, cross, fit)
        gains = self._noise.gains(self._of_some_rows(residuals), [np.zeros(0, dtype=int)] * nodes)
        return scores - gains - self._log_slopes.mean(axis=0)

    def fit(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        precisions: Float[np.ndarray, " node"] | None,
    ) -> Fits:
        """Score families by full regressions."""
        scores, predictive = np.empty(len(children)), np.empty(len(children))
        residuals = np.empty((self.rows, len(children)))
        for members, families in by_parents(parents):
            features = self.features.joint(members, self.rows)
            features -= features.mean(axis=0)
            gram, ends = features.T @ features, self.features.layers(members, self.rows)
            for family in families:
                child = int(children[family])
                values = self.features.values[:, child]
                cross = features.T @ values
                precision = None if precisions is None else float(precisions[child])
                fit = best_fit(gram, cross, float(values @ values), self.rows, ends, precision)
                scores[family] = fit.score
                residuals[:, family] = values - features[:, : fit.size] @ coefficients(gram, cross, fit)
                predictive[family] = leave_one_out(features[:, : fit.size], gram, fit, residuals[:, family], precision)
        if precisions is not None:
            return Fits(scores, scores, predictive, residuals)
        gains = self._noise.gains(self._of_some_rows(residuals), _columns_by_family(parents))
        return Fits(scores - gains - self._log_slopes.mean(axis=0)[children], scores, predictive, residuals)

    def row_losses(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        residuals: Float[np.ndarray, "row family"],
        precisions: Float[np.ndarray, " node"] | None,
    ) -> Float[np.ndarray, "row family"]:
        """Return the negative log-likelihood of rows, `MOST_ROWS` at most, by the best model of each family's noise."""
        if precisions is not None:
            return row_losses(residuals, 1 / precisions[children])
        losses = self._noise.row_losses(self._of_some_rows(residuals), _columns_by_family(parents))
        return losses - self._of_some_rows(self._log_slopes)[:, children]

    def dependences(
        self,
        parents: Bool[np.ndarray, "family node"],
        residuals: Float[np.ndarray, "row family"],
    ) -> list[Dependence]:
        """Measure how far residuals, scaled by the best model of the noise, depend on the parents."""
        columns = _columns_by_family(parents)
        scaled = self._noise.scale(self._of_some_rows(residuals), columns)
        features = self._of_some_rows(self.coarse_features)
        return [dependence_on(features[:, used], scaled[:, k]) for k, used in enumerate(columns)]

    def _of_some_rows(self, values: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "chosen column"]:
        return values[evenly_spaced(len(values), MOST_ROWS)]


def evenly_spaced(rows: int, most: int) -> Int[np.ndarray, " chosen"]:
    """Return the positions of all rows, or of so many."""
    return np.linspace(0, rows - 1, min(rows, most)).astype(int)


def by_parents(parents: Bool[np.ndarray, "family node"] | Int[np.ndarray, "family node"]):
    """Group families by their set of parents: these share their features."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for family, members in enumerate(parents):
        groups.setdefault(tuple(np.flatnonzero(members).tolist()), []).append(family)
    return groups.items()


def _coarse_columns(parents: Sequence[Sequence[int]]) -> Int[np.ndarray, "family column"]:
    """Return the columns of coarse features of families with as many parents each."""
    chosen = np.array(parents, dtype=int).reshape(len(parents), -1)
    return (chosen[:, :, None] * FUNCTIONS + np.arange(FUNCTIONS)).reshape(len(parents), -1)


def _columns_by_family(parents: Bool[np.ndarray, "family node"]) -> list[Int[np.ndarray, " column"]]:
    return [_coarse_columns([np.flatnonzero(members).tolist()])[0] for members in parents]
