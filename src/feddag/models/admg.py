"""The linear model with hidden common causes: weights of edges ->, and correlations of noise for edges <->.

Appendix C.3 of the paper names it: the likelihood and the constraints of Bhattacharya, Nagarajan, Malinsky and
Shpitser, "Differentiable causal discovery under unmeasured confounding", AISTATS 2021. Like the linear model it needs
second moments alone. Suited to linear mechanisms with normal noise; not to nonlinear ones. With normal noise many
graphs fit equally well: adjacencies are easier to find than directions, and the graph that is returned is the one that
agrees most with all of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from feddag.errors import FeddagError
from feddag.models.base import Edges, Model, Parameters, PyTree, Table, Weights, in_proportion, without_loops

_LARGEST_SHRINKAGE = 0.98
"""Correlations are shrunk so that no eigenvalue of the noise is below 1 minus this."""

_PRICE_OF_HIDDEN_CAUSE = 1.3
"""In the sparsity term; chosen on simulated graphs of seeds 1 to 6."""


class Standardised(NamedTuple):
    """All that the likelihood needs of a silo."""

    correlation: Weights
    log_scale: Float[Array, " node"]


@dataclass(frozen=True)
class ADMG(Model):
    """`X = XD + noise` on centred columns, with noise that is correlated where a hidden common cause joins two of them.

    The graph is a pair of matrices: the weights of the edges ->, in units of the columns' deviations, and the
    correlations of their noise. The constraint says which pairs of matrices are graphs: in a `"bow-free"` one a pair
    has one edge or the other, and in an `"ancestral"` one no edge <-> joins a variable to one that it causes, along
    whatever path.
    """

    constraint: Literal["bow-free", "ancestral"] = "bow-free"
    threshold: ClassVar[float] = 0.1
    centred: ClassVar[bool] = True
    takes_experiments: ClassVar[bool] = False

    def init(self, rng: np.random.Generator, nodes: int) -> Parameters:
        """Start without edges, in units of 1; nothing is random."""
        del rng
        mechanism = {name: np.zeros(nodes, np.float32) for name in ("log_scale", "log_deviation")}
        return {"graph": np.zeros((2, nodes, nodes), np.float32), "mechanism": mechanism}

    def prepare(
        self, values: Float[np.ndarray, "row node"], scored: Bool[np.ndarray, "row node"] | None = None
    ) -> Standardised:
        """Return the columns' correlations, and their deviations. The noise of all variables is judged together."""
        if scored is not None:
            raise FeddagError("The model 'admg' takes no experiments. Choose another model.")
        centred = values - values.mean(axis=0)
        deviations = np.maximum(centred.std(axis=0), np.finfo(np.float32).tiny)
        with np.errstate(over="ignore", invalid="ignore"):  # then the loss is not finite, which the site tells
            scaled = centred / deviations
            correlation = jnp.asarray(scaled.T @ scaled / len(values), jnp.float32)
        return Standardised(correlation, jnp.asarray(np.log(deviations), jnp.float32))

    def adjacency(self, params: Parameters, key: PRNGKeyArray) -> Weights:
        """Return the weights of the edges ->; nothing is random."""
        del key
        return without_loops(params["graph"][0])

    def fit(self, params: Parameters, adjacency: Weights, data: Standardised) -> Float[Array, ""]:
        """Compute the negative log-likelihood per row of standardised columns, but for a constant.

        Each site standardises by its own deviations, so that the graph does not depend on the units of the data. The
        scale of each column is learned besides, for predictions: the mean of the logarithms of the sites' deviations.
        """
        scale, deviation = params["mechanism"]["log_scale"], params["mechanism"]["log_deviation"]
        off_scale = 0.5 * jnp.sum((scale - data.log_scale) ** 2)
        unexplained = jnp.eye(len(scale), dtype=adjacency.dtype) - adjacency
        by_deviation = jnp.exp(-deviation)
        residual = by_deviation[:, None] * (unexplained.T @ data.correlation @ unexplained) * by_deviation[None]
        noise = jnp.eye(len(scale), dtype=adjacency.dtype) + _positive(_correlations(params["graph"]))
        halves = jnp.trace(jnp.linalg.solve(noise, residual)) + jnp.linalg.slogdet(noise)[1]
        return off_scale + 0.5 * halves + deviation.sum() - jnp.linalg.slogdet(unexplained)[1]

    def bows(self, params: Parameters, adjacency: Weights) -> Float[Array, ""]:
        """Compute `sum(D ∘ B)` of the squared weights and correlations: 0 if no pair has both edges.

        For ancestral graphs `sum(e^D ∘ B)`: 0 if no directed path joins what an edge <-> joins, too.
        """
        paths = adjacency**2
        if self.constraint == "ancestral":
            paths = _paths(paths)
        return jnp.sum(paths * _correlations(params["graph"]) ** 2)

    def sparsity(self, params: Parameters, adjacency: Weights) -> Float[Array, ""]:
        """Return the sum of the absolute weights and, at a higher price, correlations.

        Where both explain the data equally well, a cause is the simpler explanation than a variable that is hidden.
        """
        return jnp.abs(adjacency).sum() + _PRICE_OF_HIDDEN_CAUSE * jnp.abs(_correlations(params["graph"])).sum() / 2

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """Scale the graph's steps by its entries."""
        graph = in_proportion(updates["graph"], jnp.abs(params["graph"]), h)
        return {"graph": graph, "mechanism": updates["mechanism"]}

    def held(self, graph: PyTree, *, impossible: Edges, certain: Edges) -> PyTree:
        """Remove impossible edges ->. A hidden cause may still join their ends."""
        del certain
        return jnp.stack([jnp.where(impossible, 0, graph[0]), graph[1]])

    def edge_scores(self, graph: PyTree) -> Float[np.ndarray, "node node"]:
        """Return the absolute weights of the edges ->."""
        scores = np.abs(graph[0], dtype=np.float64)
        np.fill_diagonal(scores, 0)
        return scores

    def bidirected_scores(self, graph: PyTree) -> Float[np.ndarray, "node node"]:
        """Return the absolute correlations of the noise."""
        return np.abs(np.asarray(_correlations(jnp.asarray(graph)), dtype=np.float64))

    def predict(self, params: Parameters, adjacency: Weights, values: Table) -> Table:
        """Multiply the values by the weights, in the units of the data: the graph may be another that fits as well."""
        del adjacency
        scale = params["mechanism"]["log_scale"]
        return values @ (without_loops(params["graph"][0]) * jnp.exp(scale[None] - scale[:, None]))


def _correlations(graph: Float[Array, "2 node node"]) -> Weights:
    return without_loops(jnp.asarray(graph[1] + graph[1].T) / 2)


def _paths(edges: Weights) -> Weights:
    """Compute `e^D - I` as far as paths go, which have fewer edges than there are nodes, by Horner's scheme."""
    paths = edges
    for length in range(len(edges) - 1, 1, -1):
        paths = edges + edges @ paths / length
    return paths


def _positive(correlations: Weights) -> Weights:
    """Shrink correlations that no noise can have; others stay as they are."""
    lowest = -jnp.linalg.eigvalsh(jax.lax.stop_gradient(correlations))[0]
    return correlations * jnp.minimum(1.0, _LARGEST_SHRINKAGE / jnp.maximum(lowest, _LARGEST_SHRINKAGE / 2))
