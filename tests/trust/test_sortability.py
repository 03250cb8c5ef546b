from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import feddag
from feddag.federation import InProcess
from feddag.regression.moments import COVARIANCE, Moments, MomentSite, summed_moments
from feddag.silos import Silo
from feddag.trust import assess, warnings_before
from feddag.trust.sortability import is_unit_free, order_agreement, sortability


def by_enumeration(graph, values):
    """The definition of the paper, by walking along every path."""
    network = nx.from_numpy_array(graph, create_using=nx.DiGraph)
    paths = {
        (path[0], path[-1], len(path))
        for start in network
        for end in network
        if start != end
        for path in nx.all_simple_paths(network, start, end)
    }
    scores = [1.0 if values[i] < values[j] else 0.5 if values[i] == values[j] else 0.0 for i, j, _ in paths]
    return float(np.mean(scores))


@pytest.mark.parametrize("seed", range(8))
def test_agreement_with_an_order_is_that_of_all_paths(seed):
    draw = np.random.default_rng(seed)
    order = draw.permutation(7)
    graph = np.zeros((7, 7), dtype=np.int8)
    graph[np.ix_(order, order)] = np.triu(draw.random((7, 7)) < 0.5, 1)
    values = draw.integers(0, 5, size=7).astype(float)
    assert order_agreement(graph, values) == pytest.approx(by_enumeration(graph, values))


def test_undirected_edges_and_empty_graphs_have_no_order():
    assert order_agreement(np.array([[0, 1], [1, 0]], dtype=np.int8), np.array([1.0, 2.0])) is None


def test_sortability_of_many_sites_is_that_of_their_pooled_rows():
    simulation = feddag.simulate(6, mechanism="linear", sites=3, rows=200, seed=1)
    pooled = np.concatenate([silo.values for silo in simulation.silos])
    with InProcess([MomentSite(silo.name, silo.values, COVARIANCE) for silo in simulation.silos], 1) as federation:
        found = sortability(simulation.truth.adjacency, summed_moments(federation, simulation.silos[0].columns))

    r2 = []
    for node in range(6):
        others = np.column_stack([np.delete(pooled, node, axis=1), np.ones(len(pooled))])
        left = pooled[:, node] - others @ np.linalg.lstsq(others, pooled[:, node], rcond=None)[0]
        r2.append(1 - left.var() / pooled[:, node].var())
    assert found.varsortability == pytest.approx(by_enumeration(simulation.truth.adjacency, pooled.var(axis=0)))
    assert found.r2_sortability == pytest.approx(by_enumeration(simulation.truth.adjacency, r2))


def test_variables_that_determine_each_other_have_no_r2():
    covariance = np.ones((2, 2)) + np.diag([0.0, 1e-17])
    found = sortability(np.array([[0, 1], [0, 0]], dtype=np.int8), Moments(10, ("a", "b"), covariance))
    assert found.r2_sortability is None


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        (feddag.make_learner("search"), True),
        (feddag.make_learner("search", noise="equal"), False),
        (feddag.make_learner("cam"), True),
        (feddag.make_learner("search", "voting", noise="equal"), False),
        (feddag.make_learner("notears"), False),
        (feddag.FedDAG(), False),
    ],
)
def test_it_is_known_whether_units_matter(learner, expected):
    assert is_unit_free(learner) is expected


def test_a_graph_that_sorts_by_variance_is_told_so_and_units_are_too():
    chain = np.cumsum(np.random.default_rng(1).normal(size=(3, 200, 5)), axis=2)
    learner = feddag.make_learner("notears").fit(list(chain))
    warnings = assess(learner, list(chain)).warnings

    assert "sorts the variables by variance: 100% of its paths" in warnings[0]
    assert "depends on the units" in warnings[-1]
    free = feddag.make_learner("r2-sortnregress").fit(list(chain))
    assert not any("depends on the units" in each for each in assess(free, list(chain)).warnings)


def test_units_that_differ_widely_are_told_before_a_fit_if_they_matter():
    values = np.random.default_rng(0).normal(size=(40, 2)) * [1.0, 5000.0]
    silos = [Silo("here", ("height", "weight"), values)]

    (warning,) = warnings_before(feddag.make_learner("notears"), silos)
    assert "'weight'" in warning
    assert "'height'" in warning
    assert "use --method search" in warning
    assert not warnings_before(feddag.make_learner("search"), silos)
    assert not warnings_before(feddag.make_learner("notears"), [Silo("here", ("a", "b"), values / [1, 5000])])


def test_the_search_with_equal_noise_is_held_against_free_noise_and_not_against_itself():
    chain = np.cumsum(np.random.default_rng(1).normal(size=(3, 60, 3)), axis=2) * [1.0, 1.0, 5000.0]
    learner = feddag.make_learner("search", noise="equal")
    (before,) = warnings_before(learner, list(chain))
    after = assess(learner.fit(list(chain)), list(chain)).warnings[-1]
    for warning in (before, after):
        assert "--noise free, which does not" in warning
        assert "--method" not in warning
