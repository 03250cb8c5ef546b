"""A site's part: Adam on its own rows, and nothing but what is shared given back."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.test_util import check_grads

from feddag.errors import FeddagError
from feddag.federation import Site, Task
from feddag.learners.feddag.local_solver import (
    SERVER,
    SOLVE,
    LocalSolver,
    Objective,
    initial_parameters,
    shared_part,
    site_key,
    take_over,
)
from feddag.models import ACYCLICITY, Linear, MaskedMLP
from feddag.models.pytrees import flatten
from feddag.silos import Silo

NODES, ROWS = 3, 24
MLP = MaskedMLP(layers=1, units=4)
OBJECTIVE = Objective(MLP, "trace-exponential", 0.01, 0.03)
STEPS = 5
BOTH = [(MLP, "trace-exponential"), (Linear(), "log-det")]
silo = Silo("a", ("x", "y", "z"), np.random.default_rng(0).normal(size=(ROWS, NODES)))


def solver(position: int = 0, *, objective=OBJECTIVE, sharing="graph", weighting="equal", seed=1) -> LocalSolver:
    return LocalSolver(silo, position, objective, sharing=sharing, weighting=weighting, seed=seed)


def task(arrays, *, round_=0) -> Task:
    numbers = {"steps": STEPS, "alpha": 0.3, "rho": 0.7, "h": 1.0}
    return Task(SOLVE.name, round_, numbers, arrays, (0,))


def assert_equal(one, other) -> None:
    one, other = flatten(one), flatten(other)
    assert list(one) == list(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


class TestObjective:
    @pytest.mark.parametrize(("model", "acyclicity"), BOTH, ids=["mlp", "linear"])
    def test_it_is_fit_plus_sparsity_plus_lagrangian(self, model, acyclicity):
        params = jax.device_put(model.init(np.random.default_rng(0), NODES))
        U = np.random.default_rng(1).normal(loc=3.0, scale=0.5, size=(NODES, NODES))  # with cycles
        params["graph"] = jnp.asarray(U, jnp.float32)
        key, data = jax.random.key(5), jax.device_put(model.prepare(silo.values))
        adjacency = model.adjacency(params, key)
        fit = float(model.fit(params, adjacency, data))
        h = float(ACYCLICITY[acyclicity](adjacency**2))
        assert h > 0.01
        sparsity = 0.2 * np.abs(np.asarray(adjacency)).sum()
        loss, reported = Objective(model, acyclicity, 0.2, 0.03)(params, data, jnp.float32(3.0), jnp.float32(5.0), key)
        assert float(loss) == pytest.approx(fit + sparsity + 3 * h + 5 / 2 * h**2, rel=1e-5)
        assert float(reported) == pytest.approx(fit, rel=1e-6)

    @pytest.mark.parametrize(("model", "acyclicity"), BOTH, ids=["mlp", "linear"])
    def test_its_gradient_is_that_of_central_differences(self, model, acyclicity):
        objective = Objective(model, acyclicity, 0.2, 0.03)
        draw = np.random.default_rng(2)
        with jax.enable_x64(True):
            as_double = lambda tree: jax.tree.map(  # noqa: E731
                lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), tree
            )
            params = as_double(model.init(np.random.default_rng(0), NODES))
            params["graph"] = jnp.asarray(draw.normal(scale=0.3, size=(NODES, NODES)))
            data = as_double(model.prepare(silo.values))

            def loss(params):
                return objective(params, data, jnp.float64(0.3), jnp.float64(0.7), jax.random.key(5))[0]

            check_grads(jax.jit(loss), (params,), order=1, modes=["rev"], rtol=1e-4)

    def test_a_square_that_overflows_is_no_harm_where_rho_is_small(self):
        """With many nodes h starts far above 1e19, whose square single precision does not hold."""
        U = jnp.full((60, 60), 50.0)
        h = math.exp(59) + 59 * math.exp(-1) - 60  # of the full mask

        class Mask(MaskedMLP):
            def fit(self, params, adjacency, data):
                return jnp.float32(0)

        loss, _ = jax.jit(Objective(Mask(), "trace-exponential", 0.0, 0.03))(
            {"graph": U, "mechanism": {}}, None, jnp.float32(0), jnp.float32(1e-20), jax.random.key(0)
        )
        assert float(loss) == pytest.approx(0.5e-20 * h * h, rel=1e-3)


gradient_of = jax.jit(jax.value_and_grad(OBJECTIVE, has_aux=True))


def two_rounds_by_hand(*rounds):
    """Plain optax: keys from (seed, position), then the round, then the step; Adam is never reset."""
    optimiser = optax.adam(0.03)
    key, data = site_key(1, 0), MLP.prepare(silo.values)
    params = jax.device_put(initial_parameters(MLP, NODES, seed=1, position=0))
    state = optimiser.init(params)
    seen = []
    for round_, shared in enumerate(rounds):
        params = {**params, "graph": jnp.asarray(shared["graph"])}
        for k in range(STEPS):
            step_key = jax.random.fold_in(jax.random.fold_in(key, round_), k)
            (loss, fit), gradient = gradient_of(params, data, jnp.float32(0.3), jnp.float32(0.7), step_key)
            updates, state = optimiser.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        seen.append((params, float(loss), float(fit)))
    return seen


def test_it_is_a_site():
    assert isinstance(solver(), Site)


def test_two_rounds_are_adam_by_hand_whose_state_survives_the_averaging():
    start = {"graph": np.full((NODES, NODES), 0.1, np.float32)}
    average = {"graph": np.linspace(-1, 1, NODES * NODES, dtype=np.float32).reshape(NODES, NODES)}
    site = solver()
    rounds = start, average
    by_hand = two_rounds_by_hand(*rounds)
    for round_, (shared, (expected, loss, fit)) in enumerate(zip(rounds, by_hand, strict=True)):
        answer = site.answer(task(shared, round_=round_))
        np.testing.assert_allclose(answer.arrays["graph"], expected["graph"], rtol=1e-4, atol=1e-6)
        for name, array in flatten(site.params).items():
            np.testing.assert_allclose(array, flatten(expected)[name], rtol=1e-4, atol=1e-6, err_msg=name)
        assert site.loss == pytest.approx(loss, rel=1e-4)  # of the last step
        assert site.fit == pytest.approx(fit, rel=1e-4)


@pytest.mark.parametrize(("sharing", "leaves"), [("graph", {"graph"}), ("all", None)])
def test_what_leaves_the_site_is_the_graph_or_all_parameters(sharing, leaves):
    site = solver(sharing=sharing)
    answer = site.answer(task(shared_part(site.params, sharing)))
    assert set(answer.arrays) == (leaves or set(flatten(site.params)))
    assert_equal(dict(answer.arrays), {name: flatten(site.params)[name] for name in answer.arrays})


def test_what_is_shared_replaces_the_sites_own_and_the_rest_stays():
    params = MLP.init(np.random.default_rng(0), NODES)
    shared = {"graph": np.ones((NODES, NODES), np.float32)}
    taken = take_over(params, shared)
    np.testing.assert_array_equal(taken["graph"], shared["graph"])
    assert_equal(taken["mechanism"], params["mechanism"])


@pytest.mark.parametrize(("weighting", "weight"), [("equal", 1.0), ("rows", float(ROWS))])
def test_a_site_weighs_one_or_its_rows(weighting, weight):
    site = solver(weighting=weighting)
    assert site.answer(task(shared_part(site.params, "graph"))).weight == weight


def test_an_answer_stays_as_it_was_given():
    """The next round computes in place; what was sent must not move with it."""
    site = solver()
    answer = site.answer(task(shared_part(site.params, "graph")))
    sent = answer.arrays["graph"].copy()
    site.answer(task(answer.arrays, round_=1))
    np.testing.assert_array_equal(answer.arrays["graph"], sent)


def test_a_restored_site_goes_on_to_the_bit():
    site, shared = solver(), {"graph": np.zeros((NODES, NODES), np.float32)}
    first = site.answer(task(shared))
    state = {name: array.copy() for name, array in site.snapshot().items()}
    expected = site.answer(task(first.arrays, round_=1))
    another = solver(seed=1)
    another.restore(state)
    assert_equal(dict(another.answer(task(first.arrays, round_=1)).arrays), dict(expected.arrays))
    assert_equal(another.snapshot(), site.snapshot())


def test_randomness_depends_on_seed_position_and_round():
    shared = {"graph": np.zeros((NODES, NODES), np.float32)}

    def answered(position=0, seed=1, round_=0):
        return solver(position, seed=seed).answer(task(shared, round_=round_)).arrays["graph"]

    np.testing.assert_array_equal(answered(), answered())
    for other in (answered(position=1), answered(seed=2), answered(round_=1)):
        assert not np.array_equal(answered(), other)


def test_server_and_sites_draw_and_start_differently():
    keys = [jax.random.key_data(site_key(1, position)).tolist() for position in (SERVER, 0, 1)]
    starts = [initial_parameters(MLP, NODES, 1, position)["mechanism"]["weights"][0] for position in (SERVER, 0, 1)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert keys[one] != keys[other]
        assert not np.array_equal(starts[one], starts[other])


def test_an_unknown_task_is_refused():
    with pytest.raises(FeddagError, match=r"Site 'a' knows the tasks feddag\.solve, not 'vote'"):
        solver().answer(Task("vote", 0, {}, {}, (0,)))
