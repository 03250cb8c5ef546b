"""DAG-GNN (Yu et al., "DAG-GNN: DAG Structure Learning with Graph Neural Networks", ICML 2019): an autoencoder.

One network, shared by all variables, encodes each into H; the graph's weights A part H from its causes,
Z = (I − Aᵀ)(H + w) − w, which is to be standard normal; the decoder inverts both. As in the published code Z is not
sampled: then encoding and decoding by A cancel, and A is judged by the size of Z alone. A = sinh(3U) makes small steps
in U large ones in A.

Assumes that all variables are transformed alike. Do not use it where each variable is a function of its own of its
parents plus noise: in the paper's comparison on such data it finds next to no edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from feddag.models.base import Model, Parameters, PyTree, Table, Weights, in_proportion, without_loops
from feddag.models.rows import Rows

_AMPLIFICATION = 3.0


@dataclass(frozen=True)
class DAGGNN(Model):
    """An encoder and a decoder with one hidden layer each; defaults are the published ones."""

    units: int = 64

    def init(self, rng: np.random.Generator, nodes: int) -> Parameters:
        """Start without edges, and draw the weights of both networks."""

        def network() -> dict[str, np.ndarray]:
            deviation = math.sqrt(2 / (1 + self.units))  # Xavier normal
            return {
                "inward": rng.normal(0, deviation, self.units).astype(np.float32),
                "hidden_bias": np.zeros(self.units, np.float32),
                "outward": rng.normal(0, deviation, self.units).astype(np.float32),
                "bias": np.zeros((), np.float32),
            }

        return {
            "graph": np.zeros((nodes, nodes), np.float32),
            "mechanism": {"encoder": network(), "decoder": network(), "shift": np.zeros((), np.float32)},
        }

    def adjacency(self, params: Parameters, key: PRNGKeyArray) -> Weights:
        """Return the weights `sinh(3U)`, which may be negative."""
        del key
        return without_loops(jnp.sinh(_AMPLIFICATION * params["graph"]))

    def fit(self, params: Parameters, adjacency: Weights, data: Rows) -> Float[Array, ""]:
        """Return half the squares of the decoding error and of Z: the evidence bound, but for constants."""
        mechanism = params["mechanism"]
        encoded = _network(mechanism["encoder"], data.values)
        decoded = _network(mechanism["decoder"], encoded)
        shifted = encoded + mechanism["shift"]
        Z = encoded - adjacency.T @ shifted
        return 0.5 * data.mean((data.values - decoded) ** 2 + Z**2)

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """Scale the graph's steps by its weights; leave the mechanism's steps as proposed."""
        graph = in_proportion(updates["graph"], jnp.abs(jnp.sinh(_AMPLIFICATION * params["graph"])), h)
        return {"graph": graph, "mechanism": updates["mechanism"]}

    def edge_scores(self, graph: Float[np.ndarray, "node node"]) -> Float[np.ndarray, "node node"]:
        """Return the absolute weights."""
        scores = np.abs(np.sinh(_AMPLIFICATION * graph.astype(np.float64)))
        np.fill_diagonal(scores, 0)
        return scores

    def predict(self, params: Parameters, adjacency: Weights, values: Table) -> Table:
        """Decode the value where Z is zero."""
        mechanism = params["mechanism"]
        A = jnp.sinh(_AMPLIFICATION * params["graph"]) * adjacency
        encoded = A.T @ (_network(mechanism["encoder"], values.T) + mechanism["shift"])
        return _network(mechanism["decoder"], encoded).T


def _network(network: dict[str, Any], values: Float[Array, "node row"]) -> Float[Array, "node row"]:
    """Map each number to one, for every variable alike: `Σ outward · relu(inward · x + hidden_bias) + bias`.

    It is a line between any two kinks of its units. The lines are added up once, and each number looks up its own,
    which is seven times as fast as to evaluate every unit.
    """
    inward, hidden_bias, outward = network["inward"], network["hidden_bias"], network["outward"]
    always = jnp.where(hidden_bias > 0, -jnp.inf, jnp.inf)
    kinks = jax.lax.stop_gradient(jnp.where(inward == 0, always, -hidden_bias / inward))
    order = jnp.argsort(kinks)
    rising = (inward >= 0)[order]  # these units are active above their kink, the others below
    units = (outward * jnp.stack([inward, hidden_bias]))[:, order]
    above = jnp.cumsum(jnp.where(rising, units, 0), axis=1)
    below = jnp.cumsum(jnp.where(rising, 0, units)[:, ::-1], axis=1)[:, ::-1]
    slopes, intercepts = jnp.pad(above, ((0, 0), (1, 0))) + jnp.pad(below, ((0, 0), (0, 1)))
    place = jnp.searchsorted(kinks[order], jax.lax.stop_gradient(values))
    return slopes[place] * values + intercepts[place] + network["bias"]
