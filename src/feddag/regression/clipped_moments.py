"""What clipping does to the covariance of normal numbers, and how to undo it.

Rows that are far from the middle are shortened before a release, and so are directions in which numbers vary most. If
numbers are normal, their own means and covariances tell those of the clipped ones: here they are found from these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm, qmc

from feddag.regression.bounded_features import GRID, LARGEST, FeatureMap

_POINTS = 13
"""Expectations are means over 2 to the power of so many points, which are spread evenly; always the same."""
_LONGEST = 0.9
"""Clipped rows are taken to be shorter than the longest, in the mean of their squares by this factor at least."""
_STEPS = 40
"""Corrections of mean and covariance: more change nothing that could be seen."""


class Unclipped(NamedTuple):
    """A normal distribution, by what it is when it is clipped; numbers as `FeatureMap` scales them."""

    means: Float[np.ndarray, " node"]
    covariance: Float[np.ndarray, "node node"]
    kept: float
    """The share of a row's products that clipping leaves, in the mean: noise counts by so much more."""


def unclip(
    features: FeatureMap, means: Float[np.ndarray, " node"], covariance: Float[np.ndarray, "node node"]
) -> Unclipped:
    """Find the normal distribution of which clipped rows have this mean and this covariance.

    Args:
        features: Of straight lines alone.
        means: Those of clipped rows.
        covariance: That of clipped rows, positive definite.
    """
    points = qmc.Sobol(features.nodes, rng=0).random_base2(_POINTS)
    normals = norm.ppf(np.clip(points, 1e-9, 1 - 1e-9))
    most = _LONGEST * features.longest  # no clipped rows have more than their longest: noise has
    wanted = np.linalg.cholesky(covariance * min(1.0, most / np.trace(covariance)))
    mean, factor = means.copy(), wanted
    for _ in range(_STEPS):
        rows = features.whole_functions(features.values_at(mean + normals @ factor.T))[:, 1:] * (LARGEST / GRID)
        clipped = np.cov(rows.T, bias=True).reshape(covariance.shape)
        if np.trace(clipped) > most:
            break
        larger = np.sqrt((factor**2).sum() / np.trace(clipped))
        mean = mean + larger * (means - rows.mean(axis=0))
        change = factor @ np.linalg.inv(np.linalg.cholesky(clipped))
        factor = np.linalg.cholesky((found := change @ wanted) @ found.T)
    lengths = ((mean + normals @ factor.T) ** 2).sum(axis=1)
    return Unclipped(mean, factor @ factor.T, float(np.minimum(1.0, features.longest / lengths).mean()))
