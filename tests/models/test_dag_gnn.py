"""DAG-GNN: an autoencoder with the graph between encoder and decoder."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from feddag.models import DAGGNN, Model

NODES, ROWS = 4, 30
model = DAGGNN(units=5)
rng = np.random.default_rng(0)
values = rng.normal(size=(ROWS, NODES))
params = jax.tree.map(jnp.asarray, model.init(rng, NODES))
params["graph"] = jnp.asarray(0.2 * np.triu(rng.normal(size=(NODES, NODES)), 1), jnp.float32)
params["mechanism"]["shift"] = jnp.float32(0.3)
key = jax.random.key(0)


def network(weights, x):
    weights = jax.tree.map(np.asarray, weights)
    hidden = np.maximum(x[..., None] * weights["inward"] + weights["hidden_bias"], 0)
    return hidden @ weights["outward"] + weights["bias"]


def test_it_is_a_model():
    assert isinstance(model, Model)
    assert model.separable


def test_the_fit_is_that_of_encoding_and_decoding_through_the_graph():
    """As the paper states it, with the inverse that our form does without."""
    mechanism = params["mechanism"]
    A = np.sinh(3 * np.asarray(params["graph"], np.float64))
    shift = float(mechanism["shift"])
    Z = (network(mechanism["encoder"], values) + shift) @ (np.eye(NODES) - A) - shift
    decoded = network(mechanism["decoder"], (Z + shift) @ np.linalg.inv(np.eye(NODES) - A) - shift)
    expected = 0.5 * (np.sum((values - decoded) ** 2) + np.sum(Z**2)) / ROWS
    fit = model.fit(params, model.adjacency(params, key), model.prepare(values))
    assert float(fit) == pytest.approx(expected, rel=1e-5)


def test_scores_are_the_weights_without_loops():
    graph = np.asarray(params["graph"]) + np.eye(NODES, dtype=np.float32)
    scores = model.edge_scores(graph)
    assert not scores.diagonal().any()
    np.testing.assert_allclose(scores, np.abs(model.adjacency({**params, "graph": jnp.asarray(graph)}, key)), rtol=1e-5)


def test_gradients_are_those_of_central_differences():
    with jax.enable_x64(True):
        exact, data = jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), (params, model.prepare(values))
        )
        check_grads(
            jax.jit(lambda p: model.fit(p, model.adjacency(p, key), data)), (exact,), order=1, modes=["rev"], rtol=1e-4
        )


def test_a_root_is_predicted_the_same_in_every_row():
    adjacency = np.triu(np.ones((NODES, NODES), np.float32), 1)
    predicted = np.asarray(model.predict(params, jnp.asarray(adjacency), jnp.asarray(values, jnp.float32)))
    assert np.ptp(predicted[:, 0]) == 0
    assert np.ptp(predicted[:, 3]) > 0
