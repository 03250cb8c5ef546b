"""Columns bent so that each is normal by itself."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata


def normal_quantiles(values: Float[np.ndarray, "row *column"]) -> Float[np.ndarray, "row *column"]:
    """Return the normal quantiles of the ranks, column by column."""
    return ndtri((rankdata(values, axis=0) - 0.5) / len(values))
