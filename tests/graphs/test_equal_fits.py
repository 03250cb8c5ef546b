"""Graphs with edges <-> that data cannot tell apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from feddag import CausalGraph
from feddag.graphs import Edge, Marks
from feddag.graphs.equal_fits import equal_fits, most_typical
from feddag.graphs.marks import adjacency_of, bidirected_of

NAMES = ("a", "b", "c", "d")


def marks(text: str) -> Marks:
    parts = (edge.split() for edge in text.split(", "))
    edges = [Edge(one, other, "tail" if kind == "->" else "arrow", "arrow") for one, kind, other in parts]
    return CausalGraph.from_edges(edges, NAMES).marks


def written(found: Marks) -> str:
    return ", ".join(sorted(str(edge) for edge in CausalGraph.from_marks(found, NAMES).marked_edges))


def covariance(graph: Marks, values: np.ndarray) -> np.ndarray:
    """Fill in weights, variances of noise and, for edges <->, its covariances."""
    weights, noise = np.zeros((4, 4)), np.diag(np.exp(values[:4]))
    for value, (i, j) in zip(values[4:], combinations(range(4), 2), strict=True):
        if bidirected_of(graph)[i, j]:
            noise[i, j] = noise[j, i] = value
        weights[i, j], weights[j, i] = value * adjacency_of(graph)[[i, j], [j, i]]
    total = np.linalg.inv(np.eye(4) - weights)
    return total.T @ noise @ total


def worst_fit(graph: Marks, truth: np.ndarray) -> float:
    """Return how far the most likely covariance of a graph is from the true one."""

    def loss(values: np.ndarray) -> float:
        found = covariance(graph, values)
        if np.linalg.eigvalsh(found)[0] < 1e-6:
            return 1e6
        return float(np.linalg.slogdet(found)[1] + np.trace(np.linalg.solve(found, truth)))

    found = minimize(loss, np.zeros(10), method="BFGS").x
    return float(np.abs(covariance(graph, found) - truth).max())


@pytest.mark.parametrize(
    "text", ["a -> b, b -> c, c -> d", "a -> b, b -> c, d <-> c", "a <-> b, a -> c, b -> d, c <-> d"]
)
def test_graphs_that_fit_equally_well_do(text):
    """Against the likelihood: each of them has the covariance that one of them has."""
    graph = marks(text)
    truth = covariance(graph, np.array([0.1, -0.3, 0.2, 0.0, 0.4, -0.5, 0.3, 0.6, -0.4, 0.45]))
    equal = equal_fits(graph, range(4))
    assert len({each.tobytes() for each in equal}) == len(equal) > 1
    assert max(worst_fit(each, truth) for each in equal) < 1e-3
    pags = [CausalGraph.from_marks(each, NAMES).to_pag() for each in equal]
    assert all(pag == pags[0] for pag in pags)


def test_a_chain_has_a_first_variable_or_one_edge_of_a_hidden_cause():
    found = {written(each) for each in equal_fits(marks("a -> b, b -> c"), range(4))}
    assert found == {"a -> b, b -> c", "b -> a, b -> c", "b -> a, c -> b", "a <-> b, b -> c", "b -> a, b <-> c"}


def test_the_most_typical_graph_agrees_with_most():
    def typical(text: str, **forbidden: str) -> str:
        def is_allowed(graph: Marks) -> bool:
            return all(f"{one} -> {other}" not in written(graph) for one, other in forbidden.items())

        return written(most_typical(marks(text), is_allowed))

    assert typical("a -> b, b -> c, c -> d") == "b -> a, b -> c, c -> d"
    assert typical("a -> b, b -> c, c -> d", b="a") == "a -> b, b -> c, c -> d"
    assert typical("a -> c, b -> c, c -> d") == "a -> c, b -> c, c -> d"
