"""Noise laws, each with mean 0 and variance 1, so that a scale means the same under all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

NoiseLaw = Callable[[np.random.Generator, int], Float[np.ndarray, " row"]]

NOISE_LAWS: dict[str, NoiseLaw] = {
    "gaussian": lambda rng, rows: rng.standard_normal(rows),
    "laplace": lambda rng, rows: rng.laplace(scale=np.sqrt(1 / 2), size=rows),
    "uniform": lambda rng, rows: rng.uniform(-np.sqrt(3), np.sqrt(3), size=rows),
    "exponential": lambda rng, rows: rng.standard_exponential(rows) - 1,
    "gumbel": lambda rng, rows: (rng.gumbel(size=rows) - np.euler_gamma) * np.sqrt(6) / np.pi,
}
