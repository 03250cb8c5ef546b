from __future__ import annotations

import numpy as np
import pytest

from feddag.graphs import CausalGraph, ballot, majority
from same_graphs import same


def graph(*edges):
    """Edges such as "ab" (directed) and "a-b" (undirected) among a, b and c."""
    adjacency = np.zeros((3, 3), dtype=np.int8)
    for edge in edges:
        source, target = "abc".index(edge[0]), "abc".index(edge[-1])
        adjacency[source, target] = 1
        adjacency[target, source] = len(edge) == 3
    return adjacency


def elected(*graphs, names="abc"):
    order = ["abc".index(name) for name in names]
    ballots = [ballot(each[np.ix_(order, order)]) for each in graphs]
    return majority(*np.sum(ballots, axis=0), len(graphs), tuple(names))


@pytest.mark.parametrize(
    ("graphs", "expected"),
    [
        ([["ab"], ["ab"], []], ["ab"]),
        ([["ab"], [], []], []),
        ([["ab"], []], []),  # half is no majority
        ([["ab"], ["ba"], ["ab"], []], ["ab"]),
        ([["ab"], ["a-b"], []], ["ab"]),
        ([["a-b"], ["a-b"], ["ab"], ["ba"]], ["a-b"]),
        ([["ab"], ["ba"]], ["ba"]),  # a tie that nobody left open: the edge from the first name is cut
        ([["ab", "bc"], ["bc", "ca"], ["ca", "ab"]], ["bc", "ca"]),
        ([["ab", "bc"], ["ab", "bc"], ["ab", "ca"], ["ab", "ca"], ["bc", "ca"]], ["ab", "ca"]),
    ],
)
def test_the_majority_decides(graphs, expected):
    found = elected(*[graph(*each) for each in graphs])
    np.testing.assert_array_equal(found.adjacency, graph(*expected))


def test_scores_are_shares_of_the_votes():
    scores = elected(graph("ab", "a-c"), graph("ba"), graph("ab"), graph("ab")).scores
    np.testing.assert_array_equal(scores, [[0, 0.75, 0.125], [0.25, 0, 0], [0.125, 0, 0]])


@pytest.mark.parametrize("names", ["bca", "cba", "acb"])
def test_the_order_of_the_variables_does_not_matter(names):
    draw = np.random.default_rng(0)
    kinds = ("ab", "ba", "a-b", "bc", "cb", "b-c", "ac", "ca", "a-c")
    for _ in range(200):
        graphs = [graph(*draw.choice(kinds, 2)) for _ in range(draw.integers(2, 6))]
        assert same(elected(*graphs, names=names).reordered("abc"), elected(*graphs))


def test_directed_edges_never_form_a_cycle():
    draw = np.random.default_rng(1)
    for _ in range(200):
        graphs = [graph(*draw.choice(["ab", "bc", "ca", "a-b"], 2)) for _ in range(4)]
        adjacency = elected(*graphs).adjacency
        assert CausalGraph(adjacency & (1 - adjacency.T)).is_dag
