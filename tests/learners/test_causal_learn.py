"""PC and GES: the graphs of causal-learn, unchanged."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from causallearn.graph.Endpoint import Endpoint
from causallearn.search.ConstraintBased.PC import pc
from causallearn.search.ScoreBased.GES import ges

from feddag import FeddagError, make_learner, simulate
from feddag.learners.causal_learn import adjacency_of
from feddag.runs import Run

SIMULATION = simulate(8, mechanism="linear", sites=1, rows=500, seed=3)
VALUES = SIMULATION.silos[0].values


def edges_of(graph):
    """By causal-learn's own account of each edge's two ends."""
    names = [node.get_name() for node in graph.get_nodes()]
    directed, undirected = set(), set()
    for edge in graph.get_graph_edges():
        ends = names.index(edge.get_node1().get_name()), names.index(edge.get_node2().get_name())
        marks = edge.get_endpoint1(), edge.get_endpoint2()
        if marks == (Endpoint.TAIL, Endpoint.ARROW):
            directed.add(ends)
        elif marks == (Endpoint.ARROW, Endpoint.TAIL):
            directed.add(ends[::-1])
        else:
            undirected.add(frozenset(ends))
    return directed, undirected


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("pc", lambda values: pc(values, 0.01, "fisherz", show_progress=False).G),
        ("ges", lambda values: ges(values, "local_score_BIC")["G"]),
    ],
)
def test_the_graph_is_the_one_that_causal_learn_gives(name, theirs):
    learned = make_learner(name).fit(SIMULATION)
    index = {variable: k for k, variable in enumerate(learned.graph_.names)}
    directed = {(index[source], index[target]) for source, target in learned.graph_.edges}
    undirected = {frozenset((index[one], index[other])) for one, other in learned.graph_.undirected_edges}
    assert (directed, undirected) == edges_of(theirs(VALUES.copy()))
    assert directed
    assert undirected


def test_each_kind_of_edge_is_read_as_documented():
    endpoints = np.zeros((6, 6), dtype=int)
    endpoints[0, 1], endpoints[1, 0] = -1, 1  # 0 → 1
    endpoints[2, 3], endpoints[3, 2] = -1, -1  # 2 — 3
    endpoints[4, 5], endpoints[5, 4] = 1, 1  # 4 ↔ 5
    assert {(int(i), int(j)) for i, j in np.argwhere(adjacency_of(endpoints))} == {
        (0, 1),
        (2, 3),
        (3, 2),
        (4, 5),
        (5, 4),
    }


def test_an_undirected_edge_scores_half_for_each_direction():
    learned = make_learner("ges").fit(SIMULATION)
    both = learned.adjacency_ & learned.adjacency_.T
    np.testing.assert_array_equal(learned.edge_scores_, learned.adjacency_ - both / 2)


def test_without_causal_learn_the_error_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "causallearn", None)
    learner = make_learner("pc", "voting")
    with pytest.raises(FeddagError, match=r"needs causal-learn .* pip install '\.\[baselines\]'"):
        Run.start(tmp_path / "run", learner, SIMULATION.silos, ["x"])
    assert not list(tmp_path.iterdir())
