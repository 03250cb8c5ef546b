"""The DAGs that a partially directed graph represents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
from numpy.typing import ArrayLike

from feddag.graphs.dag import threshold_to_dag
from feddag.graphs.matrices import Adjacency, as_adjacency


def dag_extension(pdag: ArrayLike) -> Adjacency:
    """Find a DAG with the same adjacencies, directed edges and v-structures (Dor and Tarsi 1992).

    Where there is none, as can happen after a vote, the directed edges still hold and other v-structures appear. A
    cycle of directed edges loses one of them.
    """
    edges = as_adjacency(pdag).astype(bool)
    undirected = edges & edges.T
    directed = threshold_to_dag(edges & ~undirected, 0).astype(bool)
    skeleton = undirected | directed | directed.T
    found = directed.copy()
    remaining = np.ones(len(edges), dtype=bool)
    while remaining.any():
        sinks = np.flatnonzero(remaining & ~(directed & remaining).any(axis=1)).tolist()
        sink = next((each for each in sinks if _closed(each, undirected, skeleton, remaining)), sinks[0])
        found[undirected[sink] & remaining, sink] = True
        remaining[sink] = False
    return found.astype(np.int8)


def _closed(node: int, undirected: np.ndarray, skeleton: np.ndarray, remaining: np.ndarray) -> bool:
    """Whether directing all open edges to a node makes no new v-structure there."""
    near = np.flatnonzero(skeleton[node] & remaining)
    return all(skeleton[each, near[near != each]].all() for each in np.flatnonzero(undirected[node] & remaining))


def parent_sets(pdag: ArrayLike, node: int) -> Iterator[tuple[int, ...]]:
    """List the sets of parents that a node may have, smallest first: none makes a new v-structure at the node.

    After Maathuis, Kalisch and Bühlmann, "Estimating high-dimensional intervention effects from observational data",
    Annals of Statistics 2009. In a DAG there is one.
    """
    edges = as_adjacency(pdag).astype(bool)
    skeleton = edges | edges.T
    open_ = np.flatnonzero(edges[node] & edges[:, node]).tolist()
    certain = np.flatnonzero(edges[:, node] & ~edges[node]).tolist()
    for chosen in chain.from_iterable(combinations(open_, size) for size in range(len(open_) + 1)):
        parents = sorted([*certain, *chosen])
        if all(skeleton[each, other] for each in chosen for other in parents if other != each):
            yield tuple(parents)
