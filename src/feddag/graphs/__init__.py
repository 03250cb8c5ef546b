"""Graphs over named variables, the distance between them, and their file formats.

Everywhere, `adjacency[i, j] = 1` is the edge i -> j, and an undirected edge i -- j has both entries 1. Graphs that
allow hidden common causes have further edges, which `feddag.graphs.marks` explains.
"""

from __future__ import annotations

from feddag.graphs.adjustment import NotIdentifiedError, adjustment_set
from feddag.graphs.ancestral import apply_fci_rules, orient_colliders, project, separated, to_mag, to_pag
from feddag.graphs.causal_graph import CausalGraph
from feddag.graphs.dag import apply_meek_rules, is_dag, threshold_to_dag, to_cpdag
from feddag.graphs.export import GraphFormat, read_graph, write_graph
from feddag.graphs.extension import dag_extension, parent_sets
from feddag.graphs.marks import Edge, Mark, Marks
from feddag.graphs.matrices import Adjacency, Scores
from feddag.graphs.metrics import GraphMetrics, MarkMetrics, Rates, compare, compare_marks, shd
from feddag.graphs.votes import ballot, majority, support, votable

__all__ = [
    "Adjacency",
    "CausalGraph",
    "Edge",
    "GraphFormat",
    "GraphMetrics",
    "Mark",
    "MarkMetrics",
    "Marks",
    "NotIdentifiedError",
    "Rates",
    "Scores",
    "adjustment_set",
    "apply_fci_rules",
    "apply_meek_rules",
    "ballot",
    "compare",
    "compare_marks",
    "dag_extension",
    "is_dag",
    "majority",
    "orient_colliders",
    "parent_sets",
    "project",
    "read_graph",
    "separated",
    "shd",
    "support",
    "threshold_to_dag",
    "to_cpdag",
    "to_mag",
    "to_pag",
    "votable",
    "write_graph",
]
