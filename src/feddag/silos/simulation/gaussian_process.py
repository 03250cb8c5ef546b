"""Draws of a Gaussian process with an RBF kernel of length-scale one, at given inputs."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_lapack_funcs
from scipy.spatial.distance import cdist

EXACT_ROWS = 8_000
"""Up to here the kernel matrix is factored (half a gigabyte); beyond, random features stand in for it."""

_NEGLIGIBLE_VARIANCE = 1e-10
_FEATURES = 4096
_BLOCK_ROWS = 512


def sample_gaussian_process(
    inputs: Float[np.ndarray, "row input"], rng: np.random.Generator
) -> Float[np.ndarray, " row"]:
    """Draw the values at `inputs` of one random function f with Cov(f(x), f(y)) = exp(−‖x − y‖² / 2)."""
    sample = sample_exactly if len(inputs) <= EXACT_ROWS else sample_with_fourier_features
    return sample(inputs, rng)


def sample_exactly(inputs: Float[np.ndarray, "row input"], rng: np.random.Generator) -> Float[np.ndarray, " row"]:
    """By pivoted Cholesky, which stops once no input has more than a negligible variance left to explain.

    The kernel of few inputs is numerically of low rank (some 30 for 6,000 rows of one input), where the plain
    Cholesky needs a jitter to succeed at all and the full cubic cost.
    """
    rows = len(inputs)
    kernel = np.empty((rows, rows))
    for start in range(0, rows, _BLOCK_ROWS):  # only the lower triangle: the factorisation reads no more
        stop = min(start + _BLOCK_ROWS, rows)
        exponents = cdist(inputs[start:stop], inputs[:stop], "sqeuclidean")
        exponents *= -0.5
        np.exp(exponents, out=kernel[start:stop, :stop])
    (pivoted_cholesky,) = get_lapack_funcs(("pstrf",), (kernel,))
    # Its transpose, an upper triangle, is in the memory order that LAPACK overwrites without a copy.
    upper, pivots, rank, _ = pivoted_cholesky(kernel.T, lower=0, tol=_NEGLIGIBLE_VARIANCE, overwrite_a=1)
    np.copyto(upper[:rank, :rank], 0, where=np.tri(rank, k=-1, dtype=bool))
    values = np.empty(rows)
    values[pivots - 1] = rng.standard_normal(rank) @ upper[:rank]
    return values


def sample_with_fourier_features(
    inputs: Float[np.ndarray, "row input"], rng: np.random.Generator, features: int = _FEATURES
) -> Float[np.ndarray, " row"]:
    """By random Fourier features (Rahimi & Recht, 2007): linear in the rows, in blocks that bound the memory.

    A sine and a cosine share each frequency, so that the variance is one at every input. The covariance of
    two inputs is off by about 1/√features within one function, and exact on average over functions.
    """
    frequencies = rng.standard_normal((inputs.shape[1], features // 2))
    cosine_weights, sine_weights = rng.standard_normal((2, features // 2)) / np.sqrt(features // 2)
    values = np.empty(len(inputs))
    for start in range(0, len(inputs), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        phases = inputs[block] @ frequencies
        values[block] = np.cos(phases) @ cosine_weights + np.sin(phases) @ sine_weights
    return values
