"""Graphs that no data stand behind: the rows of a table of results that every method must beat."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from feddag import constraints
from feddag.federation import Ledger
from feddag.graphs import Adjacency, CausalGraph
from feddag.learners.base import SEED
from feddag.learners.checkpointing import FitContext
from feddag.learners.single_pass import SinglePass
from feddag.silos import Silo


class DataFree(SinglePass):
    """A learner that writes `draw`."""

    @abstractmethod
    def draw(self, nodes: int) -> Adjacency:
        """Return the adjacency matrix of a graph with this many nodes."""

    def fit_silos(self, silos: tuple[Silo, ...], context: FitContext) -> None:
        """Draw a graph over the tables' columns; the rows do not matter."""
        adjacency = self.draw(len(silos[0].columns))
        self._once(context, lambda note: CausalGraph(adjacency, silos[0].columns, adjacency), Ledger())


class Empty(DataFree):
    """The graph without an edge. Its SHD is the number of true edges."""

    parameter_constraints: ClassVar = {}

    def draw(self, nodes: int) -> Adjacency:
        """Return a matrix of zeros."""
        return np.zeros((nodes, nodes), dtype=np.int8)


class Random(DataFree):
    """A random DAG: the variables in a random order, and each edge along it with the same probability.

    Args:
        edges_per_node: The expected number of edges, divided by the number of variables; no more than fit in are drawn.
        seed: The graph is a function of the number of variables, `edges_per_node` and the seed.
    """

    parameter_constraints: ClassVar = {"edges_per_node": constraints.at_least_zero, "seed": SEED}

    def __init__(self, *, edges_per_node: float = 1.0, seed: int = 0) -> None:
        self.edges_per_node = edges_per_node
        self.seed = seed

    def draw(self, nodes: int) -> Adjacency:
        """Draw an order of the nodes, and each edge along it with the same probability."""
        draw = np.random.default_rng(self.seed)
        order = draw.permutation(nodes)
        probability = 2 * self.edges_per_node / (nodes - 1)
        adjacency = np.zeros((nodes, nodes), dtype=np.int8)
        adjacency[np.ix_(order, order)] = np.triu(draw.random((nodes, nodes)) < probability, k=1)
        return adjacency
