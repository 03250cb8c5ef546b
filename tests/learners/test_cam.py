from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from feddag.graphs import is_dag
from feddag.learners.cam import CAM, Products, _curvature, _spline, greedy_dag, possible_parents


def chain(rows=800, seed=0):
    """a → b → d ← c, by functions that no line follows."""
    draw = np.random.default_rng(seed)
    a, c = draw.normal(size=(2, rows))
    b = np.sin(2 * a) + 0.4 * draw.normal(size=rows)
    d = b**2 + np.abs(c) + 0.4 * draw.normal(size=rows)
    return np.column_stack([d, b, c, a])


CHAIN = chain()
TRUE = np.zeros((4, 4), dtype=np.int8)
TRUE[[3, 1, 2], [1, 0, 0]] = 1


@pytest.mark.parametrize("scales", [[1, 1, 1, 1], [1e3, 1, 1e-3, 1]])
def test_an_additive_chain_is_found_whatever_the_units(scales):
    learned = CAM().fit([CHAIN * scales])
    np.testing.assert_array_equal(learned.adjacency_, TRUE)
    assert (learned.graph_.scores[TRUE == 1] > 0.1).all()
    assert not learned.graph_.scores[TRUE == 0].any()


def test_the_products_give_the_regression_that_rows_would():
    products = Products.of(CHAIN, 10)
    values = (CHAIN - CHAIN.mean(axis=0)) / CHAIN.std(axis=0)
    design = np.column_stack([_spline(values[:, i], 10)(values[:, i]) for i in (1, 2)])
    fitted = design @ np.linalg.lstsq(design, values[:, 0])[0]
    unpenalised = np.mean((values[:, 0] - fitted) ** 2)
    assert unpenalised <= products.variance(0, np.array([1, 2])) <= 1.02 * unpenalised
    assert products.variance(0, np.array([], dtype=int)) == 1


def test_the_penalty_is_the_integrated_squared_curvature():
    spline = _spline(CHAIN[:, 0], 6)
    coefficients = np.random.default_rng(1).normal(size=6)
    second = spline.derivative(2)
    knots = np.unique(spline.t)
    direct = sum(quad(lambda x: (second(x) @ coefficients) ** 2, *ends)[0] for ends in pairwise(knots))
    assert coefficients @ _curvature(spline) @ coefficients == pytest.approx(direct, rel=1e-6)


def test_the_tests_keep_their_level():
    """Of terms without effect about one in twenty has a p-value below 0.05; the test may be more careful than that."""
    p_values = []
    for seed in range(100):
        draw = np.random.default_rng(seed)
        values = draw.normal(size=(200, 4))
        values[:, 0] += np.sin(2 * values[:, 1])
        found = Products.of(values, 8).p_values(0, np.array([1, 2, 3]))
        assert found[0] < 1e-3
        p_values += list(found[1:])
    assert np.mean(np.array(p_values) < 0.05) < 0.1


def test_only_what_explains_a_variable_may_be_its_parent():
    allowed = possible_parents(Products.of(CHAIN, 10), 10)
    assert allowed[TRUE == 1].all()
    assert not allowed.diagonal().any()
    assert (possible_parents(Products.of(CHAIN, 10), 1).sum(axis=0) == 1).all()


def test_the_greedy_search_adds_all_that_it_may_and_closes_no_cycle():
    allowed = ~np.eye(4, dtype=bool)
    edges = greedy_dag(Products.of(CHAIN, 10), allowed)
    assert is_dag(edges)
    assert edges.sum() == 6


def test_few_rows_and_few_distinct_values_are_coped_with():
    draw = np.random.default_rng(0)
    values = np.column_stack([draw.integers(0, 2, 14), draw.integers(0, 3, 14), draw.normal(size=(14, 6))])
    assert CAM().fit([values.astype(float)]).graph_.is_dag
