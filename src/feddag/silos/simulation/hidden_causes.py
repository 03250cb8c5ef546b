"""Common causes that no table has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx
import numpy as np

from feddag.errors import FeddagError
from feddag.graphs import Adjacency
from feddag.silos.simulation.streams import Stream, generator

_NUMBERS_OF_EFFECTS = (2, 3)


@dataclass(frozen=True)
class HiddenCauses:
    """Variables that act on observed ones, and that nothing acts on."""

    effects: tuple[tuple[int, ...], ...]
    """For each hidden variable, the observed ones that it acts on."""

    @classmethod
    def draw(cls, count: int, observed: Adjacency, seed: int) -> HiddenCauses:
        """Draw for each hidden variable two or three observed ones, none of which has an edge to another of them.

        So a pair that a hidden variable joins has no edge besides, and whoever calls it cause and effect is wrong.

        Raises:
            FeddagError: All observed variables have edges to each other.
        """
        apart = nx.complement(nx.Graph(observed | observed.T))
        if count and not apart.edges:
            raise FeddagError(
                f"hidden={count} needs two observed variables without an edge between them, and all of the "
                f"{len(observed)} have edges to each other. Use more variables or fewer edges (edges_per_node)."
            )
        groups = {size: _cliques(apart, size) for size in _NUMBERS_OF_EFFECTS}
        found = []
        for number in range(count):
            rng = generator(seed, Stream.HIDDEN, number)
            size = int(rng.choice(_NUMBERS_OF_EFFECTS))
            chosen = groups[size] or groups[2]
            found.append(chosen[rng.integers(len(chosen))])
        return cls(tuple(found))

    def named(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Name each hidden variable, and those that it acts on."""
        return {
            f"hidden-{number}": tuple(names[node] for node in effects)
            for number, effects in enumerate(self.effects, start=1)
        }

    def joined_to(self, observed: Adjacency) -> Adjacency:
        """Return the graph of observed and hidden variables, the hidden ones last."""
        nodes = len(observed)
        full = np.zeros((nodes + len(self.effects),) * 2, dtype=np.int8)
        full[:nodes, :nodes] = observed
        for number, effects in enumerate(self.effects):
            full[nodes + number, list(effects)] = 1
        return full


def _cliques(graph: nx.Graph, size: int) -> list[tuple[int, ...]]:
    """List the groups of so many nodes that all have edges to each other."""
    if size == 2:
        return sorted(tuple(sorted(edge)) for edge in graph.edges)
    return [
        (i, *others)
        for i in sorted(graph)
        for others in combinations(sorted(node for node in graph[i] if node > i), size - 1)
        if all(graph.has_edge(*pair) for pair in combinations(others, 2))
    ]
