"""The benchmark on other data draws what it says, and counts what is wrong as wrong."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddag import CausalGraph
from feddag.graphs import is_dag

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CONTINUOUS = [
    "linear_normal",
    "linear_uniform",
    "linear_laplace",
    "linear_exponential",
    "heteroscedastic",
    "location_scale",
    "post_nonlinear",
    "multiplicative",
    "smooth",
    "heavy_tailed",
    "far_out",
    "near_copy",
    "missing_at_random",
    "without_gaps",
]
LEVELS = ["complete_tables", "random_tables"]


@pytest.fixture
def generators(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("other_generators")


@pytest.fixture
def other_data(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("other_data")


def draw(generator, seed=1, rows=400, sites=5):
    return generator(np.random.default_rng(seed), 10, 15, rows, sites)


@pytest.mark.parametrize("name", CONTINUOUS + LEVELS)
def test_a_generator_deals_out_rows_of_a_dag_with_so_many_edges(generators, name):
    generator = getattr(generators, name)
    tables, truth = draw(generator)
    assert [table.shape for table in tables] == [(400, 10)] * 5
    assert truth.sum() == 15
    assert is_dag(truth)
    again, _ = draw(generator)
    np.testing.assert_array_equal(tables, again)
    _, longer = draw(generator, rows=500)
    np.testing.assert_array_equal(truth, longer)
    _, other = draw(generator, seed=2)
    assert (truth != other).any()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_no_column_blows_up(generators, name):
    for seed in range(1, 6):
        tables, _ = draw(getattr(generators, name), seed)
        deviations = np.nanstd(np.concatenate(tables), axis=0)
        assert deviations.max() / deviations.min() < 60


def test_the_numbers_of_the_nodes_do_not_tell_the_order(generators):
    graphs = [generators.random_graph(np.random.default_rng(seed), 10, 15) for seed in range(200)]
    assert np.mean([np.triu(graph).sum() for graph in graphs]) == pytest.approx(7.5, abs=0.7)


def test_linear_models_have_the_weights_that_they_say_and_keep_them_with_more_rows(generators):
    found = []
    for rows in (4_000, 8_000):
        tables, truth = draw(generators.linear_laplace, rows=rows)
        values = np.concatenate(tables)
        weights = [
            np.linalg.lstsq(values[:, truth[:, node] == 1], values[:, node], rcond=None)[0] for node in range(10)
        ]
        found.append(np.concatenate(weights))
    assert np.abs(found[0]).min() > 0.45
    assert np.abs(found[0]).max() < 2.05
    np.testing.assert_allclose(found[0], found[1], atol=0.05)


def _residual_sizes(values, truth, node):
    """The mean size of the residuals of a linear regression where its prediction of their size is low, and high."""
    design = np.column_stack([np.ones(len(values)), values[:, truth[:, node] == 1]])
    sizes = np.abs(values[:, node] - design @ np.linalg.lstsq(design, values[:, node], rcond=None)[0])
    predicted = design @ np.linalg.lstsq(design, sizes, rcond=None)[0]
    return sizes[predicted < np.median(predicted)].mean(), sizes[predicted > np.median(predicted)].mean()


@pytest.mark.parametrize(("name", "least", "most"), [("heteroscedastic", 1.2, 10), ("linear_normal", 0.9, 1.15)])
def test_the_size_of_noise_depends_on_the_causes_if_it_should(generators, name, least, most):
    tables, truth = draw(getattr(generators, name), rows=2_000)
    values = np.concatenate(tables)
    for node in np.flatnonzero(truth.any(axis=0)):
        low, high = _residual_sizes(values, truth, node)
        assert least < high / low < most


def test_a_near_copy_is_one(generators):
    tables, truth = draw(generators.near_copy)
    (copied,) = np.flatnonzero(truth[:, -1])
    correlations = np.corrcoef(np.concatenate(tables), rowvar=False)
    assert correlations[copied, -1] == pytest.approx(0.999, abs=2e-4)


def test_a_tenth_of_the_cells_is_missing_from_what_is_complete_otherwise(generators):
    with_gaps, complete = (
        np.concatenate(draw(each)[0]) for each in (generators.missing_at_random, generators.without_gaps)
    )
    gaps = np.isnan(with_gaps)
    assert gaps.mean() == pytest.approx(0.1, abs=0.01)
    np.testing.assert_array_equal(with_gaps[~gaps], complete[~gaps])


def test_a_hundredth_of_the_cells_is_far_out(generators):
    values = np.concatenate(draw(generators.far_out)[0])
    assert (np.abs(generators.in_units_of_bulk(values)) > 4).mean() == pytest.approx(0.01, abs=0.003)


def test_tables_are_sampled_with_their_probabilities(generators):
    cause, effect = np.array([0.2, 0.8]), np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
    tables = {0: (np.array([], dtype=int), cause), 1: (np.array([0]), effect)}
    values = generators.sample_tables(np.random.default_rng(1), tables, [0, 1], 100_000)
    shares = np.histogram2d(*values.T, bins=(2, 3))[0] / len(values)
    np.testing.assert_allclose(shares, cause[:, None] * effect, atol=0.005)


TRUTH = CausalGraph([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]], ["a", "b", "c", "d"])
"""a -> b -> c <- d: the data of a class tell all but the direction of a -> b."""


def evidence(*edges):
    return pd.DataFrame(edges, columns=["cause", "effect", "present", "directed"])


def group(other_data, *, class_only):
    return other_data.Group("", "simulated", lambda *_: ([], TRUTH), class_only=class_only)


def test_what_is_sure_and_wrong_is_counted(other_data):
    found = evidence(
        ("a", "b", True, True),  # right
        ("c", "b", True, True),  # the edge is right, the direction is not
        ("a", "d", True, True),  # no such edge
        ("c", "d", True, False),  # the direction is wrong, but open
        ("a", "c", False, False),  # no such edge, and not sure
    )
    sure = other_data.certainty(group(other_data, class_only=False), found, TRUTH, warned=False)
    assert (sure.edges, sure.edges_wrong, sure.directions, sure.directions_wrong) == (4, 1, 3, 2)
    assert sure.within_class == 0


def test_a_sure_direction_that_data_cannot_tell_is_counted(other_data):
    found = evidence(("a", "b", True, True), ("b", "c", True, True))
    sure = other_data.certainty(group(other_data, class_only=True), found, TRUTH, warned=True)
    assert (sure.directions, sure.directions_wrong, sure.within_class) == (2, 0, 1)


def test_classes_are_compared_where_data_tell_no_more(other_data):
    turned = CausalGraph([[0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]], TRUTH.names)
    by_class = other_data.errors(group(other_data, class_only=True), turned, TRUTH.to_cpdag(), TRUTH)
    assert (by_class.shd, by_class.reported_lenient, by_class.reported_strict) == (0, 0, 0)
    by_graph = other_data.errors(group(other_data, class_only=False), turned, TRUTH.to_cpdag(), TRUTH)
    assert (by_graph.shd, by_graph.reported_lenient, by_graph.reported_strict) == (1, 0, 1)


def test_tables_have_a_line_for_each_kind_of_data_and_say_what_is_refused(other_data):
    errors = other_data.Errors(2, 1, 3)
    sure = other_data.Certainty(10, 1, 4, 2, 0, warned=True)
    results = [
        other_data.Run("lsnm", 400, "graph", 1, 1.5, errors, sure),
        other_data.Run("lsnm", 400, "boss", 1, 0.1, errors),
        other_data.Refusal("lsnm", 400, "all", 1, "Too few rows."),
    ]
    shown, certain = other_data.tables(results, ["graph", "all", "boss"], ["graph", "all"])
    assert "| location-scale | 400 | 2.0 (1.5 s) | refused | 2.0 / 3.0 (0.1 s) | 1 |" in shown
    assert "| location-scale | 400 | own | 1.0 / 3.0 | 10 | 1 (10%) | 4 | 2 (50%) | 0 | 1 of 1 |" in certain


def test_pairs_are_judged_by_their_weights(other_data, monkeypatch):
    pairs = other_data.Group("pairs", "public", lambda *_: ([], TRUTH), weights={1: 3.0, 2: 1.0})
    monkeypatch.setitem(other_data.GROUPS, "pairs", pairs)
    sure, unsure = (other_data.Certainty(1, 0, directions, 0, 0, warned=False) for directions in (1, 0))
    right, wrong = other_data.Errors(0, 0, 0), other_data.Errors(1, 0, 1)
    runs = [
        other_data.Run("pairs", 100, "graph", 1, 0.1, right, sure),
        other_data.Run("pairs", 100, "graph", 2, 0.1, wrong, unsure),
    ]
    assert "| pairs | search, own mechanisms | 2 | 0.750 | 1 | 1 |" in other_data.pair_table(runs)


def test_a_pair_gets_a_direction_even_if_the_search_finds_no_edge(other_data):
    rng = np.random.default_rng(1)
    cause = rng.uniform(-2, 2, 300)
    table = pd.DataFrame({"x": np.tanh(2 * cause) + 0.1 * rng.standard_normal(300), "y": cause})
    silos = other_data.read_silos([table])
    learner = other_data.EvidenceSearch().fit(silos)
    learner.dag_ = CausalGraph(np.zeros((2, 2)), ["x", "y"])
    (edge,) = other_data.forced_direction(learner, silos).edges
    assert edge == ("y", "x")
