"""A structural equation model with additive noise: one function and one noise scale per node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import networkx as nx
import numpy as np
from jaxtyping import Float

from feddag.errors import FeddagError
from feddag.graphs import Adjacency
from feddag.silos.simulation.mechanisms import MECHANISMS, Linear, Mechanism
from feddag.silos.simulation.noise import NOISE_LAWS

NodeGenerator = Callable[[int], np.random.Generator]
"""Each node's own randomness."""
Change = Callable[[int, Float[np.ndarray, " row"], Float[np.ndarray, "row node"]], None]


@dataclass(frozen=True, eq=False)
class StructuralModel:
    """x_j = f_j(x_parents(j)) + deviation_j · z_j, with a function for each node that has parents."""

    adjacency: Adjacency
    mechanism: str
    functions: Mapping[int, Mechanism]
    noise: str
    noise_deviations: Float[np.ndarray, " node"]

    @classmethod
    def draw(
        cls,
        adjacency: Adjacency,
        mechanism: str,
        noise: str,
        noise_deviations: Float[np.ndarray, " node"],
        node_generator: NodeGenerator,
    ) -> StructuralModel:
        """Draw a mechanism for every node with parents."""
        functions = {
            node: MECHANISMS[mechanism].draw(int(parents), node_generator(node))
            for node, parents in enumerate(adjacency.sum(axis=0))
            if parents
        }
        return cls(adjacency, mechanism, functions, noise, noise_deviations)

    def weights(self) -> Float[np.ndarray, "node node"] | None:
        """Return the weighted adjacency matrix of a linear model; other models have none."""
        if self.mechanism != "linear":
            return None
        matrix = np.zeros(self.adjacency.shape)
        for node, function in self.functions.items():
            matrix[self._parents(node), node] = cast(Linear, function).weights
        return matrix

    def sample(
        self,
        rows: int,
        node_generator: NodeGenerator,
        *,
        standardised: bool,
        change: Change = lambda node, column, values: None,
    ) -> Float[np.ndarray, "row node"]:
        """Draw rows; `node_generator(node)` is the randomness of that node's noise.

        `change(node, column, values)` may replace a node's values in some rows, before its children see them.

        Standardised, each variable is brought to mean 0 and variance 1 before its children see it: the
        internally standardised model of Ormaniec et al., "Standardizing structural causal models" (2025). The
        variance then does not betray the order of the variables, as in raw data, nor does the noise vanish
        beside the signal down the order, as in data standardised afterwards.
        """
        values = np.empty((rows, len(self.adjacency)))
        for node in nx.topological_sort(nx.DiGraph(self.adjacency)):
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported below, in plain words
                column = self.noise_deviations[node] * NOISE_LAWS[self.noise](node_generator(node), rows)
                if node in self.functions:
                    column += self.functions[node](values[:, self._parents(node)])
                change(node, column, values)
                if standardised:
                    column -= column.mean()
                    column /= column.std()
            values[:, node] = column
        if not np.isfinite(values).all():
            raise FeddagError("The simulated values overflow. Use standardised=True, or a smaller or sparser graph.")
        return values

    def _parents(self, node: int) -> np.ndarray:
        return np.flatnonzero(self.adjacency[:, node])
