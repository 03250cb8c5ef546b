"""FedDAG with experiments: a variable's loss counts in the rows in which nobody set it, and nowhere else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddag
from feddag.errors import FeddagError
from feddag.federation import Task
from feddag.learners.feddag.local_solver import SOLVE, LocalSolver, Objective
from feddag.models import DAGGNN, NOTEARSMLP, Linear, MaskedMLP
from feddag.silos import Silo

NODES, ROWS = 3, 40
VALUES = np.random.default_rng(0).normal(size=(ROWS, NODES))
NAMES = ("x0", "x1", "x2")
TARGETS = np.zeros((ROWS, NODES), dtype=bool)
TARGETS[:15, 1] = True
TARGETS[:, 2] = True
MODELS = [MaskedMLP(layers=1, units=4), NOTEARSMLP(units=4, l2=0.0), DAGGNN(units=4), Linear()]
"""Without a term beside the loss."""


def _params(model):
    params = jax.device_put(model.init(np.random.default_rng(1), NODES))
    if isinstance(model, Linear):
        params["graph"] = jnp.asarray(np.random.default_rng(2).normal(size=(NODES, NODES)), jnp.float32)
    return params, model.adjacency(params, jax.random.key(1))


def _loss_of(model, child, rows):
    """Return the loss of one child by some rows: of all, less that with the child's rows left out."""
    params, adjacency = _params(model)
    only = np.zeros((len(rows), NODES), dtype=bool)
    only[:, child] = True
    return float(model.fit(params, adjacency, model.prepare(VALUES[rows], only))) * len(rows) / ROWS


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_the_loss_is_that_of_the_rows_in_which_nobody_set_the_child(model):
    params, adjacency = _params(model)
    found = float(model.fit(params, adjacency, model.prepare(VALUES, ~TARGETS)))
    every = np.arange(ROWS)
    assert found == pytest.approx(_loss_of(model, 0, every) + _loss_of(model, 1, every[15:]), rel=1e-4)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_without_targets_the_loss_is_that_of_any_table(model):
    params, adjacency = _params(model)
    nothing_set = model.prepare(VALUES, np.ones((ROWS, NODES), dtype=bool))
    usual = model.fit(params, adjacency, model.prepare(VALUES))
    np.testing.assert_allclose(model.fit(params, adjacency, nothing_set), usual, rtol=1e-5)


@pytest.mark.parametrize("model", [MaskedMLP(layers=1, units=4), NOTEARSMLP(units=4), Linear()], ids=repr)
def test_a_site_says_nothing_about_the_causes_of_a_variable_that_was_always_set(model):
    objective = Objective(model, "trace-exponential", 0.01, 0.03)
    solver = LocalSolver(
        Silo("a", NAMES, VALUES, targets=TARGETS), 0, objective, sharing="all", weighting="equal", seed=1
    )
    graph = np.array(model.init(np.random.default_rng(3), NODES)["graph"]) + 0.1
    answer = solver.answer(
        Task(SOLVE.name, 0, {"steps": 5, "alpha": 0.3, "rho": 0.7, "h": 1.0}, {"graph": graph}, (0,))
    )
    of_child = (slice(None), 2) if graph.ndim == 2 else 2
    others = (slice(None), [0, 1]) if graph.ndim == 2 else [0, 1]
    np.testing.assert_array_equal(answer.arrays["graph"][of_child], graph[of_child].astype(np.float32))
    assert (answer.arrays["graph"][others] != graph[others].astype(np.float32)).any()
    np.testing.assert_array_equal(answer.arrays["scored"], [1, 1, 0])


def test_experiments_that_are_declared_mislead_less():
    simulation = feddag.simulate(6, mechanism="linear", sites=4, rows=200, interventions=2, seed=1)
    tables = {silo.name: silo.to_frame() for silo in simulation.silos}
    declared, blind = (
        feddag.FedDAG("all", "linear", it_inner=200, patience=2).fit(given) for given in (simulation, tables)
    )
    assert feddag.compare(declared.graph_, simulation.truth).shd == 0
    assert feddag.compare(blind.graph_, simulation.truth).shd > 0


def test_experiments_that_leave_nothing_to_learn_from_are_refused():
    tables = {site: VALUES + number for number, site in enumerate("ab")}
    learner = feddag.FedDAG("none", "linear", it_inner=10)
    with pytest.raises(FeddagError, match=r"experiments set it in all rows at site 'b'"):
        learner.fit(tables, interventions={"b": ["x1"]})
    with pytest.raises(FeddagError, match=r"FedDAG takes no experiments"):
        feddag.FedDAG("all", "admg").fit(tables, interventions={"b": ["x1"]})
