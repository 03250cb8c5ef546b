"""NOTEARS-MLP: the norms of first-layer weights are the graph."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from feddag.models import NOTEARSMLP, Model

NODES, ROWS = 4, 30
model = NOTEARSMLP(units=3)
rng = np.random.default_rng(0)
values = rng.normal(size=(ROWS, NODES))
params = jax.tree.map(jnp.asarray, model.init(rng, NODES))
key = jax.random.key(0)


def by_hand(params, values):
    """Each variable's network in turn, from the rows of its inputs."""
    outputs = np.zeros_like(values)
    mechanism = jax.tree.map(np.asarray, params["mechanism"])
    for j in range(values.shape[1]):
        inputs = values.copy()
        inputs[:, j] = 0
        hidden = inputs @ np.asarray(params["graph"])[j].T + mechanism["hidden_bias"][j, :, 0]
        outputs[:, j] = 1 / (1 + np.exp(-hidden)) @ mechanism["weights"][j] + mechanism["bias"][j]
    return outputs


def test_it_is_a_model():
    assert isinstance(model, Model)
    assert not model.separable


def test_the_fit_is_half_the_squared_error_and_half_the_squared_weights():
    fit = model.fit(params, model.adjacency(params, key), model.prepare(values))
    squares = np.sum(np.asarray(params["graph"]) ** 2) + np.sum(np.asarray(params["mechanism"]["weights"]) ** 2)
    expected = 0.5 * np.sum((values - by_hand(params, values)) ** 2) / ROWS + 0.5 * 0.01 * squares
    assert float(fit) == pytest.approx(expected, rel=1e-5)


def test_an_edge_is_as_strong_as_the_norm_of_the_weights_behind_it():
    scores = model.edge_scores(np.asarray(params["graph"]))
    assert scores[1, 2] == pytest.approx(np.linalg.norm(np.asarray(params["graph"])[2, :, 1]))
    assert not scores.diagonal().any()
    np.testing.assert_allclose(model.adjacency(params, key), scores, atol=1e-5)


def test_sparsity_is_that_of_the_single_weights():
    found = model.sparsity(params, model.adjacency(params, key))
    assert float(found) == pytest.approx(np.abs(np.asarray(params["graph"])).sum(), rel=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_gradients_are_those_of_central_differences_and_finite_at_zero(scale):
    graph = scale * params["graph"]
    assert np.isfinite(jax.grad(lambda W: model.adjacency({**params, "graph": W}, key).sum())(graph)).all()
    with jax.enable_x64(True):
        exact, data = jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), ({**params, "graph": graph}, model.prepare(values))
        )
        check_grads(
            jax.jit(lambda p: model.fit(p, model.adjacency(p, key), data)), (exact,), order=1, modes=["rev"], rtol=1e-5
        )


def test_predictions_use_the_parents_alone():
    adjacency = np.zeros((NODES, NODES), np.float32)
    adjacency[0, 1] = 1
    before = np.asarray(model.predict(params, jnp.asarray(adjacency), jnp.asarray(values, jnp.float32)))
    changed = values + np.array([0, 5, 5, 5])
    after = np.asarray(model.predict(params, jnp.asarray(adjacency), jnp.asarray(changed, jnp.float32)))
    np.testing.assert_allclose(before, after, atol=1e-6)
    assert np.ptp(before[:, 1]) > 0
