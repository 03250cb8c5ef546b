"""The graph of a fit with edges -> and <->."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from feddag.graphs import Adjacency, CausalGraph, Marks, threshold_to_dag
from feddag.graphs.dag import reachable
from feddag.graphs.equal_fits import most_typical
from feddag.graphs.marks import ARROW, adjacency_of, admg_marks, bidirected_of
from feddag.learners.knowledge import Knowledge


def mixed_graph(
    scores: Float[np.ndarray, "node node"],
    joined: Float[np.ndarray, "node node"],
    columns: Sequence[str],
    *,
    threshold: float,
    constraint: str,
    known: Knowledge,
) -> CausalGraph:
    """Draw edges -> and <->: of all graphs that fit as well as the one with the greatest scores, the most typical.

    A pair has the edge that scores higher, unless knowledge has an edge there. An edge <-> that the constraint does not
    allow beside the edges -> is left out: its descent has not ended then.
    """
    certain = known.certain.astype(bool)
    wins = (joined > threshold) & (joined > np.maximum(scores, scores.T)) & ~(certain | certain.T)
    directed = threshold_to_dag(np.where(wins, 0, scores), threshold, certain)
    is_ancestral = constraint == "ancestral"
    if is_ancestral:
        wins &= ~_on_a_path(directed)

    def is_allowed(marks: Marks) -> bool:
        causes = adjacency_of(marks)
        agrees = not causes[known.impossible.astype(bool)].any() and bool(causes[certain].all())
        return agrees and not (is_ancestral and (_on_a_path(causes) & bidirected_of(marks)).any())

    marks = most_typical(admg_marks(directed, wins.astype(np.int8)), is_allowed)
    strengths = np.where(wins, joined, np.maximum(scores, scores.T))
    return CausalGraph.from_marks(marks, columns, np.where(marks == ARROW, strengths, scores))


def _on_a_path(directed: Adjacency) -> Bool[np.ndarray, "node node"]:
    """Say of each pair whether a directed path joins it."""
    paths = np.array([reachable(directed.astype(bool), node) for node in range(len(directed))])
    return paths | paths.T
