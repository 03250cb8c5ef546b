from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import check_grad, minimize

from feddag import compare, make_learner, simulate
from feddag.learners.knowledge import Knowledge
from feddag.learners.notears import NOTEARS, _lagrangian

SIMULATION = simulate(4, mechanism="linear", sites=2, rows=200, edge_probability="exact", seed=5)
ROWS = np.concatenate([silo.values for silo in SIMULATION.silos])
ROWS = ROWS - ROWS.mean(axis=0)
COVARIANCE = ROWS.T @ ROWS / len(ROWS)
NOTHING_KNOWN = Knowledge.of("abcd", (), (), ())


def objective(W, l1=0.1):
    """As the paper states it, from the rows."""
    return np.sum((ROWS - ROWS @ W) ** 2) / (2 * len(ROWS)) + l1 * np.abs(W).sum()


def reference(start, l1=0.1):
    """The constrained problem itself, by a solver that has nothing in common with ours; the diagonal is left out."""
    nodes = ROWS.shape[1]
    off = ~np.eye(nodes, dtype=bool)

    def joined(halves):
        W = np.zeros((nodes, nodes))
        W[off] = halves[: off.sum()] - halves[off.sum() :]
        return W

    def h(halves):
        return np.trace(expm(joined(halves) ** 2)) - nodes

    def h_gradient(halves):
        W = joined(halves)
        gradient = (2 * expm(W * W).T * W)[off]
        return np.concatenate([gradient, -gradient])

    def value(halves):
        W = joined(halves)
        gradient = (-ROWS.T @ (ROWS - ROWS @ W) / len(ROWS))[off]
        return objective(W, 0) + l1 * halves.sum(), np.concatenate([gradient + l1, l1 - gradient])

    found = minimize(
        value,
        start(2 * off.sum()),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * (2 * off.sum()),
        constraints={"type": "ineq", "fun": lambda w: 1e-8 - h(w), "jac": lambda w: -h_gradient(w)},
        options={"maxiter": 2000, "ftol": 1e-10},
    )
    return joined(found.x), h(found.x)


def test_its_objective_is_as_good_as_that_of_a_general_solver():
    learner = NOTEARS()
    W = learner.solve(COVARIANCE, NOTHING_KNOWN)
    assert np.trace(expm(W * W)) - len(W) <= learner.h_tol
    assert not W.diagonal().any()

    draw = np.random.default_rng(1)
    found = [reference(lambda size: draw.uniform(0, 0.5, size)) for _ in range(8)]
    feasible = [objective(each) for each, h in found if h <= 1e-7]
    assert len(feasible) >= 4
    assert objective(W) <= 1.01 * min(feasible)


@pytest.mark.parametrize("required", [(), [("a", "c"), ("d", "b")]])
def test_the_gradient_is_that_of_the_lagrangian(required):
    halves = np.random.default_rng(2).uniform(0, 0.4, 32)
    arguments = (COVARIANCE, 0.1, 0.3, 2.0, Knowledge.of("abcd", required, (), ()).certain)
    error = check_grad(lambda w: _lagrangian(w, *arguments)[0], lambda w: _lagrangian(w, *arguments)[1], halves)
    assert error < 1e-5


def test_sites_find_together_what_their_pooled_rows_would_give():
    federated, pooled = (make_learner("notears", regime).fit(SIMULATION) for regime in ("federated", "all"))
    np.testing.assert_array_equal(federated.adjacency_, pooled.adjacency_)
    np.testing.assert_allclose(federated.edge_scores_, pooled.edge_scores_, atol=1e-3)
    assert compare(federated.graph_, SIMULATION.truth).shd == 0
    assert federated.communication_.sent["site-01"] == 8 * (1 + 4 + 16)
    assert pooled.communication_.sent["site-01"] == 8 * 4 * 200


@pytest.mark.parametrize("scale", [1e3, 1e-3])
def test_scales_that_it_cannot_cope_with_still_give_a_dag(scale):
    learned = NOTEARS().fit({silo.name: silo.values * [scale, 1, 1, 1] for silo in SIMULATION.silos})
    assert learned.graph_.is_dag


def test_the_history_tells_of_every_sub_problem():
    history = NOTEARS().fit(SIMULATION).history_.to_frame()
    assert set(history.columns) == {"sub_problem", "rho", "h", "edges", "bytes_sent", "bytes_received"}
    assert history["h"].dropna().iloc[-1] <= 1e-8
    assert history["edges"].iloc[-1] == len(SIMULATION.truth.edges)
