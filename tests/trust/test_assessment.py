from __future__ import annotations

import json

import numpy as np
import pytest

import feddag
from feddag.graphs import CausalGraph
from feddag.trust import Assessment, assess
from feddag.trust.assessment import trust_sites
from feddag.trust.held_out import HeldOut, compare_held_out
from feddag.trust.sites import TrustSite
from feddag.trust.verdict import verdict


@pytest.fixture(scope="module")
def simulation():
    return feddag.simulate(8, edges_per_node=1, mechanism="gp", sites=4, rows=250, edge_probability="exact", seed=1)


def learner_of(graph, silos):
    """One that has learned this graph."""
    learner = feddag.make_learner("empty").fit(silos)
    learner.graph_ = graph
    return learner


def test_the_true_graph_is_better_than_nothing_and_than_chance(simulation):
    assessment = assess(learner_of(simulation.truth, simulation.silos), simulation.silos)

    assert assessment.verdict.startswith("On rows held out the graph explains the data better than no graph (by ")
    assert "random graphs of the same shape" in assessment.verdict
    assert "Do not trust" not in assessment.verdict
    by_name = {each.graph: each for each in assessment.held_out}
    assert list(by_name) == ["learned", "empty", "random", "sorted by variance", "sorted by R²"]
    for each in by_name.values():
        assert each.score + each.difference == pytest.approx(by_name["learned"].score)


def test_a_graph_of_unrelated_variables_is_not_to_be_trusted():
    silos = list(np.random.default_rng(0).normal(size=(3, 100, 4)))
    graph = CausalGraph(np.triu(np.ones((4, 4)), 1), ["x0", "x1", "x2", "x3"])
    assert assess(learner_of(graph, silos), silos).verdict.startswith("Do not trust this graph")


def test_shuffling_a_graph_that_joins_most_pairs_is_no_test(simulation):
    graph = CausalGraph(np.triu(np.ones((8, 8)), 1), simulation.truth.names)
    results = assess(learner_of(graph, simulation.silos), simulation.silos).held_out
    assert [each.graph for each in results] == ["learned", "empty", "sorted by variance", "sorted by R²"]


def test_a_graph_without_edges_is_told_so(simulation):
    assessment = assess(feddag.make_learner("empty").fit(simulation), simulation)
    assert assessment.verdict == "The graph has no edges: it says nothing about the data."
    assert assessment.held_out == ()
    assert assessment.sortability.varsortability is None


def test_undirected_edges_are_given_a_direction_first(simulation):
    open_ = CausalGraph(simulation.truth.adjacency | simulation.truth.adjacency.T, simulation.truth.names)
    assert "better than no graph" in assess(learner_of(open_, simulation.silos), simulation.silos).verdict


def test_a_column_that_is_a_function_of_others_only_loses_the_comparison_with_sorting(simulation):
    tables = [silo.to_frame().assign(twice=lambda frame: 2 * frame.iloc[:, 0]) for silo in simulation.silos]
    graph = CausalGraph(np.pad(simulation.truth.adjacency, (0, 1)), list(tables[0].columns))
    assessment = assess(learner_of(graph, tables), tables)
    assert [each.graph for each in assessment.held_out] == ["learned", "empty", "random"]
    assert assessment.sortability.r2_sortability is None


def test_means_and_errors_are_those_of_the_paired_differences_of_sites(simulation):
    truth, empty = simulation.truth.adjacency, np.zeros((8, 8), dtype=np.int8)
    silos = [
        feddag.Silo(silo.name, silo.columns, silo.values[: 250 - 40 * k]) for k, silo in enumerate(simulation.silos)
    ]
    with trust_sites(silos) as (federation, _):
        found = compare_held_out(federation, truth, {"empty": [empty]})[1]

    rows = [TrustSite(silo) for silo in silos]
    differences = [
        np.sum([site._own.of_family((child, tuple(np.flatnonzero(truth[:, child])))) for child in range(8)], axis=0)
        - np.sum([site._own.of_family((child, ())) for child in range(8)], axis=0)
        for site in rows
    ]
    counts, means = np.array([len(each) for each in differences]), np.array([each.mean() for each in differences])
    weights = counts / counts.sum()
    mean = weights @ means
    over_sites = np.sqrt(4 / 3 * (weights**2 @ (means - mean) ** 2))
    over_rows = np.concatenate(differences).std() / np.sqrt(counts.sum())
    assert found.difference == pytest.approx(mean)
    assert found.error == pytest.approx(max(over_sites, over_rows))


def test_equal_data_give_an_equal_assessment_that_survives_json(simulation):
    learner = learner_of(simulation.truth, simulation.silos)
    one, other = assess(learner, simulation.silos), assess(learner, simulation.silos)
    assert one == other == Assessment.from_json(one.to_json())
    assert list(json.loads(one.to_json())) == ["verdict", "warnings", "sortability", "held_out"]


@pytest.mark.parametrize(
    ("random", "by_variance", "sentence"),
    [
        (
            (0.5, 0.1),
            (0.02, 0.02),
            "On rows held out the graph explains the data better than no graph (by 0.8 ± 0.1 nats per row) and random "
            "graphs of the same shape (by 0.5 ± 0.1), no better than sorting by variance (by 0.02 ± 0.02).",
        ),
        (
            (0.1, 0.1),
            (-0.5, 0.1),
            "On rows held out the graph explains the data better than no graph (by 0.8 ± 0.1 nats per row), no better "
            "than random graphs of the same shape (by 0.1 ± 0.1), and worse than sorting by variance (by 0.5 ± 0.1). "
            "Do not trust it.",
        ),
    ],
)
def test_the_verdict_says_what_counts(random, by_variance, sentence):
    results = [
        HeldOut("learned", -1.0, 0.0, 0.0),
        HeldOut("empty", -1.8, 0.8, 0.1),
        HeldOut("random", -1.0, *random),
        HeldOut("sorted by variance", -1.0, *by_variance),
    ]
    assert verdict(results) == sentence
