"""NOTEARS-MLP (Zheng et al., "Learning Sparse Nonparametric DAGs", AISTATS 2020): one small network per variable.

The strength of the edge i → j is the norm of all weights from i into the first layer of j's network. These weights are
the graph and, with the layer above, the mechanism, too: sites that share the one must share the other.

Assumes additive noise of equal variance. Squared error makes the result depend on the units of the columns: do not use
it where scales are arbitrary, nor where sites' mechanisms differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from feddag.models.base import Edges, Model, Parameters, PyTree, Table, Weights, in_proportion, without_loops
from feddag.models.rows import Rows

_TINY = 1e-12
"""Added to a squared norm, whose root has no derivative at zero. Its cycles weigh less than any tolerance."""


@dataclass(frozen=True)
class NOTEARSMLP(Model):
    """One hidden layer of sigmoid units per node; defaults are the published ones."""

    units: int = 10
    l2: float = 0.01

    separable: ClassVar[bool] = False

    def init(self, rng: np.random.Generator, nodes: int) -> Parameters:
        """Draw all weights and biases uniformly within ±1/√(number of inputs)."""

        def uniform(fan_in: int, *shape: int) -> np.ndarray:
            limit = 1 / math.sqrt(fan_in)
            return rng.uniform(-limit, limit, shape).astype(np.float32)

        return {
            "graph": uniform(nodes, nodes, self.units, nodes) * (1 - np.eye(nodes, dtype=np.float32))[:, None, :],
            "mechanism": {
                "hidden_bias": uniform(nodes, nodes, self.units, 1),
                "weights": uniform(self.units, nodes, self.units),
                "bias": uniform(self.units, nodes, 1),
            },
        }

    def adjacency(self, params: Parameters, key: PRNGKeyArray) -> Weights:
        """Return the norm of each edge's weights; nothing is random."""
        del key
        W = _no_own_inputs(params["graph"])
        return without_loops(jnp.sqrt(jnp.sum(W**2, axis=1) + _TINY).T)

    def fit(self, params: Parameters, adjacency: Weights, data: Rows) -> Float[Array, ""]:
        """Return half the squared error, plus `l2` times half the squares of all weights, as far as rows tell them."""
        del adjacency
        W = _no_own_inputs(params["graph"])
        residual = data.values - _outputs(params, W, data.values)
        squares = jnp.sum(data.shares() * W**2) + jnp.sum(data.shares() * params["mechanism"]["weights"][:, None] ** 2)
        return 0.5 * data.mean(residual**2) + 0.5 * self.l2 * squares

    def sparsity(self, params: Parameters, adjacency: Weights) -> Float[Array, ""]:
        """Return the sum of the absolute weights, not of the norms of the edges."""
        del adjacency
        return jnp.abs(_no_own_inputs(params["graph"])).sum()

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """Scale the graph's steps by the norm of each edge's weights."""
        norms = jnp.sqrt(jnp.sum(params["graph"] ** 2, axis=1, keepdims=True))
        return {"graph": in_proportion(updates["graph"], norms, h), "mechanism": updates["mechanism"]}

    def held(
        self, graph: Float[Array, "node unit node"], *, impossible: Edges, certain: Edges
    ) -> Float[Array, "node unit node"]:
        """Set impossible edges to zero; weights cannot make an edge certain."""
        del certain
        return jnp.where(impossible.T[:, None, :], 0, graph)

    def edge_scores(self, graph: Float[np.ndarray, "node unit node"]) -> Float[np.ndarray, "node node"]:
        """Return the norm of each edge's weights."""
        scores = np.sqrt(np.sum(graph.astype(np.float64) ** 2, axis=1)).T
        np.fill_diagonal(scores, 0)
        return scores

    def predict(self, params: Parameters, adjacency: Weights, values: Table) -> Table:
        """Evaluate each node's network on its parents in `adjacency`."""
        return _outputs(params, params["graph"] * adjacency.T[:, None, :], values.T).T


def _no_own_inputs(W: Float[Array, "node unit node"]) -> Float[Array, "node unit node"]:
    return W * (1 - jnp.eye(len(W), dtype=W.dtype))[:, None, :]


def _outputs(
    params: Parameters, W: Float[Array, "node unit node"], values: Float[Array, "node row"]
) -> Float[Array, "node row"]:
    mechanism = params["mechanism"]
    nodes, units, _ = W.shape
    hidden = (W.reshape(nodes * units, nodes) @ values).reshape(nodes, units, -1) + mechanism["hidden_bias"]
    return jnp.einsum("ju,jun->jn", mechanism["weights"], jax.nn.sigmoid(hidden)) + mechanism["bias"]
