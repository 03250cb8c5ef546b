"""The two matrices of a graph, and their checks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddag.errors import FeddagError

Adjacency = NDArray[np.int8]
"""`adjacency[i, j] = 1` is the edge i -> j; an undirected edge i -- j has both entries 1."""

Scores = NDArray[np.float64]
"""`scores[i, j]` says how much speaks for the edge i -> j."""


def as_adjacency(matrix: ArrayLike) -> Adjacency:
    """Copy `matrix` to int8; it must be square and hold nothing but 0 and 1."""
    entries = as_square(matrix, "adjacency")
    bad = (entries != 0) & (entries != 1)
    refuse("adjacency", entries, bad, "0 or 1; threshold_to_dag makes a graph of scores")
    return entries.astype(np.int8)


def as_scores(matrix: ArrayLike) -> Scores:
    """Copy `matrix` to float64; it must be square and finite."""
    entries = as_square(matrix, "scores")
    refuse("scores", entries, ~np.isfinite(entries), "finite")
    return entries


def as_square(matrix: ArrayLike, argument: str) -> NDArray[np.float64]:
    """Copy `matrix` to float64; it must be square."""
    try:
        entries = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FeddagError(f"{argument} must be a square matrix of numbers. It cannot be read as one: {error}") from None
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
        raise FeddagError(f"{argument} must be a square matrix. Got shape {entries.shape} instead.")
    return entries


def refuse(argument: str, entries: NDArray[np.float64], bad: NDArray[np.bool_], expected: str) -> None:
    """Raise on the first bad entry, naming its place."""
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise FeddagError(
            f"{argument} has {entries[row, column]:g} in row {row}, column {column} (counted from 0). "
            f"Every entry must be {expected}."
        )
