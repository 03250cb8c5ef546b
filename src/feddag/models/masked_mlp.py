"""The masked bank of neural networks of MCSL (Ng et al. 2022), the model of the FedDAG paper (section 4.1).

Which inputs node j's network sees is decided by column j of a mask in [0, 1], drawn from the graph's logits `U` by
the Gumbel-sigmoid trick. Suited to additive noise of equal variance: squared error makes the result depend on the
units of the columns, so do not use it on variables whose scales are arbitrary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import expit, logit

from feddag.models.base import Edges, Model, Parameters, PyTree, Table, Weights, without_loops
from feddag.models.rows import Rows

_QUANTILES = 128


@jax.custom_vjp
def _layer(W: Float[Array, "node out in"], hidden: Float[Array, "node in row"]) -> Float[Array, "node out row"]:
    """Compute `W @ hidden`, whose derivative transposes the small `W` first.

    XLA would contract over the leading axis instead, which on the CPU costs a tenth of the whole step.
    """
    return W @ hidden


def _layer_forward(W, hidden):
    return W @ hidden, (W, hidden)


def _layer_backward(residuals, g):
    W, hidden = residuals
    W_transposed = jax.lax.optimization_barrier(W.swapaxes(1, 2))
    return jnp.einsum("jon,jin->joi", g, hidden), W_transposed @ g


_layer.defvjp(_layer_forward, _layer_backward)


@dataclass(frozen=True)
class MaskedMLP(Model):
    """One LeakyReLU network per node behind a shared mask; defaults are the paper's."""

    layers: int = 4
    units: int = 16
    temperature: float = 0.2
    slope: float = 0.05

    threshold: ClassVar[float] = 0.5

    def init(self, rng: np.random.Generator, nodes: int) -> Parameters:
        """Start with logits of zero, and draw the networks' weights."""
        widths = [nodes] + [self.units] * self.layers + [1]
        weights = []
        for fan_in, fan_out in pairwise(widths):
            limit = math.sqrt(6 / (fan_in + fan_out))  # Xavier uniform
            weights.append(rng.uniform(-limit, limit, (nodes, fan_out, fan_in)).astype(np.float32))
        biases = [np.zeros((nodes, width, 1), np.float32) for width in widths[1:]]
        return {
            "graph": np.zeros((nodes, nodes), np.float32),
            "mechanism": {"weights": weights, "biases": biases},
        }

    def adjacency(self, params: Parameters, key: PRNGKeyArray) -> Weights:
        """Draw `g_τ(U)`: the difference of two Gumbel draws is logistic, so one draw serves."""
        U = params["graph"]
        noisy = U + jax.random.logistic(key, U.shape, U.dtype)
        return without_loops(jax.nn.sigmoid(noisy / self.temperature))

    def fit(self, params: Parameters, adjacency: Weights, data: Rows) -> Float[Array, ""]:
        """Return half the squared error of all networks."""
        residual = data.values - self._outputs(params, adjacency, data.values)
        return 0.5 * data.mean(residual**2)

    def _outputs(
        self, params: Parameters, adjacency: Weights, values: Float[Array, "node row"]
    ) -> Float[Array, "node row"]:
        """Evaluate all networks at once; the mask scales the first layer's weights instead of d copies of the rows."""
        weights, biases = params["mechanism"]["weights"], params["mechanism"]["biases"]
        nodes, units, _ = weights[0].shape
        masked = weights[0] * adjacency.T[:, None, :]
        hidden = (masked.reshape(nodes * units, nodes) @ values).reshape(nodes, units, -1) + biases[0]
        for W, b in zip(weights[1:], biases[1:], strict=True):
            hidden = _layer(W, jax.nn.leaky_relu(hidden, self.slope)) + b
        return hidden[:, 0, :]

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """Return the steps as proposed: masks saturate, so that constant steps reach any `h`."""
        del params, h
        return updates

    def held(self, graph: Weights, *, impossible: Edges, certain: Edges) -> Weights:
        """Set logits to ±∞, which no noise changes and no gradient reaches."""
        return jnp.where(impossible, -jnp.inf, jnp.where(certain, jnp.inf, graph))

    def edge_scores(self, graph: Float[np.ndarray, "node node"]) -> Float[np.ndarray, "node node"]:
        """Return `E g_τ(U)`, the mean over equally likely quantiles of the logistic noise."""
        noise = logit((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        scores = expit((graph[:, :, None] + noise) / self.temperature).mean(axis=2)
        np.fill_diagonal(scores, 0)
        return scores

    def predict(self, params: Parameters, adjacency: Weights, values: Table) -> Table:
        """Evaluate each node's network on its parents in `adjacency`."""
        return self._outputs(params, adjacency, values.T).T
