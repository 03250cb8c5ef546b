"""A silo's rows, as models that need all of them want them."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Rows(NamedTuple):
    """A silo's rows, nodes first so that every layer's matrix product runs along contiguous rows."""

    values: Float[Array, "node row"]
    weight: Float[Array, "row"]
    """1/n for a row of the silo, 0 for padding."""


def padded_rows(rows: int) -> int:
    """Round up by at most 1/32, so that sites of many sizes share few compiled programs."""
    step = 2 ** max(3, rows.bit_length() - 6)
    return -(-rows // step) * step


def prepared_rows(values: Float[np.ndarray, "row node"], precision: type[np.floating] = np.float32) -> Rows:
    """Pad a table and weigh its rows, so that sites of many sizes share few compiled programs."""
    rows, nodes = values.shape
    padded = np.zeros((nodes, padded_rows(rows)), precision)
    padded[:, :rows] = values.T
    weight = np.zeros(padded.shape[1], precision)
    weight[:rows] = 1 / rows
    return Rows(jnp.asarray(padded), jnp.asarray(weight))
