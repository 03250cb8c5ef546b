"""Graphs that no data stand behind: the rows of a table of results that every method must beat."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from feddag import parameters as must_be
from feddag.federation import Ledger
from feddag.graphs import CausalGraph
from feddag.learners.base import SEED
from feddag.learners.one_step import Note, OneStep
from feddag.silos import Silo


class Empty(OneStep):
    """The graph without an edge. Its SHD is the number of true edges."""

    constraints: ClassVar = {}

    def _learn(self, silos: tuple[Silo, ...], note: Note) -> tuple[CausalGraph, Ledger]:
        nodes = len(silos[0].columns)
        return CausalGraph(np.zeros((nodes, nodes)), silos[0].columns, np.zeros((nodes, nodes))), Ledger()


class Random(OneStep):
    """A random DAG: the variables in a random order, and each edge along it with the same probability.

    Args:
        edges_per_node: The expected number of edges, divided by the number of variables; no more than fit in are drawn.
        seed: The graph is a function of the number of variables, `edges_per_node` and the seed.
    """

    constraints: ClassVar = {"edges_per_node": must_be.at_least_zero, "seed": SEED}

    def __init__(self, *, edges_per_node: float = 1.0, seed: int = 0) -> None:
        self.edges_per_node = edges_per_node
        self.seed = seed

    def _learn(self, silos: tuple[Silo, ...], note: Note) -> tuple[CausalGraph, Ledger]:
        nodes = len(silos[0].columns)
        draw = np.random.default_rng(self.seed)
        order = draw.permutation(nodes)
        probability = 2 * self.edges_per_node / (nodes - 1)
        adjacency = np.zeros((nodes, nodes), dtype=np.int8)
        adjacency[np.ix_(order, order)] = np.triu(draw.random((nodes, nodes)) < probability, k=1)
        return CausalGraph(adjacency, silos[0].columns, adjacency), Ledger()
