"""Whether what two regressions leave unexplained goes together: then the two variables may have a hidden common cause.

If one variable acts on another and nothing hidden acts on both, what the causes leave unexplained of the one is
independent of what they leave unexplained of the other. A hidden common cause is in both. Products of bounded functions
of both residuals (Legendre polynomials of their ranks) show it, unless effects are straight lines with normal noise.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre
from scipy.stats import rankdata

DEGREES = 4
"""The number of polynomials: a pair of residuals has the square of so many products."""
_STEP = 0.1
"""Sites round products to it, in standard deviations of chance: more digits would tell about single rows."""


def products(
    first: Float[np.ndarray, "row pair"], second: Float[np.ndarray, "row pair"]
) -> Float[np.ndarray, "pair product"]:
    """Return the mean products of functions of two residuals, for each pair; chance gives each variance 1 / rows."""
    rows = len(first)
    found = np.einsum("rpa,rpb->pab", _functions(first), _functions(second)) / rows
    step = _STEP / np.sqrt(rows)
    return np.round(found.reshape(first.shape[1], DEGREES**2) / step) * step


def _functions(residuals: Float[np.ndarray, "row pair"]) -> Float[np.ndarray, "row pair degree"]:
    """Evaluate the polynomials of the residuals' ranks, each of mean 0 and variance 1."""
    ranks = (rankdata(residuals, axis=0) - 0.5) / len(residuals)
    values = legendre.legvander(2 * ranks - 1, DEGREES)[..., 1:]
    values = values - values.mean(axis=0)
    return values / np.maximum(values.std(axis=0), 1e-9)


def misfit(
    mean_products: Float[np.ndarray, "pair product"], rows: Float[np.ndarray, " pair"]
) -> Float[np.ndarray, " pair"]:
    """Return by how much log-likelihood, nearly, residuals go together beyond chance."""
    return (rows * (mean_products**2).sum(axis=1) - mean_products.shape[1]) / 2


def deviations(misfits: Float[np.ndarray, "*pair"]) -> Float[np.ndarray, "*pair"]:
    """Return how far beyond chance that is, in standard deviations of a normal distribution.

    By chance the sum of squares is nearly a chi-squared variable, whose cube root is nearly normal (Wilson and Hilferty
    1931).
    """
    freedom = DEGREES**2
    spread = 2 / (9 * freedom)
    return (np.cbrt(1 + 2 * misfits / freedom) - 1 + spread) / np.sqrt(spread)
