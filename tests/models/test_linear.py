"""The linear model: least squares from second moments alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from feddag.models import Linear, Model

NODES, ROWS = 4, 30
model = Linear()
rng = np.random.default_rng(0)
values = rng.normal(loc=[5.0, -2.0, 0.0, 1.0], scale=[1.0, 2.0, 0.5, 3.0], size=(ROWS, NODES))
weights = rng.normal(size=(NODES, NODES))
params = {"graph": jnp.asarray(weights, jnp.float32), "mechanism": {}}
no_loops = weights * (1 - np.eye(NODES))
key = jax.random.key(0)


def test_it_is_a_model():
    assert isinstance(model, Model)


def test_fit_is_half_the_mean_squared_residual_of_centred_columns():
    centred = values - values.mean(axis=0)
    residual = centred - centred @ no_loops
    fit = model.fit(params, model.adjacency(params, key), model.prepare(values))
    assert float(fit) == pytest.approx(0.5 * (residual**2).sum() / ROWS, rel=1e-5)


def test_least_squares_minimises_the_fit():
    """With node 3 regressed on the others, the gradient vanishes at numpy's solution."""
    centred = values - values.mean(axis=0)
    solution, *_ = np.linalg.lstsq(centred[:, :3], centred[:, 3])
    W = np.zeros((NODES, NODES))
    W[:3, 3] = solution
    data = model.prepare(values)
    gradient = jax.grad(lambda adjacency: model.fit(params, adjacency, data))(jnp.asarray(W, jnp.float32))
    np.testing.assert_allclose(gradient[:3, 3], 0, atol=1e-5)


def test_gradients_of_the_fit_are_those_of_central_differences():
    with jax.enable_x64(True):
        data = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), model.prepare(values))
        adjacency = jnp.asarray(no_loops)

        def fit(adjacency):
            return model.fit(params, adjacency, data)

        check_grads(jax.jit(fit), (adjacency,), order=1, modes=["rev"], rtol=1e-6)


def test_a_shift_of_the_columns_changes_nothing_even_a_large_one():
    shifted = model.prepare(values + 1e6)
    np.testing.assert_allclose(shifted.covariance, model.prepare(values).covariance, rtol=1e-5, atol=1e-6)


def test_no_draw_and_no_loop():
    np.testing.assert_array_equal(model.adjacency(params, key), model.adjacency(params, jax.random.key(1)))
    np.testing.assert_allclose(model.adjacency(params, key), no_loops, rtol=1e-6)


def test_edge_scores_are_the_absolute_weights():
    np.testing.assert_allclose(model.edge_scores(np.asarray(params["graph"])), np.abs(no_loops), rtol=1e-6)


def test_steps_are_in_proportion_to_the_weights_between_the_root_of_h_and_one():
    W = jnp.asarray([[0.0, -0.5], [1e-6, 2.0]], jnp.float32)
    updates = {"graph": jnp.full((2, 2), -0.03, jnp.float32), "mechanism": {}}
    scaled = model.scaled(updates, {"graph": W, "mechanism": {}}, jnp.float32(1e-4))
    np.testing.assert_allclose(scaled["graph"], -0.03 * np.array([[0.01, 0.5], [0.01, 1.0]]), rtol=1e-6)


def test_far_from_acyclic_steps_are_adams_own():
    updates = {"graph": jnp.full((2, 2), -0.03, jnp.float32), "mechanism": {}}
    scaled = model.scaled(updates, {"graph": jnp.zeros((2, 2)), "mechanism": {}}, jnp.float32(4.0))
    np.testing.assert_array_equal(scaled["graph"], updates["graph"])


def test_training_starts_at_no_edge():
    start = model.init(np.random.default_rng(0), NODES)
    assert start["graph"].shape == (NODES, NODES)
    assert not np.asarray(start["graph"]).any()
    assert not jax.tree.leaves(start["mechanism"])


def test_predictions_are_the_parents_weighted_deviations():
    adjacency = np.triu(np.ones((NODES, NODES)), k=1)
    expected = values @ (weights * adjacency)
    predicted = model.predict(params, jnp.asarray(adjacency), jnp.asarray(values, jnp.float32))
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("node", range(NODES))
def test_a_nodes_own_deviation_never_reaches_its_prediction(node):
    adjacency = jnp.asarray(1 - np.eye(NODES), jnp.float32)
    changed = values.copy()
    changed[:, node] += 1
    before = model.predict(params, adjacency, jnp.asarray(values, jnp.float32))
    after = model.predict(params, adjacency, jnp.asarray(changed, jnp.float32))
    np.testing.assert_allclose(before[:, node], after[:, node], rtol=1e-5, atol=1e-5)
    assert not np.allclose(before, after, atol=1e-2)
