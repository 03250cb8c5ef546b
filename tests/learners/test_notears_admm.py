from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from feddag import compare, make_learner, simulate
from feddag.federation import InProcess, Task
from feddag.learners.admm import FIT, _lagrangian
from feddag.learners.notears import acyclicity
from feddag.learners.notears_admm import NOTEARSADMM, _Equations

SIMULATION = simulate(4, mechanism="linear", sites=3, rows=[200, 80, 150], edge_probability="exact", seed=5)


def test_it_reaches_the_graph_of_notears():
    found, pooled = (make_learner(name).fit(SIMULATION) for name in ("notears-admm", "notears"))
    np.testing.assert_array_equal(found.adjacency_, pooled.adjacency_)
    assert compare(found.graph_, SIMULATION.truth).shd == 0


def test_sites_agree_in_the_end_on_a_dag():
    sites = [_Equations(silo.name, silo.values) for silo in SIMULATION.silos]
    with InProcess(sites, 1) as federation:
        W = NOTEARSADMM().solve(federation, 4)["W"]
    for site in sites:
        np.testing.assert_allclose(site.own, W.ravel(), atol=1e-6)
    assert acyclicity(W)[0] < 1e-7


def test_a_site_minimises_its_own_lagrangian():
    draw = np.random.default_rng(3)
    rows, rho, total = draw.normal(size=(50, 3)), 0.4, 120
    rows = rows - rows.mean(axis=0)
    first, W = draw.normal(size=(2, 3, 3))
    site = _Equations("s", rows)
    site.answer(Task(FIT.name, 1, {"rows": total, "rho": 0.2}, {"W": first}, (0,)))
    multipliers = 0.2 * (site.own.reshape(3, 3) - W)
    answer = site.answer(Task(FIT.name, 2, {"rows": total, "rho": rho}, {"W": W}, (0,)))

    def lagrangian(flat):
        own = flat.reshape(3, 3)
        error = np.sum((rows - rows @ own) ** 2) / (2 * total)
        return error + np.sum(multipliers * (own - W)) + rho / 2 * np.sum((own - W) ** 2)

    best = minimize(lagrangian, np.zeros(9), tol=1e-10).x
    np.testing.assert_allclose(site.own, best, atol=1e-4)
    np.testing.assert_allclose(answer.arrays["W"], site.own.reshape(3, 3) + multipliers / rho, atol=1e-12)


def test_a_restored_site_answers_as_the_first_would():
    tasks = [Task(FIT.name, k, {"rows": 430, "rho": 0.1 * k}, {"W": np.full((4, 4), 0.1 * k)}, (0,)) for k in (1, 2, 3)]
    site, again = (_Equations("s", SIMULATION.silos[0].values) for _ in range(2))
    again.restore(site.snapshot())
    site.answer(tasks[0])
    site.answer(tasks[1])
    again.restore(site.snapshot())
    np.testing.assert_array_equal(again.answer(tasks[2]).arrays["W"], site.answer(tasks[2]).arrays["W"])


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_the_gradient_is_that_of_the_servers_lagrangian(shape):
    draw = np.random.default_rng(2)
    halves, arguments = draw.uniform(0, 0.4, 2 * np.prod(shape)), (draw.normal(size=shape), 0.7, 0.1, 0.3, 2.0)
    error = check_grad(lambda w: _lagrangian(w, *arguments)[0], lambda w: _lagrangian(w, *arguments)[1], halves)
    assert error < 1e-5


def test_what_leaves_a_site_does_not_grow_with_its_rows():
    learned = NOTEARSADMM(it_max=5).fit(SIMULATION)
    assert set(learned.communication_.sent.values()) == {8 * (1 + 5 * 16)}
    history = learned.history_.to_frame()
    assert list(history.columns) == ["round", "rho", "h", "bytes_sent", "bytes_received", "edges"]
    sites = len(SIMULATION.silos)
    assert history["bytes_sent"].tolist()[:5] == [8 * sites * (1 + round_ * 16) for round_ in range(1, 6)]


@pytest.mark.parametrize("scale", [1e3, 1e-3])
def test_scales_that_it_cannot_cope_with_still_give_a_dag(scale):
    learned = NOTEARSADMM().fit({silo.name: silo.values * [scale, 1, 1, 1] for silo in SIMULATION.silos})
    assert learned.graph_.is_dag
