"""Promises of `simulate`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph
from feddag.silos.silo import Silo
from feddag.silos.simulation import Simulation, simulate
from feddag.silos.simulation.mechanisms import MECHANISMS

CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.int8)
TRIANGLE = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=np.int8)
FORK_AND_COLLIDER = np.array([[0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=np.int8)


def pooled(simulation: Simulation) -> np.ndarray:
    return np.concatenate([silo.values for silo in simulation.silos])


def small(**parameters: Any) -> Simulation:
    return simulate(**({"mechanism": "linear", "sites": 3, "rows": 20} | parameters))


def assert_linear_model(values: np.ndarray, weights: np.ndarray, variances: np.ndarray) -> None:
    """Least squares on the parents gives back weights and noise variance, within 4.5 standard errors."""
    rows = len(values)
    for node in range(len(weights)):
        parents = np.flatnonzero(weights[:, node])
        X, y = values[:, parents], values[:, node]
        estimate = np.linalg.lstsq(X, y, rcond=None)[0]
        error = np.sqrt(variances[node] * np.diag(np.linalg.inv(X.T @ X)))
        assert np.all(np.abs(estimate - weights[parents, node]) < 4.5 * error)
        residual = y - X @ estimate
        assert abs(residual.var() / variances[node] - 1) < 4.5 * np.sqrt(2 / rows)


# Shapes and names


def test_the_default_is_the_papers_setting() -> None:
    simulation = simulate(rows=30)
    assert [silo.values.shape for silo in simulation.silos] == [(30, 10)] * 10
    assert simulation.silos[0].name == "site-01"
    assert simulation.silos[9].name == "site-10"
    assert simulation.truth.is_dag
    assert {site["mechanism"] for site in simulation.drawn["sites"]} == {"gp"}
    assert simulation.drawn["sites"][0]["noise_variances"] == [1.0] * 10


def test_names_sort_as_the_nodes_do() -> None:
    assert small(nodes=10).truth.names == tuple(f"x{i}" for i in range(10))
    many = small(nodes=12).truth.names
    assert many[:2] == ("x00", "x01")
    assert list(many) == sorted(many)
    assert small(sites=100).silos[0].name == "site-001"


def test_a_silo_is_a_table() -> None:
    silo = Silo("here", ("a", "b"), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert silo.rows == 3
    assert silo.to_frame().to_dict("list") == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}


def test_a_given_graph_is_followed_under_its_own_names() -> None:
    graph = CausalGraph(CHAIN, ("age", "dose", "outcome"))
    simulation = small(graph=graph)
    assert simulation.truth == graph
    assert simulation.silos[0].columns == ("age", "dose", "outcome")
    assert small(graph=CHAIN).truth == CausalGraph(CHAIN, ("x0", "x1", "x2"))
    assert small(graph=CHAIN.tolist(), nodes=3).truth == small(graph=CHAIN).truth


@pytest.mark.parametrize("orientation", ["arrival", "random"])
def test_scale_free_graphs(orientation: str) -> None:
    truth = small(graph="SF", nodes=12, edges_per_node=3, orientation=orientation).truth
    assert truth.is_dag
    assert truth.adjacency.sum() == 27


def test_edge_probability_reaches_the_graph() -> None:
    edges = {
        rule: np.mean([small(edge_probability=rule, seed=seed).truth.adjacency.sum() for seed in range(200)])
        for rule in ("published", "exact")
    }
    assert edges == {"published": pytest.approx(18, abs=1), "exact": pytest.approx(20, abs=1)}


# What the data follow


def test_linear_data_follow_the_drawn_weights() -> None:
    simulation = simulate(6, mechanism="linear", rows=2000, seed=3)
    site = simulation.drawn["sites"][0]
    weights = np.array(site["weights"])
    assert np.array_equal(weights != 0, simulation.truth.adjacency == 1)
    assert_linear_model(pooled(simulation), weights, np.array(site["noise_variances"]))


def test_every_site_of_a_homogeneous_simulation_has_the_same_model() -> None:
    sites = simulate(6, mechanism="linear").drawn["sites"]
    assert all({**site, "name": "site-01"} == sites[0] for site in sites)


def test_heterogeneous_linear_sites_each_follow_their_own_weights() -> None:
    simulation = simulate(6, mechanism="linear", heterogeneous=True, sites=3, rows=5000, noise_variance=0.3)
    drawn = simulation.drawn["sites"]
    for silo, site in zip(simulation.silos, drawn, strict=True):
        assert site["noise_variances"] == pytest.approx([0.3] * 6)
        assert_linear_model(silo.values, np.array(site["weights"]), np.full(6, 0.3))
    assert drawn[0]["weights"] != drawn[1]["weights"]


def test_homogeneous_sites_share_one_function_and_heterogeneous_ones_do_not() -> None:
    """Where a parent hardly varies, a smooth function is a constant: one for all sites, or one for each."""

    def spread_between_sites(heterogeneous: bool) -> float:
        simulation = simulate(
            graph=CHAIN[:2, :2], mechanism="gp", heterogeneous=heterogeneous, rows=50, noise_variance=1e-8
        )
        return float(np.std([silo.values[:, 1].mean() for silo in simulation.silos]))

    assert spread_between_sites(heterogeneous=False) < 1e-3
    assert spread_between_sites(heterogeneous=True) > 0.1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_node_depends_on_its_parents_only(mechanism: str) -> None:
    """x0 and x1 are unrelated, as are x1 and x3; the mean of x3 differs by the fifths of its parent x0."""
    values = pooled(simulate(graph=FORK_AND_COLLIDER, mechanism=mechanism, sites=1, rows=1500, seed=4))
    assert stats.pearsonr(values[:, 0], values[:, 1]).pvalue > 0.001
    assert stats.pearsonr(values[:, 1], values[:, 3]).pvalue > 0.001
    quantiles = np.quantile(values[:, 0], [0, 0.2, 0.4, 0.6, 0.8, 1])
    bins = np.digitize(values[:, 0], quantiles[1:-1])
    assert stats.f_oneway(*[values[bins == each, 3] for each in range(5)]).pvalue < 1e-6


@pytest.mark.parametrize("heterogeneous", [False, True])
def test_unequal_noise_has_the_recorded_deviations(heterogeneous: bool) -> None:
    simulation = simulate(
        6,
        mechanism="linear",
        heterogeneous=heterogeneous,
        sites=2,
        rows=4000,
        noise="laplace",
        noise_deviation_range=(0.5, 2),
    )
    recorded = [np.sqrt(site["noise_variances"]) for site in simulation.drawn["sites"]]
    assert all((deviations >= 0.5).all() and (deviations <= 2).all() for deviations in recorded)
    assert len(set(recorded[0])) == 6
    assert np.array_equal(*recorded) != heterogeneous
    for silo, site in zip(simulation.silos, simulation.drawn["sites"], strict=True):
        noise = silo.values - silo.values @ np.array(site["weights"])
        kurtosis_error = np.sqrt(5 / silo.rows)  # Laplace: (6 − 1) / n
        assert np.all(np.abs(noise.var(axis=0) / site["noise_variances"] - 1) < 4.5 * kurtosis_error)


def test_noise_law_and_variance_reach_the_data() -> None:
    values = pooled(simulate(graph=np.zeros((2, 2)), noise="exponential", noise_variance=4))
    assert stats.kstest(values[:, 0], stats.expon(-2, 2).cdf).pvalue > 0.01


@pytest.mark.parametrize("mechanism", ["linear", "gp"])
def test_standardised_data_have_mean_zero_and_variance_one(mechanism: str) -> None:
    homogeneous = simulate(8, mechanism=mechanism, standardised=True, sites=3, rows=100)
    mixed = simulate(8, mechanism=mechanism, standardised=True, sites=3, rows=100, heterogeneous=True)
    for values in (pooled(homogeneous), *(silo.values for silo in mixed.silos)):
        np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(values.std(axis=0), 1)
    assert np.abs(homogeneous.silos[0].values.std(axis=0) - 1).max() > 0.01


def test_standardising_happens_before_the_children_see_a_variable() -> None:
    """Of a chain each link then explains w²/(w² + 1); standardised afterwards, it would be ever more."""
    chain = np.eye(12, k=1)
    simulation = simulate(graph=chain, mechanism="linear", standardised=True, sites=1, rows=20_000)
    weights = np.diag(np.array(simulation.drawn["sites"][0]["weights"]), k=1)
    correlations = np.diag(np.corrcoef(pooled(simulation).T), k=1)
    expected = weights / np.sqrt(weights**2 + 1)
    assert np.all(np.abs(correlations - expected) < 4.5 * (1 - expected**2) / np.sqrt(20_000))


# Heterogeneous sites


def test_heterogeneous_sites_are_linear_half_the_time_and_otherwise_any_nonlinear_kind() -> None:
    sites = simulate(2, graph=np.zeros((2, 2)), heterogeneous=True, sites=2000, rows=2).drawn["sites"]
    kinds = [site["mechanism"] for site in sites]
    observed = [kinds.count(kind) for kind in ("linear", "gp", "gp-add", "mlp", "mim")]
    assert stats.chisquare(observed, [1000, 250, 250, 250, 250]).pvalue > 0.01


def test_nonlinear_sites_draw_one_of_two_scales_and_linear_ones_have_one() -> None:
    sites = simulate(2, graph=np.zeros((2, 2)), heterogeneous=True, sites=1000, rows=2).drawn["sites"]
    linear = {tuple(site["noise_variances"]) for site in sites if site["mechanism"] == "linear"}
    assert linear == {(1.0, 1.0)}
    nonlinear = [site["noise_variances"] for site in sites if site["mechanism"] != "linear"]
    assert {tuple(np.round(pair, 12)) for pair in nonlinear} == {(0.64, 0.64), (1.0, 1.0)}
    low = sum(first < 0.9 for first, _ in nonlinear)
    assert stats.binomtest(low, len(nonlinear)).pvalue > 0.01


def test_candidates_limit_the_kinds() -> None:
    def kinds(mechanism: Any) -> set[str]:
        drawn = small(mechanism=mechanism, heterogeneous=True, sites=40, rows=2).drawn
        return {site["mechanism"] for site in drawn["sites"]}

    assert kinds(("gp", "mim")) == {"gp", "mim"}
    assert kinds(["linear", "mlp"]) == {"linear", "mlp"}
    assert kinds("mim") == {"mim"}


def test_sites_of_one_kind_still_differ() -> None:
    first, second = simulate(mechanism="mlp", heterogeneous=True, sites=2, rows=50).silos
    assert np.abs(first.values - second.values).min() > 0


def test_shared_draws_repeat_noise_and_nonlinear_functions() -> None:
    shared = simulate(
        graph=TRIANGLE, heterogeneous=True, shared_draws=True, mechanism=("linear", "gp"), sites=12, rows=30
    )
    sites = shared.drawn["sites"]
    unit_roots = [
        silo.values[:, 0] / np.sqrt(site["noise_variances"][0]) for silo, site in zip(shared.silos, sites, strict=True)
    ]
    np.testing.assert_allclose(unit_roots, [unit_roots[0]] * 12)

    def tables(mechanism: str) -> list[np.ndarray]:
        return [
            silo.values
            for silo, site in zip(shared.silos, sites, strict=True)
            if site["mechanism"] == mechanism and site["noise_variances"][0] == 1
        ]

    assert len(tables("gp")) > 1
    assert all(np.array_equal(table, tables("gp")[0]) for table in tables("gp"))
    assert len(tables("linear")) > 1
    assert not np.array_equal(tables("linear")[0], tables("linear")[1])


# Rows


def test_rows_may_differ_by_site() -> None:
    simulation = small(rows=(5, 9, 2))
    assert [silo.rows for silo in simulation.silos] == [5, 9, 2]
    assert [site["rows"] for site in simulation.drawn["sites"]] == [5, 9, 2]


def test_uneven_rows_come_from_the_papers_list() -> None:
    counts = [silo.rows for silo in small(nodes=2, sites=1000, rows=600, uneven=True).silos]
    assert set(counts) == {120, 240, 360, 480}
    assert stats.chisquare([counts.count(each) for each in (120, 240, 360, 480)]).pvalue > 0.01


# Seeds


@pytest.mark.parametrize("parameters", [{}, {"heterogeneous": True}, {"uneven": True, "graph": "SF"}])
def test_the_same_arguments_give_the_same_data_and_another_seed_does_not(parameters: dict[str, Any]) -> None:
    first, again = (simulate(5, sites=2, rows=40, seed=2021, **parameters) for _ in range(2))
    assert first.drawn == again.drawn
    np.testing.assert_array_equal(pooled(first), pooled(again))
    other = simulate(5, sites=2, rows=40, seed=2022, **parameters)
    assert first.drawn["parameters"]["seed"] == 2021
    assert not np.array_equal(pooled(first)[0], pooled(other)[0])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"graph": CHAIN},
        {"graph": CausalGraph(CHAIN)},
        {"heterogeneous": True, "mechanism": ("gp", "linear"), "rows": np.array([3, 4])},
        {"noise_deviation_range": (0.5, np.float64(2)), "seed": np.int64(4)},
    ],
)
def test_the_recorded_parameters_reproduce_the_data(parameters: dict[str, Any]) -> None:
    simulation = simulate(**({"sites": 2, "rows": 20} | parameters))
    recorded = json.loads(json.dumps(simulation.drawn))
    assert recorded == simulation.drawn
    np.testing.assert_array_equal(pooled(simulate(**recorded["parameters"])), pooled(simulation))


def test_other_choices_keep_the_graph() -> None:
    graph = small(nodes=8).truth
    for other in (
        {"rows": 50},
        {"sites": 5},
        {"mechanism": "mim"},
        {"heterogeneous": True},
        {"noise": "gumbel"},
    ):
        assert small(nodes=8, **other).truth == graph


def test_more_rows_keep_the_linear_model_and_the_first_rows() -> None:
    few, many = small(sites=1, rows=10), small(sites=1, rows=30)
    assert few.drawn["sites"][0]["weights"] == many.drawn["sites"][0]["weights"]
    np.testing.assert_allclose(few.silos[0].values, many.silos[0].values[:10])


def test_one_more_site_keeps_the_heterogeneous_sites_before_it() -> None:
    parameters: dict[str, Any] = {"heterogeneous": True, "rows": 30, "uneven": True}
    three, five = (simulate(sites=sites, **parameters) for sites in (3, 5))
    assert three.drawn["sites"] == five.drawn["sites"][:3]
    for before, after in zip(three.silos, five.silos[:3], strict=True):
        np.testing.assert_array_equal(before.values, after.values)


def test_noise_is_independent_between_nodes_and_sites() -> None:
    simulation = simulate(graph=np.zeros((4, 4)), heterogeneous=True, sites=4, rows=2000)
    columns = np.concatenate([silo.values for silo in simulation.silos], axis=1)
    correlations = np.corrcoef(columns.T)[~np.eye(16, dtype=bool)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(2000)


# Limits


def test_deep_linear_chains_stay_finite() -> None:
    values = pooled(small(graph=np.triu(np.ones((60, 60)), k=1)))
    assert np.isfinite(values).all()


def test_overflow_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(FeddagError, match="standardised=True"):
        small(graph=np.triu(np.ones((20, 20)), k=1), noise_deviation_range=(1e307, 1e308))


# Mistakes


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nodes": 1}, "nodes must be a whole number from 2 to 10,000 or None. Got 1 instead."),
        ({"nodes": 3.0}, "nodes must be a whole number from 2 to 10,000 or None. Got 3.0 instead."),
        (
            {"mechanism": "foo"},
            "mechanism must be one of 'linear', 'gp', 'gp-add', 'mlp', 'mim' or several of them or None. "
            "Got 'foo' instead.",
        ),
        ({"mechanism": (), "heterogeneous": True}, "mechanism must be one of"),
        ({"mechanism": ("gp", "linear")}, "mechanism must be a single one unless heterogeneous=True"),
        ({"graph": "BA"}, "graph must be one of 'ER', 'SF' or an acyclic CausalGraph or adjacency matrix."),
        ({"graph": np.ones((2, 2)) - np.eye(2)}, "graph must be"),
        ({"graph": np.zeros((2, 3))}, "adjacency must be a square matrix. Got shape (2, 3) instead."),
        ({"graph": CausalGraph(1 - np.eye(3))}, "Got CausalGraph(3 nodes, 3 edges) instead."),
        ({"graph": CHAIN, "nodes": 4}, "nodes must be the size of the given graph, or be left out. Got 4"),
        ({"edges_per_node": 0}, "edges_per_node must be a positive number. Got 0 instead."),
        (
            {"graph": "SF", "edges_per_node": 1.5},
            "edges_per_node must be a whole number for a scale-free graph",
        ),
        ({"graph": "SF", "edges_per_node": 10}, "edges_per_node must be less than the number of nodes"),
        ({"edge_probability": "printed"}, "edge_probability must be one of 'published', 'exact'."),
        ({"orientation": "up"}, "orientation must be one of 'random', 'arrival'. Got 'up' instead."),
        ({"heterogeneous": 1}, "heterogeneous must be True or False. Got 1 instead."),
        ({"sites": 0}, "sites must be a whole number of at least 1. Got 0 instead."),
        ({"sites": True}, "sites must be a whole number of at least 1. Got True instead."),
        (
            {"rows": 1},
            "rows must be a whole number of at least 2 or one such number per site. Got 1 instead.",
        ),
        ({"rows": [20, 1, 20]}, "rows must be"),
        ({"rows": [20, 20]}, "rows must be one number for each of the sites. Got [20, 20] instead."),
        ({"uneven": "yes"}, "uneven must be True or False"),
        ({"rows": [20] * 3, "uneven": True}, "uneven must be False when rows says how many each site has"),
        (
            {"noise": "cauchy"},
            "noise must be one of 'gaussian', 'laplace', 'uniform', 'exponential', 'gumbel'.",
        ),
        ({"noise_variance": -1}, "noise_variance must be a positive number or None. Got -1 instead."),
        ({"noise_variance": float("inf")}, "noise_variance must be a positive number or None. Got inf"),
        ({"noise_deviation_range": (2, 0.5)}, "noise_deviation_range must be a pair of positive numbers"),
        ({"noise_deviation_range": 2}, "noise_deviation_range must be a pair of positive numbers"),
        ({"noise_variance": 1, "noise_deviation_range": (1, 2)}, "noise_variance must be None when"),
        ({"standardised": None}, "standardised must be True or False. Got None instead."),
        ({"shared_draws": "no"}, "shared_draws must be True or False"),
        ({"shared_draws": True}, "shared_draws must be False unless heterogeneous=True"),
        ({"seed": -1}, "seed must be a whole number of at least 0. Got -1 instead."),
    ],
)
def test_a_wrong_parameter_is_named_with_what_it_must_be(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(FeddagError) as caught:
        small(**parameters)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
