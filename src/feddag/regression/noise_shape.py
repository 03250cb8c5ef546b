"""How much likelier residuals are if noise need not be normal: by its negentropy (Hyvärinen 1998).

Scores take noise for normal. A curve may then fit a non-normal cause to its effect better than the line by which it
acts fits the effect to the cause; but what this curve gains in variance, the shape of the noise loses. So a direction
is called sure only if it is better with noise of any shape, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from feddag.regression.evidence import LEAST_VARIANCE


class _Statistic(NamedTuple):
    weight: float
    """In the approximation."""
    value: Callable[[np.ndarray], np.ndarray]
    """The statistic of standardised residuals: its mean is 0 if noise is normal."""
    slope: Callable[[np.ndarray], np.ndarray]


_STATISTICS = (
    # how heavy the tails are: log cosh u
    _Statistic(79.047, lambda u: np.logaddexp(u, -u) - np.log(2) - 0.3745672, np.tanh),
    # how skewed it is
    _Statistic(7.4129, lambda u: u * np.exp(-(u**2) / 2), lambda u: (1 - u**2) * np.exp(-(u**2) / 2)),
)
STATISTICS = len(_STATISTICS)


def shape_of(residuals: Float[np.ndarray, "row family"]) -> dict[str, Float[np.ndarray, "statistic family"]]:
    """Return what a site answers about the shape of its noise: the mean of each statistic, and of its square.

    What the residuals' own mean and deviation take part in is taken away, which changes no mean, so that the spread of
    what is left is that of the means. Of a variable that its parents determine, the noise has no shape.
    """
    variance = residuals.var(axis=0)
    noisy = variance > LEAST_VARIANCE
    u = (residuals - residuals.mean(axis=0)) / np.sqrt(np.where(noisy, variance, 1.0))
    mean, square = np.empty((2, STATISTICS, residuals.shape[1]))
    for k, each in enumerate(_STATISTICS):
        slope = each.slope(u)
        values = each.value(u) - slope.mean(axis=0) * u - (slope * u).mean(axis=0) * (u**2 - 1) / 2
        mean[k], square[k] = values.mean(axis=0), (values**2).mean(axis=0)
    return {"shape": noisy * mean, "shape_square": noisy * square}


def shape_gain(
    mean: Float[np.ndarray, "statistic family"], square: Float[np.ndarray, "statistic family"], rows: int
) -> tuple[Float[np.ndarray, " family"], Float[np.ndarray, " family"]]:
    """Return by how much the log-likelihood per row rises, and its variance, from the means over all sites.

    Each statistic is a parameter of the noise, and counts only where it is worth its price (by the BIC): else the
    chance in those of normal noise would add up.
    """
    weight = np.array([[each.weight] for each in _STATISTICS])
    price = np.log(rows) / (2 * rows)
    gain = weight * mean**2 - price
    variance = (2 * weight * mean) ** 2 * (square - mean**2) / rows
    return np.maximum(gain, 0.0).sum(axis=0), np.where(gain > 0, variance, 0.0).sum(axis=0)
