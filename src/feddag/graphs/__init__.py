"""Graphs over named variables, the distance between them, and their file formats.

Everywhere, `adjacency[i, j] = 1` is the edge i -> j, and an undirected edge i -- j has both entries 1.
"""

from __future__ import annotations

from feddag.graphs.causal_graph import CausalGraph
from feddag.graphs.dag import apply_meek_rules, is_dag, threshold_to_dag, to_cpdag
from feddag.graphs.export import GraphFormat, read_graph, write_graph
from feddag.graphs.extension import dag_extension, parent_sets
from feddag.graphs.matrices import Adjacency, Scores
from feddag.graphs.metrics import GraphMetrics, compare, shd
from feddag.graphs.votes import ballot, majority, support

__all__ = [
    "Adjacency",
    "CausalGraph",
    "GraphFormat",
    "GraphMetrics",
    "Scores",
    "apply_meek_rules",
    "ballot",
    "compare",
    "dag_extension",
    "is_dag",
    "majority",
    "parent_sets",
    "read_graph",
    "shd",
    "support",
    "threshold_to_dag",
    "to_cpdag",
    "write_graph",
]
