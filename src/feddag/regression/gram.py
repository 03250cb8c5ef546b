"""Means of products of features: what a Gram matrix is made of, as sites can add it up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float


def means_of_products(
    features: Float[np.ndarray, "row feature"],
) -> tuple[Float[np.ndarray, " feature"], Float[np.ndarray, "feature feature"]]:
    """Return the mean of each feature, and the mean of each product of two."""
    return means_over_blocks([features])


def means_over_blocks(
    blocks: Iterable[Float[np.ndarray, "row feature"]],
) -> tuple[Float[np.ndarray, " feature"], Float[np.ndarray, "feature feature"]]:
    """Return what `means_of_products` returns for all rows, which come in blocks."""
    rows, first, second = 0, np.zeros(()), np.zeros(())
    for features in blocks:
        rows, first, second = rows + len(features), first + features.sum(axis=0), second + features.T @ features
    return first / rows, second / rows


def centred_gram(
    mean: Float[np.ndarray, " feature"], second: Float[np.ndarray, "feature other"], rows: float
) -> Float[np.ndarray, "feature other"]:
    """Return the Gram matrix of centred features, from the means of them and of their products."""
    return rows * (second - np.outer(mean[: len(second)], mean))


def triangle(symmetric: Float[np.ndarray, "feature feature"]) -> Float[np.ndarray, " pair"]:
    """Return each entry of a symmetric matrix once."""
    return symmetric[_lower(len(symmetric))]


def from_triangle(entries: Float[np.ndarray, " pair"]) -> Float[np.ndarray, "feature feature"]:
    """Return the matrix that `triangle` was given."""
    size = (math.isqrt(8 * len(entries) + 1) - 1) // 2
    matrix = np.empty((size, size))
    matrix[_lower(size)] = entries
    matrix.T[_lower(size)] = entries
    return matrix


@lru_cache(maxsize=64)
def _lower(size: int) -> Bool[np.ndarray, "feature feature"]:
    return np.tri(size, dtype=bool)
