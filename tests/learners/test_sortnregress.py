from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LassoLarsIC, LinearRegression

from feddag import compare, make_learner, simulate

SIMULATION = simulate(8, mechanism="linear", sites=3, rows=[100, 200, 300], seed=4)
ROWS = np.concatenate([silo.values for silo in SIMULATION.silos])


def variance():
    return ROWS.var(axis=0)


def r2():
    return [
        LinearRegression().fit(np.delete(ROWS, k, 1), ROWS[:, k]).score(np.delete(ROWS, k, 1), ROWS[:, k])
        for k in range(ROWS.shape[1])
    ]


def published(criterion):
    """The authors' procedure, on rows."""
    order = np.argsort(criterion)
    W = np.zeros((len(order), len(order)))
    for k in range(1, len(order)):
        before, node = order[:k], order[k]
        weight = np.abs(LinearRegression().fit(ROWS[:, before], ROWS[:, node]).coef_)
        lasso = LassoLarsIC(criterion="bic").fit(ROWS[:, before] * weight, ROWS[:, node])
        W[before, node] = lasso.coef_ * weight
    return W


@pytest.mark.parametrize(("name", "criterion"), [("var-sortnregress", variance), ("r2-sortnregress", r2)])
@pytest.mark.parametrize("regime", ["federated", "all"])
def test_moments_give_what_the_published_procedure_finds_in_the_rows(name, criterion, regime):
    learned = make_learner(name, regime).fit(SIMULATION)
    expected = np.abs(published(criterion()))
    np.testing.assert_allclose(learned.edge_scores_, expected, atol=1e-9)
    np.testing.assert_array_equal(learned.adjacency_, expected > 0)


def test_variances_give_the_graph_of_these_data_away_and_scaled_columns_do_not():
    assert compare(make_learner("var-sortnregress").fit(SIMULATION).graph_, SIMULATION.truth).shd <= 1
    scale = 1 / ROWS.std(axis=0)
    scaled = {silo.name: silo.values * scale**2 for silo in SIMULATION.silos}
    assert compare(make_learner("var-sortnregress").fit(scaled).graph_, _unnamed(SIMULATION.truth)).shd > 5
    one, other = (make_learner("r2-sortnregress").fit(each) for each in (scaled, SIMULATION))
    np.testing.assert_array_equal(one.adjacency_, other.adjacency_)


def _unnamed(graph):
    return type(graph)(graph.adjacency, make_learner("empty").fit([ROWS]).graph_.names)


@pytest.mark.parametrize("name", ["var-sortnregress", "r2-sortnregress"])
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_one_unit_for_all_columns_changes_no_edge(name, unit):
    learned = make_learner(name).fit(SIMULATION).graph_
    assert make_learner(name).fit([silo.values * unit for silo in SIMULATION.silos]).graph_.edges == learned.edges
