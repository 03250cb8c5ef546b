"""Rounded columns: many rows share a value, and a density sees the gaps between values.

It finds the coarsest column far likelier by itself than given its causes, which hide the gaps: such a column would
always seem to be a cause. So models of noise look at columns whose ties are spread evenly over what is rounded to a
value. Regressions keep the values: what normal noise makes of these is the same for both directions.
"""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import Float, Int


def spread_ties(
    values: Float[np.ndarray, "row node"], levels: Int[np.ndarray, " node"]
) -> Float[np.ndarray, "row node"] | None:
    """Spread rows that share a value of a continuous column; return None if there are none."""
    spread = None
    for node in np.flatnonzero(levels == 0):
        moved = _moves(values[:, node])
        if moved is not None:
            spread = values.copy() if spread is None else spread
            spread[:, node] += moved
    return spread


def _moves(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"] | None:
    """Return by how much each row is moved: up to half the distance to the next value, or to that of most values."""
    found, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(found) in {1, len(values)}:
        return None
    gaps = np.diff(found)
    widths = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    widths = np.minimum(widths, np.median(gaps))
    # drawn by the counts alone: neither the units nor the order of columns matter, and other columns tell nothing
    seed = int.from_bytes(hashlib.sha256(counts.tobytes()).digest()[:8], "little")
    order = np.random.default_rng(seed).permutation(len(values))
    by_value = order[np.argsort(place[order], kind="stable")]
    ranks = np.empty(len(values))
    ranks[by_value] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return widths[place] * ((ranks + 0.5) / counts[place] - 0.5)
