from __future__ import annotations

import re

import networkx as nx
import numpy as np
import pytest

import feddag
from feddag import FeddagError
from feddag.graphs import CausalGraph
from feddag.silos import Silo
from feddag.trust import total_effect, write_dowhy
from feddag.trust.effects import TOGETHER, carried_on

WEIGHTS = np.array([[0, 1.5, 0.8, 0], [0, 0, -1.2, 0.5], [0, 0, 0, 2.0], [0, 0, 0, 0.0]])
NAMES = ("a", "b", "c", "d")
TOTAL = np.linalg.inv(np.eye(4) - WEIGHTS)


def draw(rows, seed):
    return np.random.default_rng(seed).normal(size=(rows, 4)) @ TOTAL


@pytest.fixture(scope="module")
def silos():
    return [Silo(name, NAMES, draw(rows, k)) for k, (name, rows) in enumerate({"here": 3000, "there": 1000}.items())]


def learned(graph, silos):
    learner = feddag.make_learner("empty").fit(silos)
    learner.graph_ = CausalGraph(graph, NAMES)
    return learner


@pytest.mark.parametrize(("cause", "effect"), [("a", "c"), ("b", "d"), ("a", "d"), ("c", "d")])
def test_the_effect_is_that_of_the_model_at_every_site_and_over_all(silos, cause, effect):
    found = total_effect(learned(WEIGHTS != 0, silos), silos, cause, effect)
    truth = TOTAL[NAMES.index(cause), NAMES.index(effect)]

    assert found.reachable
    assert [each.site for each in found.estimates] == ["here", "there", TOGETHER]
    for row in found.estimates:
        assert abs(row.slope - truth) < 4 * row.error
        assert row.error < 0.2


def test_the_mean_is_weighted_by_rows_and_its_error_follows(silos):
    here, there, together = total_effect(learned(WEIGHTS != 0, silos), silos, "a", "d").estimates
    assert together.slope == pytest.approx(0.75 * here.slope + 0.25 * there.slope)
    assert together.error == pytest.approx(np.hypot(0.75 * here.error, 0.25 * there.error))


def test_coefficient_and_error_are_those_of_least_squares(silos):
    found = total_effect(learned(WEIGHTS != 0, silos), silos, "b", "d").estimates[1]
    values = silos[1].values
    design = np.column_stack([values[:, 1], values[:, 0], np.ones(1000)])
    weights, squares, *_ = np.linalg.lstsq(design, values[:, 3], rcond=None)
    covariance = np.linalg.inv(design.T @ design) * squares[0] / (1000 - 3)
    assert found.slope == pytest.approx(weights[0])
    assert found.error == pytest.approx(np.sqrt(covariance[0, 0]))


def test_open_edges_give_a_range_that_holds_the_truth(silos):
    graph = (WEIGHTS != 0).astype(int)
    graph[1, 0] = 1  # a — b
    found = total_effect(learned(graph, silos), silos, "b", "d")
    low, high = found.bounds

    assert {each.adjusted_for for each in found.estimates} == {"", "a"}
    assert low - 0.2 < TOTAL[1, 3] < high + 0.2
    assert high - low > 0.3


def test_what_comes_before_the_cause_is_not_changed_by_it(silos):
    found = total_effect(learned(WEIGHTS != 0, silos), silos, "d", "b")
    assert found.bounds == (0.0, 0.0)
    assert not found.reachable
    assert list(found.table().columns) == ["site", "adjusted_for", "slope", "error"]


def test_the_mechanisms_carry_a_change_on_along_the_graph():
    silos = [Silo("here", NAMES, draw(100, 0))]
    learner = feddag.FedDAG(model="linear", sharing="all", it_inner=20, it_fl=20, rho_max=0.002).fit(silos)
    learner.graph_ = CausalGraph(WEIGHTS != 0, NAMES)
    origin = learner.predict(np.zeros((1, 4)), "here")
    own = np.stack([learner.predict(row[None], "here")[0] for row in np.eye(4)]) - origin
    expected = np.linalg.inv(np.eye(4) - own)

    for cause, effect in ((0, 3), (1, 2), (3, 0)):
        assert carried_on(learner, silos[0], cause, effect) == pytest.approx(expected[cause, effect], abs=1e-3)
    table = total_effect(learner, silos, "a", "d").table()
    assert table["by_mechanisms"].iloc[0] == pytest.approx(expected[0, 3], abs=1e-3)


@pytest.mark.parametrize(("cause", "effect", "complaint"), [("a", "z", "no variable 'z'"), ("a", "a", "both 'a'")])
def test_names_are_checked(silos, cause, effect, complaint):
    with pytest.raises(FeddagError, match=complaint):
        total_effect(learned(WEIGHTS != 0, silos), silos, cause, effect)


def test_a_cause_that_its_parents_determine_has_no_effect_of_its_own():
    values = np.random.default_rng(0).normal(size=(50, 3))
    values[:, 1] = 2 * values[:, 0]
    silos = [Silo("here", ("a", "b", "c"), values)]
    learner = feddag.make_learner("empty").fit(silos)
    learner.graph_ = CausalGraph([[0, 1, 0], [0, 0, 1], [0, 0, 0]], ["a", "b", "c"])
    with pytest.raises(FeddagError, match="determine it"):
        total_effect(learner, silos, "b", "c")


def test_the_file_for_dowhy_is_gml_with_the_names_and_a_dag(tmp_path):
    names = ["blood pressure", 'the "dose"', "naïve #1"]
    graph = CausalGraph([[0, 1, 0], [1, 0, 0], [0, 1, 0]], names)
    write_dowhy(graph, tmp_path / "graph.gml")

    read = nx.DiGraph(nx.read_gml(tmp_path / "graph.gml"))
    assert list(read) == names
    assert nx.is_directed_acyclic_graph(read)
    assert {frozenset(edge) for edge in read.edges} == {frozenset(names[:2]), frozenset(names[1:])}
    text = (tmp_path / "graph.gml").read_text()
    assert re.match(r".*graph\s*\[.*\]\s*", text)  # what DoWhy takes for GML rather than for a path
    assert nx.utils.graphs_equal(nx.DiGraph(nx.parse_gml(text)), read)
    with pytest.raises(FeddagError, match=r"End it in \.gml"):
        write_dowhy(graph, tmp_path / "graph.txt")


def test_hidden_common_causes_are_made_up_for_or_named(silos):
    """The column a is hidden here: it joins b and c, and d stays to be told from c with b."""
    tables = [Silo(silo.name, NAMES[1:], silo.values[:, 1:]) for silo in silos]
    learner = feddag.make_learner("empty").fit(tables)
    directed, joined = [[0, 1, 1], [0, 0, 1], [0, 0, 0]], [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    learner.graph_ = CausalGraph.admg(directed, joined, NAMES[1:])
    found = total_effect(learner, tables, "c", "d")
    assert {each.adjusted_for for each in found.estimates} == {"b"}
    together = next(each for each in found.estimates if each.site == TOGETHER)
    assert abs(together.slope - 2.0) < 4 * together.error
    with pytest.raises(FeddagError, match="'b' on 'd' is not identified, because b <-> c"):
        total_effect(learner, tables, "b", "d")


def test_dowhy_gets_a_hidden_node_for_each_hidden_cause(tmp_path):
    graph = CausalGraph.admg([[0, 1], [0, 0]], [[0, 1], [1, 0]], ["a", "b"])
    write_dowhy(graph, tmp_path / "graph.gml")
    read = nx.read_gml(tmp_path / "graph.gml")
    hidden = "hidden cause of a and b"
    assert set(read.edges) == {("a", "b"), (hidden, "a"), (hidden, "b")}
    with pytest.raises(FeddagError, match="DoWhy takes no circles, and the graph has a o-o b"):
        write_dowhy(CausalGraph([[0, 1], [0, 0]], ["a", "b"]).to_pag(), tmp_path / "graph.gml")
