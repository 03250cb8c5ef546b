"""How much likelier residuals are if noise need not be normal, nor of the same size everywhere.

A regression's evidence takes noise for normal and of one size. Where it is not, a wrong direction may explain the data
better, and with more rows more surely so. So a family's evidence is averaged over a few models of its noise:

- normal, of one size: what the regression has;
- of any shape: a kernel density of the residuals, in which each row is judged by all others;
- of any shape with sharp ends, as uniform noise has: kernels are folded back at the least and the greatest residual;
- of a size that depends on the parents: the logarithm of the variance is a sum of functions of each parent, with the
  price of such functions; what is left, once divided by its size, is normal or of any shape.

Densities are estimated on a scale where heavy tails are short (the inverse hyperbolic sine), so that values far out
have bounded influence. A gain is the log-evidence per row beyond that of normal noise; all models are equally likely
beforehand, so it is never below that of normal noise by more than the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from feddag.regression.evidence import LEAST_VARIANCE, average_evidence

_BANDWIDTHS = (0.35, 0.9)
"""The width of the kernels, times the fifth root of the number of rows."""
_SHAPE_PRICE = 0.3
"""The price of a shape in log-evidence, times the logarithm of the number of rows: chance is no shape."""
_ENDS_PRICE = 3.0
"""The price of sharp ends in log-evidence, times the logarithm of the number of rows: both ends are fitted."""
_ROWS_AT_ENDS = 20.0
"""With fewer rows under the kernels at both ends, these are not sharp: folding could not pay its price."""
_STEP, _FARTHEST = 0.08, 5.2
"""The grid on which densities are computed, in units of the transformed residuals."""
_GRID = np.arange(-_FARTHEST, _FARTHEST + _STEP / 2, _STEP)
_FAR_OUT = 1 / (np.pi * np.cosh(_GRID))
"""The density of a row that is far from all others, which has the weight of one row."""
_NORMAL_QUARTILES = 1.349
"""The distance of the quartiles of the standard normal distribution."""
_LOG_VARIANCE_PRIOR = 1.0
"""The inverse prior variance of each coefficient of the logarithm of the variance."""
_LARGEST_LOG_VARIANCE = 6.0
_LARGEST_SQUARE = 10.0
"""No row counts for more in the fit of the variance."""
_STEPS = 3
"""The steps of Fisher scoring, for the variance."""
_BEYOND_CHANCE = 1.0
"""Standard deviations by which functions must explain the size of noise better than by chance, to be fitted."""
_BATCH_VALUES = 2**20


class Sizes(NamedTuple):
    """The size of the noise in each row, of some families."""

    varying: Int[np.ndarray, " varying"]
    """The families whose noise has a size that varies."""
    deviations: Float[np.ndarray, "row varying"]
    price: Float[np.ndarray, " varying"]
    """The negative log-evidence per row of the functions that the sizes need."""


class NoiseModels:
    """The models of one site's noise."""

    def __init__(self, features: Float[np.ndarray, "row feature"]) -> None:
        """`features` are functions of single variables, on which the size of noise may depend.

        Their precision is that of all that is computed.
        """
        self._features = features - features.mean(axis=0)
        self._gram = self._features.T @ self._features

    def gains(
        self, residuals: Float[np.ndarray, "row family"], columns: Sequence[Int[np.ndarray, " column"]]
    ) -> Float[np.ndarray, " family"]:
        """Return the gain of each family, whose parents' functions are in these columns of the features."""
        gains = np.empty(len(columns))
        for families, residual, chosen in self._batches(residuals, columns):
            options, _ = self._log_likelihoods(residual, chosen)
            gains[families] = -average_evidence(-options, len(residual))
        return gains

    def _log_likelihoods(
        self, residual: Float[np.ndarray, "row family"], columns: Int[np.ndarray, "family column"]
    ) -> tuple[Float[np.ndarray, "model family"], Sizes | None]:
        """Return the log-likelihood of each model beyond normal noise: first models of one size, then of varying."""
        normal = normal_log_likelihood(residual)
        shaped, _ = shaped_log_likelihoods(residual)
        options = np.full((2 * len(shaped) + 2, residual.shape[1]), -np.inf)
        options[0], options[1 : len(shaped) + 1] = 0.0, shaped - normal
        fits = self._fits_of_sizes(residual, columns)
        if fits is not None:
            varying, deviations, price = fits
            scaled = residual[:, varying] / deviations
            volume = np.log(deviations).mean(axis=0) + price + normal[varying]
            options[len(shaped) + 1, varying] = normal_log_likelihood(scaled) - volume
            options[len(shaped) + 2 :, varying] = shaped_log_likelihoods(scaled)[0] - volume
        return options, fits

    def scale(
        self, residuals: Float[np.ndarray, "row family"], columns: Sequence[Int[np.ndarray, " column"]]
    ) -> Float[np.ndarray, "row family"]:
        """Return the residuals divided by the size that the best model of each family's noise finds."""
        scaled = np.empty(residuals.shape)
        for families, residual, chosen in self._batches(residuals, columns):
            options, fits = self._log_likelihoods(residual, chosen)
            if fits is not None:
                better = options.argmax(axis=0)[fits.varying] >= len(options) // 2
                residual[:, fits.varying[better]] /= fits.deviations[:, better]
            scaled[:, families] = residual
        return scaled

    def row_losses(
        self, residuals: Float[np.ndarray, "row family"], columns: Sequence[Int[np.ndarray, " column"]]
    ) -> Float[np.ndarray, "row family"]:
        """Return the negative log-likelihood of every row by the best model of each family's noise."""
        losses = np.empty(residuals.shape)
        for families, residual, chosen in self._batches(residuals, columns):
            options = _row_losses(residual)
            fits = self._fits_of_sizes(residual, chosen)
            if fits is not None:
                varying, deviations, price = fits
                for rows in _row_losses(residual[:, varying] / deviations):
                    options.append(options[0].copy())
                    options[-1][:, varying] = rows + np.log(deviations) + price
            best = np.argmin([rows.mean(axis=0) for rows in options], axis=0)
            losses[:, families] = np.stack(options)[best, :, np.arange(len(families))].T
        return losses

    def _batches(self, residuals: np.ndarray, columns: Sequence[np.ndarray]):
        """Take families with as many functions together, and of them as many as fit into memory."""
        widths = np.array([len(each) for each in columns], dtype=int)
        step = max(1, _BATCH_VALUES // len(residuals))
        for width in np.unique(widths):
            families = np.flatnonzero(widths == width)
            for start in range(0, len(families), step):
                batch = families[start : start + step]
                chosen = np.array([columns[family] for family in batch], dtype=int).reshape(len(batch), width)
                residual = residuals[:, batch].astype(self._features.dtype)
                yield batch, residual - residual.mean(axis=0), chosen

    def _fits_of_sizes(
        self, residual: Float[np.ndarray, "row family"], columns: Int[np.ndarray, "family column"]
    ) -> Sizes | None:
        """Fit the logarithm of the variance, by Fisher scoring, where it seems to depend on the parents at all."""
        if not columns.shape[1]:
            return None
        rows = len(residual)
        system = 0.5 * self._gram[columns[:, :, None], columns[:, None, :]]
        system += _LOG_VARIANCE_PRIOR * np.eye(columns.shape[1])
        square = residual**2 + LEAST_VARIANCE
        square /= square.mean(axis=0)
        start = np.log(square + 1e-4)
        start -= start.mean(axis=0)
        cross = self._cross(start, columns)
        explained = 0.5 * (cross * np.linalg.solve(system, cross[..., None])[..., 0]).sum(axis=1) / start.var(axis=0)
        by_chance = columns.shape[1]
        varying = np.flatnonzero(explained > by_chance + _BEYOND_CHANCE * np.sqrt(2 * by_chance))
        if not len(varying):
            return None
        columns, square, inverse = columns[varying], square[:, varying], np.linalg.inv(system[varying])
        log_variance, found = np.zeros(square.shape), np.zeros(columns.shape)
        target = 0.4 * start[:, varying]  # shrunk: logarithms of squares spread widely
        for _ in range(_STEPS):
            found = 0.5 * (inverse @ self._cross(target, columns)[..., None])[..., 0]
            weights = np.zeros((self._features.shape[1], len(columns)), self._features.dtype)
            np.put_along_axis(weights, columns.T, found.T, axis=0)
            log_variance = np.clip(self._features @ weights, -_LARGEST_LOG_VARIANCE, _LARGEST_LOG_VARIANCE)
            scaled = square * np.exp(-log_variance)
            target = log_variance + np.minimum(scaled / scaled.mean(axis=0), _LARGEST_SQUARE) - 1
        volume = np.linalg.slogdet(system[varying] / _LOG_VARIANCE_PRIOR)[1]
        price = (volume + _LOG_VARIANCE_PRIOR * (found**2).sum(axis=1)) / (2 * rows)
        return Sizes(varying, np.exp(log_variance / 2), price)

    def _cross(
        self, target: Float[np.ndarray, "row family"], columns: Int[np.ndarray, "family column"]
    ) -> Float[np.ndarray, "family column"]:
        return np.take_along_axis(self._features.T @ target, columns.T, axis=0).T


def normal_log_likelihood(residuals: Float[np.ndarray, "row family"]) -> Float[np.ndarray, " family"]:
    """Return the mean log-likelihood of a row if noise is normal."""
    return -0.5 * (np.log(2 * np.pi * np.maximum((residuals**2).mean(axis=0), LEAST_VARIANCE)) + 1)


class _Densities(NamedTuple):
    """The logarithm of densities on the grid, for each bandwidth and with sharp ends, and where each row is on it.

    That of densities with sharp ends is less the price of these.
    """

    logarithms: list[Float[np.ndarray, "grid family"]]
    place: Float[np.ndarray, "row family"]
    log_slope: Float[np.ndarray, "row family"]
    """The logarithm of the slope of the transformation."""


def shaped_log_likelihoods(
    residuals: Float[np.ndarray, "row family"],
) -> tuple[Float[np.ndarray, "density family"], _Densities]:
    """Return the mean log-likelihood of a row if noise has any shape: each row's by the density of all others."""
    rows, families = residuals.shape
    low, middle, high = np.quantile(residuals, (0.25, 0.5, 0.75), axis=0)
    scale = np.maximum((high - low) / _NORMAL_QUARTILES, np.sqrt(LEAST_VARIANCE))
    scaled = (residuals - middle) / scale
    place = (np.clip(np.arcsinh(scaled), -_FARTHEST, _FARTHEST - _STEP) + _FARTHEST) / _STEP
    log_slope = -np.log(scale) - 0.5 * np.log1p(scaled**2)
    cell = place.astype(np.int64)
    beyond = place - cell
    cell += np.arange(families) * len(_GRID)
    size = families * len(_GRID)
    counts = np.bincount(cell.ravel(), (1 - beyond).ravel(), size) + np.bincount(cell.ravel() + 1, beyond.ravel(), size)
    counts = counts.reshape(families, len(_GRID)).T.astype(residuals.dtype)
    kernels = _kernels(rows, residuals.dtype)
    sums = [kernel @ counts for kernel, _ in kernels]
    logarithms = [_log_density(each - own, rows) for each, (_, own) in zip(sums, kernels, strict=True)]
    logarithms.append(logarithms[0] - residuals.dtype.type(_ENDS_PRICE * np.log(rows) / rows))
    ends = np.stack([place.min(axis=0), place.max(axis=0)])
    sharp = np.flatnonzero(_at(sums[0], ends).sum(axis=0) > _ROWS_AT_ENDS * kernels[0][1])
    if len(sharp):
        folded = _folded(sums[0][:, sharp], ends[:, sharp], kernels[0][1])
        logarithms[-1][:, sharp] = _log_density(folded, rows) - _ENDS_PRICE * np.log(rows) / rows
    found = np.array([(counts * each).sum(axis=0) for each in logarithms]) / rows
    return found + log_slope.mean(axis=0) - _SHAPE_PRICE * np.log(rows) / rows, _Densities(logarithms, place, log_slope)


def _log_density(sums: Float[np.ndarray, "grid family"], rows: int) -> Float[np.ndarray, "grid family"]:
    """Return the logarithm of a density, from sums of the kernels of all rows but one."""
    return np.log((np.maximum(sums, 0.0) + _FAR_OUT.astype(sums.dtype)[:, None]) / rows)


def _folded(
    sums: Float[np.ndarray, "grid family"], ends: Float[np.ndarray, "2 family"], own: float
) -> Float[np.ndarray, "grid family"]:
    """Fold sums of kernels back at both ends, without a row's own kernel and what is folded of that."""
    width, grid = 1 / (own * np.sqrt(2 * np.pi)), np.arange(len(_GRID))[:, None]
    folded = sums - own
    for end in ends:
        mirrored = 2 * end - grid
        inside = (mirrored >= 0) & (mirrored <= len(_GRID) - 1)
        distance = _STEP * (mirrored - grid)
        folded += np.where(inside, _at(sums, mirrored), 0.0) - own * np.exp(-0.5 * (distance / width) ** 2)
    return folded


def _at(sums: Float[np.ndarray, "grid family"], places: Float[np.ndarray, "place family"]) -> np.ndarray:
    """Interpolate between the grid's places, which are numbered."""
    cell = np.clip(places.astype(np.int64), 0, len(_GRID) - 2)
    low, high = np.take_along_axis(sums, cell, axis=0), np.take_along_axis(sums, cell + 1, axis=0)
    return low + (places - cell) * (high - low)


@lru_cache(maxsize=16)
def _kernels(rows: int, precision: np.dtype) -> list[tuple[Float[np.ndarray, "grid grid"], float]]:
    """Return the kernel of each bandwidth between all places of the grid, and its height at its own place."""
    distance, kernels = _GRID[:, None] - _GRID, []
    for bandwidth in _BANDWIDTHS:
        width = max(bandwidth * rows**-0.2, _STEP)
        height = 1 / (width * np.sqrt(2 * np.pi))
        kernels.append(((height * np.exp(-0.5 * (distance / width) ** 2)).astype(precision), height))
    return kernels


def _row_losses(residuals: Float[np.ndarray, "row family"]) -> list[Float[np.ndarray, "row family"]]:
    """Return the negative log-likelihood of every row, if noise is normal, and if it has any shape."""
    variance = np.maximum((residuals**2).mean(axis=0), LEAST_VARIANCE)
    _, densities = shaped_log_likelihoods(residuals)
    cell = densities.place.astype(np.int64)
    beyond, families = densities.place - cell, np.arange(residuals.shape[1])
    return [0.5 * (np.log(2 * np.pi * variance) + residuals**2 / variance)] + [
        -((1 - beyond) * each[cell, families] + beyond * each[cell + 1, families] + densities.log_slope)
        for each in densities.logarithms
    ]


def row_log_densities(values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row node"]:
    """Return the logarithm of each column's density in every row, by the best of the kernels."""
    _, *shaped = _row_losses(values)
    best = np.argmin([rows.mean(axis=0) for rows in shaped], axis=0)
    return -np.stack(shaped)[best, :, np.arange(values.shape[1])].T
