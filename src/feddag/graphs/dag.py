"""Directed acyclic graphs as matrices: recognise one, make one from scores, and find its equivalence class."""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddag.errors import FeddagError
from feddag.graphs.matrices import Adjacency, as_adjacency, as_scores

Edges = NDArray[np.bool_]
"""`edges[i, j]` says whether there is the edge i -> j."""


def is_dag(adjacency: ArrayLike) -> bool:
    """Whether every edge is directed and no directed path returns to its start.

    An undirected edge is stored as both directions, hence a cycle of two: a PDAG that has one is not a DAG.
    """
    return nx.is_directed_acyclic_graph(nx.DiGraph(as_adjacency(adjacency)))


def threshold_to_dag(scores: ArrayLike, threshold: float = 0.5, kept: ArrayLike | None = None) -> Adjacency:
    """Make a DAG from scores: edges above `threshold`, less the weakest edge of every cycle.

    Edges of the DAG `kept` are there whatever their score, and never cut.

    As long as there is a cycle, the edge with the lowest score among those that lie on one is cut. An edge
    off every cycle is never touched, however weak. Among equal scores the edge with the lowest source goes
    first, then the one with the lowest target. The diagonal does not count: a self-loop is a cycle
    of one edge, and is cut.
    """
    scores = as_scores(scores)
    certain = np.zeros(scores.shape, dtype=bool) if kept is None else as_adjacency(kept).astype(bool)
    uncertain = (scores > threshold) & ~certain
    edges = uncertain | certain
    weakest_first = np.argsort(scores[uncertain], kind="stable")
    # One pass is enough: a cut never closes a cycle, so an edge that was passed over needs no second look.
    for source, target in np.argwhere(uncertain)[weakest_first].tolist():
        if reachable(edges, target)[source]:
            edges[source, target] = False
    return edges.astype(np.int8)


def reachable(edges: Edges, start: int) -> NDArray[np.bool_]:
    """Say of each node whether a path of at least one edge leads to it from `start`."""
    reached = frontier = edges[start]
    while frontier.any():
        frontier = edges[frontier].any(axis=0) & ~reached
        reached = reached | frontier
    return reached


def to_cpdag(adjacency: ArrayLike) -> Adjacency:
    """Return the CPDAG of a DAG: what observational data alone can show.

    An edge keeps its direction if every DAG with the same conditional independences directs it so, and is
    undirected (both entries 1) otherwise: the v-structures are directed, and what follows from them (Meek 1995).
    """
    dag = as_adjacency(adjacency).astype(bool)
    if not is_dag(dag):
        raise FeddagError(
            "A CPDAG is defined for a DAG, and this graph has a cycle or an undirected edge. Take a DAG of it first, "
            "such as dag_extension makes."
        )
    skeleton = dag | dag.T
    apart = ~skeleton
    np.fill_diagonal(apart, False)
    colliders = dag & (apart @ dag)
    return apply_meek_rules(skeleton & ~colliders.T)


def apply_meek_rules(pdag: ArrayLike) -> Adjacency:
    """Direct the undirected edges of a PDAG whose direction follows from those of the directed ones.

    It follows, by Meek's rules 1-4, where the other direction would make a cycle or a new v-structure.
    """
    edges = as_adjacency(pdag).astype(bool)
    skeleton = edges | edges.T
    apart = ~skeleton
    np.fill_diagonal(apart, False)
    directed = edges & ~edges.T

    # Products of boolean matrices are paths: (a @ b)[i, j] says whether some k has a[i, k] and b[k, j].
    while True:
        undirected = skeleton & ~directed & ~directed.T
        away_from_collider = directed.T @ apart
        away_from_cycle = directed @ directed
        compelled = undirected & (away_from_collider | away_from_cycle)
        compelled |= _kites(undirected, directed, apart) | _detours(undirected, directed, skeleton, apart)
        compelled &= ~compelled.T  # what is compelled both ways contradicts itself, and stays as it is
        if not compelled.any():
            return (directed | undirected).astype(np.int8)
        directed |= compelled


def _kites(undirected: Edges, directed: Edges, apart: Edges) -> Edges:
    """Apply Meek's rule 3: the edges i -- j for which i -- k -> j and i -- l -> j, k and l not adjacent."""
    found = np.zeros_like(undirected)
    for i, j in np.argwhere(undirected & (undirected @ directed)):
        between = undirected[i] & directed[:, j]
        found[i, j] = apart[np.ix_(between, between)].any()
    return found


def _detours(undirected: Edges, directed: Edges, skeleton: Edges, apart: Edges) -> Edges:
    """Apply Meek's rule 4: the edges i -- j for which i -- k -> l -> j, k and j not adjacent, i and l adjacent."""
    found = np.zeros_like(undirected)
    for i, j in np.argwhere(undirected & (undirected @ (directed @ directed))):
        starts = undirected[i] & apart[:, j]
        ends = skeleton[i] & directed[:, j]
        found[i, j] = directed[np.ix_(starts, ends)].any()
    return found
