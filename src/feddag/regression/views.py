"""The evidence of families by one site's own rows, as the columns are, or bent so that each is normal by itself.

A regression looks for effects that add up with the noise. If the effect is bent once more (a concentration that was
measured, the exponential of what the causes add up to), the bent columns show what the columns themselves do not. The
density of a bent child is that of the child once the slope of the bend is taken into account, so that both ways to look
at the rows compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from feddag.regression.comparison import row_losses
from feddag.regression.evidence import CoarseEvidence, Factors, best_fit, coefficients, leave_one_out
from feddag.regression.features import FUNCTIONS, LINEAR_WEIGHT, Features
from feddag.regression.gram import centred_gram, means_over_blocks
from feddag.regression.noise_models import NoiseModels, row_log_densities
from feddag.regression.residual_checks import Dependence, dependence_on
from feddag.silos.quantiles import normal_quantiles

Family = tuple[int, tuple[int, ...]]
"""A child and its parents."""
MOST_NEIGHBOURS = 2
"""Models of noise look at so many families with a parent more, and at so many with one less."""
MOST_ROWS, MOST_ROWS_OF_QUICK = 10_000, 400
"""Models of noise look at so many rows, evenly spaced: these tell it well enough, and quick regressions need less."""
_BATCH_VALUES = 2**21
"""Residuals that are in memory at once."""
REMEMBERED_VALUES = 2**23
"""Residuals that a view keeps: the same families are scored first, and then compared row by row."""


class Fits(NamedTuple):
    """The joint evidence of families, that with normal noise, and what their regressions leave unexplained."""

    scores: Float[np.ndarray, " family"]
    with_normal_noise: Float[np.ndarray, " family"]
    predictive: Float[np.ndarray, " family"]
    """The negative log-likelihood per row, with normal noise: each row's by the regression of all others.

    Not a number unless the view `predicts`.
    """
    residuals: Float[np.ndarray, "row family"]
    """In `MOST_ROWS` rows at most."""
    mean_squares: Float[np.ndarray, " family"]
    """Of the residuals in all rows."""


@dataclass(slots=True)
class _FamilyFit:
    """The regression of one family."""

    score: float
    predictive: float
    residuals: Float[np.ndarray, " row"]
    """In `MOST_ROWS` rows at most."""
    mean_square: float
    gain: float | None = None
    """What models of its noise gain, once that was asked."""


class _Products(NamedTuple):
    """Products of features, and of these with each variable, over all rows; features are centred."""

    origin: Float[np.ndarray, " feature"]
    """What the features are centred by."""
    gram: Float[np.ndarray, "feature feature"]
    cross: Float[np.ndarray, "feature child"]


class Bent(NamedTuple):
    """Columns bent so that each is normal by itself, and the logarithm of the bend's slope in every row."""

    values: Float[np.ndarray, "row node"]
    log_slopes: Float[np.ndarray, "row node"]


def bend(values: Float[np.ndarray, "row node"], levels: Int[np.ndarray, " node"]) -> Bent:
    """Bend standardised columns by the normal quantiles of their ranks; discrete ones stay as they are."""
    numbers = np.flatnonzero(levels == 0)
    bent, log_slopes = values.copy(), np.zeros(values.shape)
    step = max(1, _BATCH_VALUES // len(values))
    for some in (numbers[start : start + step] for start in range(0, len(numbers), step)):
        normal = normal_quantiles(values[:, some])
        bent[:, some] = normal / np.maximum(normal.std(axis=0), 1e-9)
        log_slopes[:, some] = row_log_densities(values[:, some]) + 0.5 * (np.log(2 * np.pi) + bent[:, some] ** 2)
    return Bent(bent, log_slopes)


class View:
    """One way to look at a site's rows."""

    def __init__(
        self,
        features: Features,
        log_slopes: Float[np.ndarray, "row node"] | None = None,
        *,
        spread: Float[np.ndarray, "row node"] | None = None,
        predicts: bool = False,
    ) -> None:
        """Look at rows through the functions of all columns.

        Args:
            features: These functions.
            log_slopes: Those of a bend.
            spread: The columns with ties spread (`regression.ties`), if there are any: models of noise look at these.
            predicts: Whether `fit` tells how well rows predict each other.
        """
        self.features = features
        self._moved = None if spread is None else spread - features.values
        self._predicts = predicts
        slopes = np.zeros((self.rows, features.values.shape[1])) if log_slopes is None else log_slopes
        self._mean_log_slopes, self._log_slopes = slopes.mean(axis=0), slopes[self._chosen]
        self._known_gains: dict[tuple[int, bytes], float] = {}
        """By child, and parents as packed bits."""
        self._known_fits: dict[tuple[Family, float | None], _FamilyFit] = {}
        self._coarse = lru_cache(maxsize=1)(self._coarse_given)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.features.values)

    @cached_property
    def _chosen(self) -> Int[np.ndarray, " chosen"]:
        """Return the rows that models of noise look at."""
        return evenly_spaced(self.rows, MOST_ROWS)

    @cached_property
    def _some(self) -> Features:
        """Return the functions of these rows."""
        return self.features if len(self._chosen) == self.rows else self.features.of_rows(self._chosen)

    @cached_property
    def _means(self) -> tuple[Float[np.ndarray, " feature"], Float[np.ndarray, "feature feature"]]:
        return means_over_blocks(block.coarse() for _, block in self.features.blocks())

    @cached_property
    def _coarse_features(self) -> Float[np.ndarray, "chosen feature"]:
        """Return the coarse functions of all variables, centred, in the rows that models of noise look at."""
        return self._some.coarse() - self._means[0]

    @cached_property
    def gram(self) -> Float[np.ndarray, "feature feature"]:
        """Return the Gram matrix of the coarse functions."""
        return centred_gram(*self._means, self.rows)

    @cached_property
    def _noise(self) -> NoiseModels:
        return NoiseModels(self._coarse_features)

    @cached_property
    def _quick_rows(self) -> tuple[Int[np.ndarray, " quick"], Float[np.ndarray, "quick feature"], NoiseModels]:
        """Return the rows for quick regressions, their features, and the models of their noise in single precision."""
        chosen = evenly_spaced(self.rows, MOST_ROWS_OF_QUICK)
        features = (self.features.of_rows(chosen).coarse() - self._means[0]).astype(np.float32)
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
        return scores - self._coarse_gains(children, parents, scores) - self._mean_log_slopes[children, None]

    def _coarse_gains(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        scores: Float[np.ndarray, "family node"],
    ) -> Float[np.ndarray, "family node"]:
        """Return what models of the noise gain, for each family and each that differs from it by one parent.

        With another neighbour than `_looked_at` finds, the noise counts as the same.
        """
        families, nodes = np.nonzero(_looked_at(children, parents, scores))
        own = nodes == children[families]
        near = parents[families]
        near[np.arange(len(near)), nodes] ^= ~own
        found = self._find_gains(children[families], near)
        gains = np.repeat(found[own][:, None], parents.shape[1], axis=1)
        gains[families, nodes] = found
        return gains

    def _find_gains(
        self, children: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"]
    ) -> Float[np.ndarray, " family"]:
        """Return what models of the noise gain for families, by quick regressions where it is not known."""
        packed = np.packbits(parents, axis=1)
        keys = list(zip(children.tolist(), packed.view(f"V{packed.shape[1]}")[:, 0].tolist(), strict=True))
        known = self._known_gains
        unknown = np.array([*{key: k for k, key in enumerate(keys) if key not in known}.values()], dtype=int)
        sizes = parents[unknown].sum(axis=1)
        for size in np.unique(sizes).tolist():
            batch = unknown[sizes == size]
            step = _BATCH_VALUES // MOST_ROWS_OF_QUICK
            for some in (batch[start : start + step] for start in range(0, len(batch), step)):
                columns = _coarse_columns(np.nonzero(parents[some])[1].reshape(len(some), size))
                residuals = self._coarse_residuals(children[some], columns)
                gains = self._quick_rows[2].gains(residuals, list(columns))
                known.update(zip((keys[k] for k in some.tolist()), gains.tolist(), strict=True))
        return np.array([known[key] for key in keys])

    def _coarse_residuals(
        self, children: Int[np.ndarray, " family"], columns: Int[np.ndarray, "family column"]
    ) -> Float[np.ndarray, "row family"]:
        """Return what quick regressions of families with as many parents leave unexplained, in some rows."""
        chosen, features, _ = self._quick_rows
        products = self.gram[columns, children[:, None] * FUNCTIONS] / LINEAR_WEIGHT
        systems = self.gram[columns[:, :, None], columns[:, None, :]] + np.eye(columns.shape[1])
        weights = np.zeros((len(self.gram), len(children)), np.float32)
        np.put_along_axis(weights, columns.T, np.linalg.solve(systems, products[..., None])[..., 0].T, axis=0)
        residuals = self.features.values[np.ix_(chosen, children)].astype(np.float32) - features @ weights
        if self._moved is not None:
            residuals += self._moved[np.ix_(chosen, children)]
        return residuals

    def given_all_others(self) -> Float[np.ndarray, " node"]:
        """Score each variable given all others by quick regressions, with noise of any shape."""
        nodes = self.features.values.shape[1]
        scores, residuals = np.empty(nodes), np.empty((len(self._chosen), nodes))
        for child in range(nodes):
            (columns,) = _coarse_columns([[other for other in range(nodes) if other != child]])
            gram, cross = self.gram[np.ix_(columns, columns)], self.gram[columns, child * FUNCTIONS] / LINEAR_WEIGHT
            values = self.features.values[:, child]
            fit = best_fit(gram, cross, float(values @ values), self.rows, [len(columns)], None)
            scores[child] = fit.score
            explained = self._coarse_features[:, columns] @ coefficients(fit)
            residuals[:, child] = self._spread(values[self._chosen] - explained, child)
        gains = self._noise.gains(residuals, [np.zeros(0, dtype=int)] * nodes)
        return scores - gains - self._mean_log_slopes

    def fit(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        precisions: Float[np.ndarray, " node"] | None,
    ) -> Fits:
        """Score families by full regressions."""
        fits = self._fit_once(children, parents, precisions)
        scores = np.array([fit.score for fit in fits])
        residuals = np.array([fit.residuals for fit in fits]).reshape(len(fits), len(self._chosen)).T
        mean_squares = np.array([fit.mean_square for fit in fits])
        predictive = np.array([fit.predictive for fit in fits])
        if precisions is not None:
            return Fits(scores, scores, predictive, residuals, mean_squares)
        new = [k for k, fit in enumerate(fits) if fit.gain is None]
        gains = self._noise.gains(residuals[:, new], _columns_by_family(parents[new]))
        for k, gain in zip(new, gains.tolist(), strict=True):
            fits[k].gain = gain
        gains = np.array([fit.gain for fit in fits], dtype=float)
        return Fits(scores - gains - self._mean_log_slopes[children], scores, predictive, residuals, mean_squares)

    def _fit_once(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        precisions: Float[np.ndarray, " node"] | None,
    ) -> list[_FamilyFit]:
        """Regress families that are not remembered, and remember the last of them."""
        known, fits = self._known_fits, {}
        for members, families in by_parents(parents):
            keys = [
                ((child, members), None if precisions is None else float(precisions[child]))
                for child in children[families].tolist()
            ]
            new = [key for key in keys if key not in known]
            found = dict(zip(new, self._regress(new, members), strict=True)) if new else {}
            for family, key in zip(families, keys, strict=True):
                fits[family] = found[key] if key in found else known.pop(key)
                known[key] = fits[family]  # the last that was asked is the last to be forgotten
            for _ in range(len(known) - max(1, REMEMBERED_VALUES // len(self._chosen))):
                del known[next(iter(known))]
        return [fits[family] for family in range(len(children))]

    def _regress(
        self, families: Sequence[tuple[Family, float | None]], members: tuple[int, ...]
    ) -> Iterator[_FamilyFit]:
        """Regress children on the same parents."""
        children = [child for (child, _), _ in families]
        products = self._products(members, children)
        ends, seen = self.features.layers(members, self.rows), self._some.joint(members, self.rows)
        seen -= products.origin
        factors = Factors(products.gram)
        for place, ((child, _), precision) in enumerate(families):
            values, cross = self.features.values[:, child], products.cross[:, place]
            total = float(values @ values)
            fit = factors.best_fit(cross, total, self.rows, ends, precision)
            weights = coefficients(fit)
            residuals = values[self._chosen] - seen[:, : fit.size] @ weights
            mean_square = float((residuals**2).mean())
            if len(residuals) < self.rows:
                explained = 2 * weights @ cross[: fit.size] - weights @ products.gram[: fit.size, : fit.size] @ weights
                mean_square = max((total - float(explained)) / self.rows, 0.0)
            predictive = np.nan
            if self._predicts:
                predictive = leave_one_out(seen[:, : fit.size], fit, residuals, precision)
            yield _FamilyFit(fit.score, predictive, self._spread(residuals, child), mean_square)

    def _spread(self, residuals: Float[np.ndarray, " row"], child: int) -> Float[np.ndarray, " row"]:
        """Spread what regressions leave unexplained of rows that share a value."""
        return residuals if self._moved is None else residuals + self._moved[self._chosen, child]

    def _products(self, members: tuple[int, ...], children: Sequence[int]) -> _Products:
        """Sum products over the rows, block by block: first about the mean of the first block, then about the mean."""
        origin, shift, gram, cross = np.zeros(0), np.zeros(()), np.zeros(()), np.zeros(())
        several = False
        for rows, block in self.features.blocks():
            features = block.joint(members, self.rows)
            several = rows.start > 0
            if not several:
                origin = features.mean(axis=0)
            features -= origin
            gram = gram + features.T @ features
            cross = cross + np.stack([features.T @ self.features.values[rows, child] for child in children], axis=1)
            shift = shift + features.sum(axis=0) / self.rows
        if several:
            gram = gram - self.rows * np.outer(shift, shift)
            cross = cross - np.outer(shift, self.features.values[:, children].sum(axis=0))
            origin = origin + shift
        return _Products(origin, gram, cross)

    def row_losses(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        residuals: Float[np.ndarray, "row family"],
        precisions: Float[np.ndarray, " node"] | None,
    ) -> Float[np.ndarray, "row family"]:
        """Return the negative log-likelihood of rows, by the best model of each family's noise.

        The residuals are those of `fit`, in `MOST_ROWS` rows at most.
        """
        if precisions is not None:
            return row_losses(residuals, 1 / precisions[children])
        return self._noise.row_losses(residuals, _columns_by_family(parents)) - self._log_slopes[:, children]

    def scale(
        self, parents: Bool[np.ndarray, "family node"], residuals: Float[np.ndarray, "row family"]
    ) -> Float[np.ndarray, "row family"]:
        """Divide residuals by the size that the best model of each family's noise finds."""
        return self._noise.scale(residuals, _columns_by_family(parents))

    def dependences(
        self, parents: Bool[np.ndarray, "family node"], scaled: Float[np.ndarray, "row family"]
    ) -> list[Dependence]:
        """Measure how far scaled residuals depend on the parents."""
        columns = _columns_by_family(parents)
        return [dependence_on(self._coarse_features[:, used], scaled[:, k]) for k, used in enumerate(columns)]


def evenly_spaced(rows: int, most: int) -> Int[np.ndarray, " chosen"]:
    """Return the positions of all rows, or of so many."""
    return np.linspace(0, rows - 1, min(rows, most)).astype(int)


def by_parents(parents: Bool[np.ndarray, "family node"] | Int[np.ndarray, "family node"]):
    """Group families by their set of parents: these share their features."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for family, members in enumerate(parents):
        groups.setdefault(tuple(np.flatnonzero(members).tolist()), []).append(family)
    return groups.items()


def _looked_at(
    children: Int[np.ndarray, " family"],
    parents: Bool[np.ndarray, "family node"],
    scores: Float[np.ndarray, "family node"],
) -> Bool[np.ndarray, "family node"]:
    """Say which neighbours models of noise look at: the family itself, and few others that are best if noise is normal.

    Of those with a further parent only such as are better than the family.
    """
    every, most = np.arange(len(children)), min(MOST_NEIGHBOURS, parents.shape[1]) - 1
    own = scores[every, children, None]
    more = np.where(parents, np.inf, scores)
    more[every, children] = np.inf
    less = np.where(parents, scores, np.inf)
    best_more, best_less = (np.partition(each, most, axis=1)[:, most, None] for each in (more, less))
    found = (more <= best_more) & (more < own) | (less <= best_less) & parents
    found[every, children] = True
    return found


def _coarse_columns(
    parents: Sequence[Sequence[int]] | Int[np.ndarray, "family parent"],
) -> Int[np.ndarray, "family column"]:
    """Return the columns of coarse features of families with as many parents each."""
    chosen = np.array(parents, dtype=int).reshape(len(parents), -1)
    return (chosen[:, :, None] * FUNCTIONS + np.arange(FUNCTIONS)).reshape(len(parents), -1)


def _columns_by_family(parents: Bool[np.ndarray, "family node"]) -> list[Int[np.ndarray, " column"]]:
    return [_coarse_columns([np.flatnonzero(members).tolist()])[0] for members in parents]
