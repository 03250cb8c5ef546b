"""Random directed acyclic graphs; `adjacency[i, j] = 1` is the edge i → j."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Integer

from feddag.graphs import Adjacency

EDGE_PROBABILITIES: dict[str, Callable[[int, float], float]] = {
    "published": lambda nodes, edges: 2 * edges / nodes**2,
    "exact": lambda nodes, edges: 2 * edges / (nodes * (nodes - 1)),
}
"""Probability of an Erdős-Rényi edge, from the number of nodes and the wanted number of edges.

`"exact"` expects the wanted number; `"published"` is what the data of the FedDAG paper were drawn with, and
expects `(nodes − 1) / nodes` of it.
"""

ORIENTATIONS = ("random", "arrival")


def erdos_renyi(nodes: int, edges_per_node: float, edge_probability: str, rng: np.random.Generator) -> Adjacency:
    """Each edge that a random order of the nodes allows is there independently with the same probability."""
    probability = min(1.0, EDGE_PROBABILITIES[edge_probability](nodes, edges_per_node * nodes))
    skeleton = np.triu(rng.random((nodes, nodes)) < probability, k=1)
    return _oriented(skeleton, rng.permutation(nodes))


def scale_free(nodes: int, edges_per_node: int, orientation: str, rng: np.random.Generator) -> Adjacency:
    """Barabási-Albert: each newcomer attaches to k = `edges_per_node` nodes, popular ones more likely.

    It starts from k nodes without edges, so that the graph has k · (nodes − k) edges. With orientation
    `"arrival"` an edge points from the older node to the newcomer: hubs are causes, and every newcomer has k
    parents. With `"random"` a random order orients the same skeleton, as in the published generator: hubs may
    have many parents. Labels are random in both.
    """
    skeleton = np.zeros((nodes, nodes), dtype=bool)
    degree = np.zeros(nodes)
    for newcomer in range(edges_per_node, nodes):
        hosts = _hosts(degree[:newcomer], edges_per_node, rng)
        skeleton[hosts, newcomer] = True
        degree[hosts] += 1
        degree[newcomer] = edges_per_node
    if orientation == "random":
        shuffled = rng.permutation(nodes)
        skeleton = np.triu((skeleton | skeleton.T)[np.ix_(shuffled, shuffled)])
    return _oriented(skeleton, rng.permutation(nodes))


def _hosts(degree: Float[np.ndarray, " present"], count: int, rng: np.random.Generator) -> Integer[np.ndarray, " host"]:
    if len(degree) == count:  # the first newcomer meets nodes without any degree, and takes them all
        return np.arange(count)
    return rng.choice(len(degree), size=count, replace=False, p=degree / degree.sum())


def _oriented(upper: np.ndarray, order: np.ndarray) -> Adjacency:
    """Make the graph whose k-th node in topological order is `order[k]`."""
    adjacency = np.zeros(upper.shape, dtype=np.int8)
    adjacency[np.ix_(order, order)] = upper
    return adjacency
