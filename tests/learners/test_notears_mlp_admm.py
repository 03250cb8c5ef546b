from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit

from feddag import compare, make_learner, simulate
from feddag.federation import InProcess, Task
from feddag.learners.admm import FIT
from feddag.learners.notears import acyclicity
from feddag.learners.notears_mlp_admm import NOTEARSMLPADMM, _Networks
from feddag.models import NOTEARSMLP

SIMULATION = simulate(4, mechanism="mim", sites=3, rows=[200, 80, 150], edge_probability="exact", seed=1)
LEARNER = NOTEARSMLPADMM(hidden_units=4, seed=1)


@pytest.fixture(scope="module")
def solved():
    """The sites as they are in the end, and the common parameters."""
    sites = [LEARNER.site(silo, k) for k, silo in enumerate(SIMULATION.silos)]
    with InProcess(sites, 2) as federation:
        return sites, LEARNER.solve(federation, 4)


def test_sites_agree_in_the_end_on_a_dag(solved):
    sites, common = solved
    flat = np.concatenate([common[name].ravel() for name in sorted(common)])
    for site in sites:
        np.testing.assert_allclose(site.own, flat, atol=1e-6)
    assert acyclicity(common["W"])[0] < 1e-7
    assert not np.diagonal(common["W"], axis1=1, axis2=2).any()


def test_together_they_find_the_graph_that_generated_their_rows(solved):
    learned = LEARNER.fit(SIMULATION)
    assert compare(learned.graph_, SIMULATION.truth).shd == 0
    np.testing.assert_allclose(learned.edge_scores_, np.linalg.norm(solved[1]["W"], axis=0))


def by_hand(flat, values, units):
    """The loss per row of each variable's network in turn, by the rows of its inputs."""
    nodes = values.shape[1]
    W, bias, hidden_bias, weights = np.split(flat, np.cumsum([units * nodes**2, nodes, nodes * units]))
    W, hidden_bias, weights = W.reshape(units, nodes, nodes), hidden_bias.reshape(nodes, -1), weights.reshape(nodes, -1)
    loss = 0.0
    for j in range(nodes):
        others = [i for i in range(nodes) if i != j]
        hidden = expit(values[:, others] @ W[:, others, j].T + hidden_bias[j])
        loss += np.mean((values[:, j] - hidden @ weights[j] - bias[j]) ** 2) / 2
        loss += 0.01 / 2 * (np.sum(W[:, others, j] ** 2) + np.sum(weights[j] ** 2))
    return loss


def test_a_site_minimises_its_own_lagrangian():
    draw = np.random.default_rng(3)
    silo, units, rho, total = SIMULATION.silos[1], 2, 0.05, 430
    site = _Networks(silo, NOTEARSMLP(units))
    start = NOTEARSMLPADMM(hidden_units=units).initial_arrays(4)
    site.answer(Task(FIT.name, 1, {"rows": total, "rho": 0.02}, start, (0,)))
    common = {name: array + 0.1 * draw.normal(size=array.shape) for name, array in start.items()}
    flat = np.concatenate([common[name].ravel() for name in sorted(common)])
    multipliers = 0.02 * (site.own - flat)
    answer = site.answer(Task(FIT.name, 2, {"rows": total, "rho": rho}, common, (0,)))

    def lagrangian(own):
        loss = silo.rows / total * by_hand(own, silo.values, units)
        return loss + multipliers @ (own - flat) + rho / 2 * np.sum((own - flat) ** 2)

    np.testing.assert_allclose(approx_fprime(site.own, lagrangian, 1e-6), 0, atol=1e-4)
    assert lagrangian(site.own) < lagrangian(flat)
    sent = np.concatenate([answer.arrays[name].ravel() for name in sorted(answer.arrays)])
    np.testing.assert_allclose(sent, site.own + multipliers / rho)


def test_the_multipliers_stay_at_the_site(monkeypatch):
    """Parameters leave it in one sum with the multipliers, from which neither can be told."""
    sites = [LEARNER.site(silo, k) for k, silo in enumerate(SIMULATION.silos)]
    answers = []
    for site in sites:
        answer = site.answer
        monkeypatch.setattr(site, "answer", lambda task, answer=answer: answers.append(answer(task)) or answers[-1])
    with InProcess(sites, 1) as federation:
        NOTEARSMLPADMM(hidden_units=4, it_max=3, seed=1).solve(federation, 4)
    for site, last in zip(sites, answers[-3:], strict=True):
        assert set(last.arrays) == {"W", "mechanism/bias", "mechanism/hidden_bias", "mechanism/weights"}
        sent = np.concatenate([last.arrays[name].ravel() for name in sorted(last.arrays)])
        assert np.abs(site.multipliers).max() > 1e-6
        np.testing.assert_allclose(sent - site.own, site.multipliers / site.rho, atol=1e-12)
    assert all(set(first.arrays) == {"rows"} for first in answers[:3])


@pytest.mark.slow
def test_one_site_finds_the_graph_of_notears_mlp():
    alone = SIMULATION.silos[:1]
    found, alike = (make_learner(name, seed=1).fit(alone) for name in ("notears-mlp-admm", "notears-mlp"))
    np.testing.assert_array_equal(found.adjacency_, alike.adjacency_)
    np.testing.assert_array_equal(found.adjacency_, SIMULATION.truth.adjacency)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e3, 1e-3])
def test_scales_that_it_cannot_cope_with_still_give_a_dag(scale):
    scaled = {silo.name: silo.values * [scale, 1, 1, 1] for silo in SIMULATION.silos}
    learned = NOTEARSMLPADMM(hidden_units=2, it_max=5).fit(scaled)
    assert learned.graph_.is_dag
