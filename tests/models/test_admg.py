"""The linear model with correlated noise: a likelihood from second moments alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg, stats

from feddag.models import ADMG, Model

NODES, ROWS = 4, 60
model = ADMG()
rng = np.random.default_rng(0)
values = rng.normal(loc=[5.0, -2.0, 0.0, 1.0], scale=[1.0, 2.0, 0.5, 3.0], size=(ROWS, NODES))
weights = np.triu(rng.normal(size=(NODES, NODES)), k=1)
correlations = np.zeros((NODES, NODES))
correlations[0, 3] = correlations[3, 0] = 0.6
correlations[1, 2] = correlations[2, 1] = -0.3
log_scale, log_deviation = rng.normal(size=NODES), rng.normal(size=NODES) / 2
params = {
    "graph": jnp.asarray(np.stack([weights, correlations]), jnp.float32),
    "mechanism": {
        "log_scale": jnp.asarray(log_scale, jnp.float32),
        "log_deviation": jnp.asarray(log_deviation, jnp.float32),
    },
}
key = jax.random.key(0)


def test_it_is_a_model():
    assert isinstance(model, Model)


def test_fit_is_the_likelihood_of_a_normal_law_but_for_scales_and_a_constant():
    """Against scipy's density of the standardised rows: X = XD + noise."""
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    total = np.linalg.inv(np.eye(NODES) - weights)
    deviations = np.exp(log_deviation)
    noise = np.outer(deviations, deviations) * (np.eye(NODES) + correlations)
    density = stats.multivariate_normal(np.zeros(NODES), total.T @ noise @ total)
    expected = -density.logpdf(scaled).mean() - NODES / 2 * np.log(2 * np.pi)
    off_scale = 0.5 * ((log_scale - np.log(values.std(axis=0))) ** 2).sum()
    found = model.fit(params, model.adjacency(params, key), model.prepare(values))
    assert float(found) == pytest.approx(expected + off_scale, rel=1e-4)


def test_the_learned_scale_is_the_deviation_of_a_column():
    def fit(scale):
        mechanism = {**params["mechanism"], "log_scale": scale}
        return model.fit({**params, "mechanism": mechanism}, model.adjacency(params, key), model.prepare(values))

    at = jnp.asarray(np.log(values.std(axis=0)), jnp.float32)
    np.testing.assert_allclose(jax.grad(fit)(at), 0, atol=1e-4)


def test_bows_vanish_where_each_pair_has_one_edge():
    apart = weights * (correlations == 0)
    assert float(model.bows(params, jnp.asarray(apart))) == 0
    expected = (weights**2 * correlations**2).sum()
    assert float(model.bows(params, jnp.asarray(weights))) == pytest.approx(expected, rel=1e-5)


def test_the_ancestral_constraint_sums_over_paths_between_what_is_joined():
    """Against scipy's matrix exponential: a path 0 -> 1 -> 2 alone, and the edge 0 <-> 2."""
    path, joined = np.zeros((2, NODES, NODES))
    path[0, 1], path[1, 2] = 0.8, -0.7
    joined[0, 2] = joined[2, 0] = 0.5
    graph = {**params, "graph": jnp.asarray(np.stack([path, joined]), jnp.float32)}
    weights = jnp.asarray(path, jnp.float32)
    assert float(model.bows(graph, weights)) == 0
    expected = (linalg.expm(path**2) * joined**2).sum()
    assert float(ADMG("ancestral").bows(graph, weights)) == pytest.approx(expected, rel=1e-5)
    assert float(ADMG("ancestral").bows({**params, "graph": jnp.stack([weights, weights.at[:].set(0)])}, weights)) == 0


def test_impossible_correlations_have_a_finite_loss_and_gradient():
    graph = jnp.asarray(np.stack([weights, 5 * np.ones((NODES, NODES))]), jnp.float32)

    def loss(graph):
        wild = {**params, "graph": graph}
        return model.fit(wild, model.adjacency(wild, key), model.prepare(values))

    value, gradient = jax.value_and_grad(loss)(graph)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_knowledge_removes_directed_edges_alone():
    impossible = np.zeros((NODES, NODES), dtype=bool)
    impossible[0, 3] = True
    held = model.held(params["graph"], impossible=impossible, certain=~impossible)
    assert model.edge_scores(np.asarray(held))[0, 3] == 0
    assert model.bidirected_scores(np.asarray(held))[0, 3] == pytest.approx(0.6)


def test_predictions_are_in_the_units_of_the_data():
    adjacency = (weights != 0).astype(np.float32)
    expected = ((values / np.exp(log_scale)) @ weights) * np.exp(log_scale)
    found = model.predict(params, jnp.asarray(adjacency), jnp.asarray(values, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
