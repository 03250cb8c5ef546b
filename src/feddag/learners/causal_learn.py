"""What methods from the package causal-learn have in common: where they come from, and how their graphs are read."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from feddag.extras import imported
from feddag.graphs import Adjacency, CausalGraph, ballot, support
from feddag.learners.single_pass import OneTable
from feddag.silos import CheckedSilos, Silo


class FromCausalLearn(OneTable):
    """A learner that writes `endpoints`, and finds causal-learn's functions by `imported`.

    Scores are 1 for a directed edge, and 1/2 for each direction of an undirected one.
    """

    @abstractmethod
    def endpoints(self, values: np.ndarray) -> np.ndarray:
        """Return causal-learn's matrix of the graph."""

    def learn_table(self, table: Silo) -> CausalGraph:
        """Run causal-learn's method, and convert its graph."""
        adjacency = adjacency_of(self.endpoints(table.values))
        return CausalGraph(adjacency, table.columns, support(*ballot(adjacency)))

    def check(self, silos: Any) -> CheckedSilos:
        """Check that causal-learn is installed, then the table."""
        causal_learn("causallearn")
        return super().check(silos)


def causal_learn(module: str) -> Any:
    """Import a module of causal-learn, or say how to install it."""
    return imported(module, "baselines", "This method needs causal-learn")


def adjacency_of(endpoints: np.ndarray) -> Adjacency:
    """Convert causal-learn's matrix, where [i, j] is the mark at i of the edge between i and j: −1 a tail, 1 an arrow.

    An edge with two tails is undirected, and so is one with two arrows, by which PC says that its tests contradict each
    other: our graphs have no third kind, and it leaves the direction as open.
    """
    joined = endpoints != 0
    towards = endpoints.T == 1  # [i, j]: an arrow at j
    return (joined & (towards | (towards == towards.T))).astype(np.int8)
