"""What the learners ask of a structural model."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypedDict, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

PyTree = Any


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
        """Half the squared error per row, summed over the nodes (the first term of eq. 5, negated)."""
        ...

    def scaled(self, updates: PyTree, params: Parameters, h: Float[Array, ""]) -> PyTree:
        """The steps to take where Adam proposes `updates`, once the graph is as near to acyclic as `h`."""
        ...

    def edge_scores(self, graph: PyTree) -> Float[np.ndarray, "node node"]:
        """The strength of each edge by the graph's parameters, to be held against the threshold."""
        ...

    def predict(
        self, params: Parameters, adjacency: Float[Array, "node node"], values: Float[Array, "row node"]
    ) -> Float[Array, "row node"]:
        """Each node's value as its parents in `adjacency` explain it."""
        ...
