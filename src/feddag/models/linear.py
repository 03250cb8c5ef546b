"""The linear model: one weight per edge, fitted from second moments alone (section 5.1.1 of the paper).

The weight matrix is graph and mechanism in one, and there is no mask to sample. A step costs d³ whatever the number
of rows. Suited to linear mechanisms with noise of equal variance; not to nonlinear ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from feddag.models.base import Model, Parameters, PyTree, Table, Weights, in_proportion, without_loops


class LinearData(NamedTuple):
    """All that least squares needs of a silo."""

    covariance: Float[Array, "*child node node"]
    """With experiments one for each child, about the rows in which nobody set it, and smaller the fewer these are."""


@dataclass(frozen=True)
class Linear(Model):
    """`X = XW + noise` on centred columns."""

    centred: ClassVar[bool] = True

    def init(self, rng: np.random.Generator, nodes: int) -> Parameters:
        """Start without edges; nothing is random."""
        del rng
        return {"graph": np.zeros((nodes, nodes), np.float32), "mechanism": {}}

    def prepare(
        self, values: Float[np.ndarray, "row node"], scored: Bool[np.ndarray, "row node"] | None = None
    ) -> LinearData:
        """Return the columns' covariance."""
        if scored is None:
            return LinearData(jnp.asarray(_products(values, len(values)), jnp.float32))
        return LinearData(jnp.asarray([_products(values[rows], len(values)) for rows in scored.T], jnp.float32))

    def adjacency(self, params: Parameters, key: PRNGKeyArray) -> Weights:
        """Return the weights; nothing is random."""
        del key
        return without_loops(params["graph"])

    def fit(self, params: Parameters, adjacency: Weights, data: LinearData) -> Float[Array, ""]:
        """Compute `½ tr((I − W)ᵀ S (I − W))`."""
        del params
        unexplained = jnp.eye(adjacency.shape[0], dtype=adjacency.dtype) - adjacency
        if data.covariance.ndim == 3:
            return 0.5 * jnp.einsum("ij,jik,kj->", unexplained, data.covariance, unexplained)
        return 0.5 * jnp.sum(unexplained * (data.covariance @ unexplained))

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """Scale the graph's steps by its weights."""
        graph = in_proportion(updates["graph"], jnp.abs(params["graph"]), h)
        return {"graph": graph, "mechanism": updates["mechanism"]}

    def edge_scores(self, graph: Float[np.ndarray, "node node"]) -> Float[np.ndarray, "node node"]:
        """Return the absolute weights."""
        scores = np.abs(graph, dtype=np.float64)
        np.fill_diagonal(scores, 0)
        return scores

    def predict(self, params: Parameters, adjacency: Weights, values: Table) -> Table:
        """Multiply the values by the weights of the edges in `adjacency`."""
        return values @ (params["graph"] * adjacency)


def _products(values: Float[np.ndarray, "row node"], rows: int) -> Float[np.ndarray, "node node"]:
    """Return the sums of products about the mean, divided by a number of rows."""
    centred = values - values.mean(axis=0) if len(values) else values
    with np.errstate(over="ignore"):  # then the loss is not finite, which the site tells
        return centred.T @ centred / rows
