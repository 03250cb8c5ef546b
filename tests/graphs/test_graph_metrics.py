"""How far graphs are apart: worked by hand, by the paper's rule for PDAGs, and as laws for any graphs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph, compare, shd, to_cpdag

NODES = 4
pdags = hnp.arrays(np.int8, (NODES, NODES), elements=st.integers(0, 1)).map(
    lambda matrix: matrix * (1 - np.eye(NODES, dtype=np.int8))
)
dags = st.tuples(pdags, st.permutations(range(NODES))).map(lambda drawn: np.triu(drawn[0])[np.ix_(drawn[1], drawn[1])])


def graph(*edges: str, nodes: str = "abcde") -> CausalGraph:
    """`graph("a>b", "b-c")`: a directed and an undirected edge."""
    adjacency = np.zeros((len(nodes), len(nodes)), dtype=np.int8)
    for one, kind, other in edges:
        adjacency[nodes.index(one), nodes.index(other)] = 1
        if kind == "-":
            adjacency[nodes.index(other), nodes.index(one)] = 1
    return CausalGraph(adjacency, list(nodes))


def test_a_hand_worked_comparison():
    truth = graph("a>b", "b>c", "c>d", "a>d")
    estimate = graph("a>b", "c>b", "c>d", "d>e", "b>e")
    metrics = compare(estimate, truth)
    assert metrics.as_dict() == {
        "shd": 4,
        "tpr": 2 / 4,
        "fdr": 3 / 5,
        "nnz": 5,
        "precision": pytest.approx(2 / 5),
        "recall": 2 / 4,
        "f1": pytest.approx(2 * (2 / 5) * (2 / 4) / (2 / 5 + 2 / 4)),
        "missing": 1,
        "extra": 2,
        "reversed": 1,
        "left_open": 0,
        "strict_shd": 4,
    }


def test_a_reversed_edge_is_one_error():
    assert compare(graph("b>a"), graph("a>b")).shd == shd(graph("b>a"), graph("a>b")) == 1


def test_an_undirected_estimate_of_a_true_edge_is_right():
    metrics = compare(graph("a-b"), graph("a>b"))
    assert (metrics.shd, metrics.tpr, metrics.fdr, metrics.nnz) == (0, 1.0, 0.0, 1)
    assert (metrics.left_open, metrics.strict_shd) == (1, 1)


def test_an_undirected_estimate_of_no_edge_is_one_error():
    metrics = compare(graph("a>b", "c-d"), graph("a>b"))
    assert (metrics.shd, metrics.extra, metrics.fdr, metrics.nnz) == (1, 1, 0.5, 2)


def test_a_directed_estimate_of_a_true_undirected_edge_is_of_the_wrong_type():
    metrics = compare(graph("a>b"), graph("a-b"))
    assert (metrics.shd, metrics.reversed, metrics.tpr) == (1, 1, 0.0)


def test_an_undirected_estimate_of_a_true_undirected_edge_is_right():
    metrics = compare(graph("a-b"), graph("a-b"))
    assert (metrics.shd, metrics.left_open, metrics.strict_shd) == (0, 0, 0)


def test_the_strict_distance_tells_undirected_from_directed():
    assert shd(graph("a-b"), graph("a>b")) == shd(graph("a>b"), graph("a-b")) == 1


@given(dags)
def test_whoever_finds_the_true_cpdag_has_distance_zero(truth):
    metrics = compare(to_cpdag(truth), truth)
    assert (metrics.shd, metrics.tpr, metrics.fdr) == (0, 1.0, 0.0)


def test_nothing_to_find_and_nothing_found_are_not_nan():
    nothing, something = np.zeros((2, 2)), [[0, 1], [0, 0]]
    both_empty = compare(nothing, nothing)
    assert (both_empty.tpr, both_empty.fdr, both_empty.precision, both_empty.f1) == (1.0, 0.0, 1.0, 1.0)
    false_alarm = compare(something, nothing)
    assert (false_alarm.tpr, false_alarm.fdr, false_alarm.f1) == (1.0, 1.0, 0.0)
    miss = compare(nothing, something)
    assert (miss.tpr, miss.fdr, miss.precision, miss.f1) == (0.0, 0.0, 1.0, 0.0)


@given(pdags, pdags)
def test_rates_stay_between_0_and_1_and_counts_add_up(estimate, truth):
    metrics = compare(estimate, truth)
    for rate in (metrics.tpr, metrics.fdr, metrics.precision, metrics.recall, metrics.f1):
        assert 0.0 <= rate <= 1.0
    assert metrics.shd == metrics.missing + metrics.extra + metrics.reversed
    assert metrics.shd <= NODES * (NODES - 1) // 2


@given(pdags, pdags)
def test_rates_agree_with_their_definitions_by_counting_pairs(estimate, truth):
    """The definitions, counted one pair at a time, where `compare` counts by matrices."""
    true_edges, found, wrong, estimated_edges = 0, 0, 0, 0
    for i in range(NODES):
        for j in range(i):
            e, t = (estimate[i, j], estimate[j, i]), (truth[i, j], truth[j, i])
            right = any(t) and any(e) and (e == t or all(e))
            true_edges += any(t)
            estimated_edges += any(e)
            found += right
            wrong += any(e) and not right
    metrics = compare(estimate, truth)
    assert metrics.nnz == estimated_edges
    assert metrics.tpr == (found / true_edges if true_edges else 1)
    assert metrics.fdr == (wrong / estimated_edges if estimated_edges else 0)
    assert metrics.shd == wrong + true_edges - found - metrics.reversed


@given(pdags, pdags)
def test_lenience_only_forgives_open_edges(estimate, truth):
    metrics = compare(estimate, truth)
    assert metrics.shd + metrics.left_open == metrics.strict_shd == shd(estimate, truth)


@given(dags, pdags)
def test_without_undirected_estimates_the_rule_is_the_strict_distance(estimate, truth):
    assert compare(estimate, truth).shd == shd(estimate, truth)


@pytest.mark.parametrize("graphs", [dags, pdags], ids=["dags", "pdags"])
def test_shd_is_a_metric(graphs):
    @given(graphs, graphs, graphs)
    def check(a, b, c):
        assert shd(a, b) == shd(b, a)
        assert (shd(a, b) == 0) == np.array_equal(a, b)
        assert shd(a, c) <= shd(a, b) + shd(b, c)

    check()


@given(pdags, pdags, st.permutations(range(NODES)))
def test_graphs_are_aligned_by_name(estimate, truth, order):
    names = ["w", "x", "y", "z"]
    shuffled = CausalGraph(estimate[np.ix_(order, order)], [names[i] for i in order])
    assert compare(shuffled, CausalGraph(truth, names)) == compare(estimate, truth)
    assert shd(shuffled, CausalGraph(truth, names)) == shd(estimate, truth)


def test_an_array_is_taken_in_the_order_of_the_named_graph():
    named = graph("b>a", nodes="ba")
    assert compare([[0, 1], [0, 0]], named).shd == compare(named, [[0, 1], [0, 0]]).shd == 0


@pytest.mark.parametrize("distance", [compare, shd])
def test_graphs_over_other_variables_are_refused_with_the_names_that_differ(distance):
    with pytest.raises(FeddagError, match="lacks 'd' and has besides 'c'"):
        distance(graph(nodes="abc"), graph(nodes="abd"))
    with pytest.raises(FeddagError, match="one has 2 nodes, the other 3"):
        distance(np.zeros((2, 2)), np.zeros((3, 3)))


def test_an_array_that_is_no_graph_is_refused():
    with pytest.raises(FeddagError, match="0 or 1"):
        compare([[0, 0.7], [0, 0]], np.zeros((2, 2)))


def test_metrics_cannot_be_altered():
    with pytest.raises(dataclasses.FrozenInstanceError):
        compare(graph(), graph()).shd = 0
