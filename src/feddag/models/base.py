"""The interface of structural models."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypedDict, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from feddag.models.rows import prepared_rows

PyTree = Any
Weights = Float[Array, "node node"]
"""A number for each edge; `[i, j]` is the edge i → j."""
Table = Float[Array, "row node"]


def in_proportion(update: Array, size: Array, h: Float[Array, ""]) -> Array:
    """Scale steps by each weight, but by no less than the weights that still close a cycle, which are √h.

    With steps of constant size these weights would jitter about zero, and a growing ρ would tear the others down
    with them. With √h for all, the large weights would freeze as h falls, and could not refit once edges are cut.
    """
    return jnp.clip(size, jnp.sqrt(h), 1.0) * update


def without_loops(A: Weights) -> Weights:
    """Set the diagonal to zero: a variable is no cause of itself."""
    return A * (1 - jnp.eye(len(A), dtype=A.dtype))


Edges = Bool[np.ndarray, "node node"]
"""A choice of edges; `[i, j]` is the edge i → j."""


class Parameters(TypedDict):
    """A model's parameters, parted by what they say: which edges there are, and how causes act."""

    graph: PyTree
    mechanism: PyTree


@runtime_checkable
class Model(Protocol):
    """Pure functions on pytrees; an instance holds nothing but its hyper-parameters, and is hashable.

    What has a body here suits a model whose graph is one weight per edge, and which needs all rows.
    """

    threshold: ClassVar[float] = 0.3
    """Edges score above this in the final graph."""

    centred: ClassVar[bool] = False
    """Whether the model knows deviations from a site's means only; `predict` then takes and gives these."""

    separable: ClassVar[bool] = True
    """Whether the graph's parameters say something without the mechanism's, so that they can be shared alone."""

    def init(self, rng: np.random.Generator, nodes: int) -> Parameters:
        """Draw parameters to start from."""
        ...

    takes_experiments: ClassVar[bool] = True
    """Whether the fit can leave out a variable in the rows in which an experiment set it."""

    def prepare(
        self, values: Float[np.ndarray, "row node"], scored: Bool[np.ndarray, "row node"] | None = None
    ) -> PyTree:
        """Return what the fit needs of a silo: its rows, padded and weighed, or less where less suffices.

        `scored` says which variables nobody set in which rows; None if there are no experiments.
        """
        return prepared_rows(values, scored)

    def adjacency(self, params: Parameters, key: PRNGKeyArray) -> Weights:
        """Draw the differentiable adjacency matrix; `[i, j]` is the edge i → j."""
        ...

    def fit(self, params: Parameters, adjacency: Weights, data: PyTree) -> Float[Array, ""]:
        """Return half the squared error per row, summed over the nodes (the first term of eq. 5, negated).

        Add what else the model minimises, whatever the graph.
        """
        ...

    def sparsity(self, params: Parameters, adjacency: Weights) -> Float[Array, ""]:
        """Return the term that λ weighs: the sum of the absolute entries of the adjacency matrix."""
        del params
        return jnp.abs(adjacency).sum()

    def bows(self, params: Parameters, adjacency: Weights) -> Float[Array, ""]:
        """Return what is added to the acyclicity and must vanish with it: 0, unless a pair may have two edges."""
        del params
        return jnp.zeros((), adjacency.dtype)

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """Return the steps to take where Adam proposes `updates`, given the acyclicity `h`."""
        ...

    def held(self, graph: PyTree, *, impossible: Edges, certain: Edges) -> PyTree:
        """Remove impossible edges and, where edges have probabilities, make certain ones certain: weights cannot."""
        del certain
        return jnp.where(impossible, 0, graph)

    def edge_scores(self, graph: PyTree) -> Float[np.ndarray, "node node"]:
        """Score each edge by the graph's parameters, for comparison with the threshold."""
        ...

    def bidirected_scores(self, graph: PyTree) -> Float[np.ndarray, "node node"] | None:
        """Score each edge <-> by the graph's parameters; None if the model has no such edges."""
        del graph
        return None

    def predict(self, params: Parameters, adjacency: Weights, values: Table) -> Table:
        """Predict each node from its parents in `adjacency`."""
        ...
