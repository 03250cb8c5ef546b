"""What the learners ask of a structural model."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypedDict, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

PyTree = Any


def in_proportion(update: Array, size: Array, h: Float[Array, ""]) -> Array:
    """Steps in proportion to each weight, but never smaller than the weights that still close a cycle, which are √h.

    With steps of constant size these weights would jitter about zero, and a growing ρ would tear the others down
    with them. With √h for all, the large weights would freeze as h falls, and could not refit once edges are cut.
    """
    return jnp.clip(size, jnp.sqrt(h), 1.0) * update


def without_loops(A: Float[Array, "node node"]) -> Float[Array, "node node"]:
    """A variable is no cause of itself."""
    return A * (1 - jnp.eye(len(A), dtype=A.dtype))


Edges = Bool[np.ndarray, "node node"]
"""A choice of edges; `[i, j]` is the edge i → j."""


class Parameters(TypedDict):
    """A model's parameters, parted by what they say: which edges there are, and how causes act."""

    graph: PyTree
    mechanism: PyTree


@runtime_checkable
class Model(Protocol):
    """Pure functions on pytrees; an instance holds nothing but its hyper-parameters, and is hashable."""

    threshold: ClassVar[float]
    """Edges score above this in the final graph."""

    centred: ClassVar[bool]
    """Whether the model knows deviations from a site's means only; `predict` then takes and gives these."""

    separable: ClassVar[bool]
    """Whether the graph's parameters say something without the mechanism's, so that they can be shared alone."""

    def init(self, rng: np.random.Generator, nodes: int) -> Parameters:
        """Parameters to start from."""
        ...

    def prepare(self, values: Float[np.ndarray, "row node"]) -> PyTree:
        """What the fit needs of a silo: its rows, or less where less will do."""
        ...

    def adjacency(self, params: Parameters, key: PRNGKeyArray) -> Float[Array, "node node"]:
        """One draw of the differentiable adjacency matrix; `[i, j]` is the edge i → j."""
        ...

    def fit(self, params: Parameters, adjacency: Float[Array, "node node"], data: PyTree) -> Float[Array, ""]:
        """Half the squared error per row, summed over the nodes (the first term of eq. 5, negated).

        With it what else the model minimises, whatever the graph.
        """
        ...

    def sparsity(self, params: Parameters, adjacency: Float[Array, "node node"]) -> Float[Array, ""]:
        """What the weight λ stands before."""
        ...

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """The steps to take where Adam proposes `updates`, once the graph is as near to acyclic as `h`."""
        ...

    def held(self, graph: PyTree, *, impossible: Edges, certain: Edges) -> PyTree:
        """The graph's parameters without some edges and, where edges have probabilities, with others for certain."""
        ...

    def edge_scores(self, graph: PyTree) -> Float[np.ndarray, "node node"]:
        """The strength of each edge by the graph's parameters, to be held against the threshold."""
        ...

    def predict(
        self, params: Parameters, adjacency: Float[Array, "node node"], values: Float[Array, "row node"]
    ) -> Float[Array, "row node"]:
        """Each node's value as its parents in `adjacency` explain it."""
        ...
