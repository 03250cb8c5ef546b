"""A silo's rows, as models that need all of them want them."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


class Rows(NamedTuple):
    """A silo's rows, nodes first so that every layer's matrix product runs along contiguous rows."""

    values: Float[Array, "node row"]
    weight: Float[Array, "*node row"]
    """1/n for a row of the silo, 0 for padding; with experiments also 0 for each variable that was set in the row."""

    def mean(self, terms: Float[Array, "node row"]) -> Float[Array, ""]:
        """Return the mean over rows, summed over the variables."""
        if self.weight.ndim == 1:
            return jnp.sum(terms @ self.weight)
        return jnp.sum(terms * self.weight)

    def shares(self) -> Float[Array, "node 1 1"] | float:
        """Return for each variable the share of the rows in which nobody set it."""
        return 1.0 if self.weight.ndim == 1 else self.weight.sum(axis=1)[:, None, None]


def padded_rows(rows: int) -> int:
    """Round up by at most 1/32, so that sites of many sizes share few compiled programs."""
    step = 2 ** max(3, rows.bit_length() - 6)
    return -(-rows // step) * step


def prepared_rows(
    values: Float[np.ndarray, "row node"],
    scored: Bool[np.ndarray, "row node"] | None = None,
    precision: type[np.floating] = np.float32,
) -> Rows:
    """Pad a table and weigh its rows, so that sites of many sizes share few compiled programs.

    `scored` says which variables nobody set in which rows; None if there are no experiments.
    """
    rows, nodes = values.shape
    padded = np.zeros((nodes, padded_rows(rows)), precision)
    padded[:, :rows] = values.T
    weight = np.zeros(padded.shape[1] if scored is None else padded.shape, precision)
    weight[..., :rows] = 1 / rows if scored is None else scored.T / rows
    return Rows(jnp.asarray(padded), jnp.asarray(weight))
