"""Whether what a regression leaves unexplained depends on the causes: if so, a model of the family is wrong.

The size, the skewness and the tails of scaled residuals (Legendre polynomials of their ranks: bounded, whatever the
noise) are regressed on the functions of the causes. By chance these explain a known share of the variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import legendre
from scipy.stats import rankdata

_DEGREES = (2, 3, 4)
"""The number of polynomials. The first is the mean, which the regression itself has explained."""
_RIDGE = 1.0
_DETERMINED = 1e-6
"""If its causes leave less than this unexplained of a standardised variable, the residuals are rounding."""
_SHIFT = 0.05
"""By which the slope of shapes is measured, in distances between the quartiles."""
_OFTEN, _TIMES = 0.2, 3.0
"""A value that so many rows have, and so many times as many as any other value, is no part of a density."""
_FEW, _NEARLY_ALL = 10, 0.95
"""If so few values make up so large a share of the rows, their gaps hide the shape of noise."""
COPIES = 0.997
"""Two columns whose rank correlation is at least so large, with either sign, look like copies."""


class Dependence(NamedTuple):
    """The share of variance that functions of the causes explain."""

    explained: float
    by_chance: float
    """The share that they explain on average if residuals do not depend on the causes."""
    variance: float
    """The variance of the share then."""


def dependence_on(features: Float[np.ndarray, "row feature"], residuals: Float[np.ndarray, " row"]) -> Dependence:
    """Measure how far the distribution of scaled residuals depends on the causes, by functions of these."""
    rows, functions = features.shape
    if not functions or residuals.var() < _DETERMINED:
        return Dependence(0.0, 0.0, 0.0)
    residuals = residuals - residuals.mean()
    shapes = _shapes_at(residuals, residuals)
    shapes -= shapes.mean(axis=0)
    features = features - features.mean(axis=0)
    gram, cross = features.T @ features, features.T @ shapes
    inverse = np.linalg.inv(gram + _RIDGE * np.eye(functions))
    moved = shapes - residuals[:, None] * _shift(residuals)
    spread = np.maximum((shapes**2).sum(axis=0), (moved**2).sum(axis=0))
    shares = (cross * (inverse @ cross)).sum(axis=0) / np.maximum(spread, 1e-9)
    products = moved.T @ moved  # shapes that vary together are one test rather than several
    alike = (products**2 / np.maximum(np.outer(products.diagonal(), products.diagonal()), 1e-9)).mean()
    hat = inverse @ gram
    variance = np.ceil(2 * (hat * hat.T).sum() * alike)
    return Dependence(_rounded(rows * shares.mean()) / rows, _rounded(np.trace(hat)) / rows, float(variance / rows**2))


def _rounded(functions: float) -> float:
    """Round to half a function: more digits would tell about single rows, and nothing about the assumption."""
    return float(np.round(2 * functions) / 2)


def deviations_beyond_chance(
    explained: Float[np.ndarray, "*node"], by_chance: Float[np.ndarray, "*node"], variance: Float[np.ndarray, "*node"]
) -> Float[np.ndarray, "*node"]:
    """Return how many standard deviations of a normal distribution the shares lie beyond chance; 0 without causes.

    By chance a share is nearly a multiple of a chi-squared variable, whose cube root is nearly normal (Wilson and
    Hilferty 1931).
    """
    mean = np.maximum(by_chance, 1e-12)
    spread = np.maximum(variance / (9 * mean**2), 1e-12)
    return np.where(by_chance > 0, (np.cbrt(explained / mean) - 1 + spread) / np.sqrt(spread), 0.0)


def _shapes_at(
    places: Float[np.ndarray, " row"], residuals: Float[np.ndarray, " row"]
) -> Float[np.ndarray, "row shape"]:
    """Evaluate the polynomials of the rank that a residual would have in some places."""
    ordered = np.sort(residuals)
    below = (np.searchsorted(ordered, places, "left") + np.searchsorted(ordered, places, "right")) / (2 * len(ordered))
    return legendre.legvander(2 * below - 1, max(_DEGREES))[:, _DEGREES]


def _shift(residuals: Float[np.ndarray, " row"]) -> Float[np.ndarray, " shape"]:
    """Return by how much shapes change on average if residuals are shifted, per unit.

    The regression has fitted chance too: where it lies off by a little, all residuals nearby are shifted, and with them
    their shapes.
    """
    step = _SHIFT * (np.quantile(residuals, 0.75) - np.quantile(residuals, 0.25))
    higher, lower = (_shapes_at(residuals + sign * step, residuals).mean(axis=0) for sign in (1, -1))
    return (higher - lower) / max(2 * step, 1e-9)


def has_atom(values: Float[np.ndarray, " row"]) -> bool:
    """Say whether one value of a column occurs much more often than all others, or few make up nearly all of it."""
    counts = np.sort(np.unique(values, return_counts=True)[1])
    if len(counts) < 2 or counts[-1] == 1:
        return False
    few = counts[-_FEW:].sum() >= _NEARLY_ALL * len(values)
    return bool(few or counts[-1] >= max(_OFTEN * len(values), _TIMES * counts[-2]))


def look_like_copies(values: Float[np.ndarray, "row node"]) -> Int[np.ndarray, "pair 2"]:
    """List the pairs of columns whose ranks are nearly the same, or nearly the reverse."""
    ranks = rankdata(values, axis=0) - (len(values) + 1) / 2
    ranks /= np.maximum(np.sqrt((ranks**2).sum(axis=0)), 1e-9)
    return np.argwhere(np.triu(np.abs(ranks.T @ ranks) >= COPIES, 1))
