"""The masked networks: what each node's network sees, how well it fits, and how sure each edge is."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from feddag.models import MaskedMLP, Model
from feddag.models.rows import padded_rows

NODES, ROWS = 4, 21
model = MaskedMLP(layers=2, units=5)
rng = np.random.default_rng(0)
values = rng.normal(size=(ROWS, NODES)).astype(np.float32)
masks = pytest.mark.parametrize("mask", ["sampled", "soft", "full"])


@pytest.fixture(scope="module")
def params():
    """With biases and logits that are not zero, so that a test would notice their loss."""
    start = jax.device_put(model.init(np.random.default_rng(3), NODES))
    draw = np.random.default_rng(1)
    start["graph"] = jnp.asarray(draw.normal(size=(NODES, NODES)), jnp.float32)
    start["mechanism"]["biases"] = [
        jnp.asarray(draw.normal(size=b.shape), jnp.float32) for b in start["mechanism"]["biases"]
    ]
    return start


def mask_of(kind: str, params) -> jax.Array:
    if kind == "sampled":
        return model.adjacency(params, jax.random.key(7))
    off_diagonal = 1 - np.eye(NODES)
    soft = np.random.default_rng(2).random((NODES, NODES))
    return jnp.asarray(off_diagonal * (soft if kind == "soft" else 1), jnp.float32)


def forward_in_numpy(params, mask, rows: np.ndarray) -> np.ndarray:
    """One network per node, one row at a time, the inputs masked (not the weights), as eq. 5 has it."""
    weights = [np.asarray(W, np.float64) for W in params["mechanism"]["weights"]]
    biases = [np.asarray(b, np.float64) for b in params["mechanism"]["biases"]]
    mask = np.asarray(mask, np.float64)
    predictions = np.empty(rows.shape)
    for r, row in enumerate(rows):
        for j in range(rows.shape[1]):
            hidden = weights[0][j] @ (mask[:, j] * row) + biases[0][j, :, 0]
            for W, b in zip(weights[1:], biases[1:], strict=True):
                hidden = W[j] @ np.where(hidden > 0, hidden, 0.05 * hidden) + b[j, :, 0]
            predictions[r, j] = hidden[0]
    return predictions


def test_it_is_a_model():
    assert isinstance(model, Model)


@masks
def test_predictions_are_those_of_a_plain_forward_pass(params, mask):
    adjacency = mask_of(mask, params)
    predicted = model.predict(params, adjacency, jnp.asarray(values))
    np.testing.assert_allclose(predicted, forward_in_numpy(params, adjacency, values), rtol=1e-4, atol=1e-5)


@masks
@pytest.mark.parametrize("rows", [1, 8, 9, ROWS])
def test_fit_is_half_the_squared_error_per_row_and_padding_is_not_a_row(params, mask, rows):
    adjacency = mask_of(mask, params)
    residual = values[:rows] - forward_in_numpy(params, adjacency, values[:rows])
    fit = model.fit(params, adjacency, jax.device_put(model.prepare(values[:rows].astype(np.float64))))
    assert float(fit) == pytest.approx(0.5 * (residual**2).sum() / rows, rel=1e-5)


@masks
@pytest.mark.parametrize("node", range(NODES))
def test_a_nodes_own_value_never_reaches_its_prediction(params, mask, node):
    adjacency = mask_of(mask, params)
    changed = values.copy()
    changed[:, node] += 100
    before = model.predict(params, adjacency, jnp.asarray(values))[:, node]
    after = model.predict(params, adjacency, jnp.asarray(changed))[:, node]
    np.testing.assert_array_equal(before, after)


def test_column_j_of_the_mask_selects_the_inputs_of_node_j(params):
    """With the single edge i → j, node i moves the prediction of j and of no other node."""
    for i in range(NODES):
        for j in set(range(NODES)) - {i}:
            adjacency = jnp.zeros((NODES, NODES)).at[i, j].set(1.0)
            changed = values.copy()
            changed[:, i] += 1
            before = model.predict(params, adjacency, jnp.asarray(values))
            after = model.predict(params, adjacency, jnp.asarray(changed))
            moved = np.flatnonzero((before != after).any(axis=0))
            assert moved.tolist() == [j]


def test_a_mask_has_no_diagonal_and_lies_between_zero_and_one(params):
    for seed in range(20):
        mask = np.asarray(model.adjacency(params, jax.random.key(seed)))
        assert (mask.diagonal() == 0).all()
        assert ((mask >= 0) & (mask <= 1)).all()
    assert (model.edge_scores(np.asarray(params["graph"])).diagonal() == 0).all()


def test_masks_are_drawn_by_key(params):
    one, same, other = (model.adjacency(params, jax.random.key(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (np.asarray(one) != np.asarray(other)).sum() == NODES * (NODES - 1)


def test_edge_scores_are_the_mean_mask(params):
    draws = 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    masks_drawn = np.asarray(jax.vmap(lambda key: model.adjacency(params, key))(keys), np.float64)
    error = masks_drawn.std(axis=0) / math.sqrt(draws)
    np.testing.assert_array_less(
        np.abs(model.edge_scores(np.asarray(params["graph"])) - masks_drawn.mean(axis=0)), 4.5 * error + 1e-9
    )


def test_edges_score_above_one_half_where_the_logit_is_positive():
    U = np.array([[0.0, 1e-3, -1e-3], [0.5, 0.0, -0.5], [8.0, -8.0, 0.0]], np.float32)
    scores = model.edge_scores(U)
    np.testing.assert_array_equal(scores > MaskedMLP.threshold, U > 0)
    rising = model.edge_scores(np.linspace(-3, 3, 9).reshape(3, 3))
    assert (np.diff(rising[~np.eye(3, dtype=bool)]) > 0).all()


def test_gradients_of_the_fit_are_those_of_central_differences(params):
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), params)
        data = jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), model.prepare(values.astype(np.float64))
        )
        adjacency = jnp.asarray(np.asarray(mask_of("soft", params)), jnp.float64)

        def fit(params, adjacency):
            return model.fit(params, adjacency, data)

        check_grads(jax.jit(fit), (double, adjacency), order=1, modes=["rev"], rtol=1e-5)


def test_training_starts_at_no_opinion_and_within_xaviers_bounds():
    start = MaskedMLP().init(np.random.default_rng(0), 10)
    assert not np.asarray(start["graph"]).any()
    widths = [10, 16, 16, 16, 16, 1]
    weights = start["mechanism"]["weights"]
    assert [W.shape for W in weights] == [(10, widths[k + 1], widths[k]) for k in range(5)]
    for W in weights:
        _, fan_out, fan_in = W.shape
        limit = math.sqrt(6 / (fan_in + fan_out))
        largest = np.abs(W).max()
        assert 0.9 * limit < largest <= limit  # uniform up to the bound
        assert np.std(W) == pytest.approx(limit / math.sqrt(3), rel=0.1)
    assert not any(np.asarray(b).any() for b in start["mechanism"]["biases"])
    assert not np.array_equal(weights[1][0], weights[1][1])  # each node has draws of its own
    assert not np.array_equal(weights[1][0], weights[2][0])


def test_ten_nodes_have_the_papers_9930_mechanism_parameters():
    """The paper counts 9 inputs per node; here the own input has weights too, which the mask keeps out."""
    mechanism = MaskedMLP().init(np.random.default_rng(0), 10)["mechanism"]
    own_inputs = 10 * 16
    assert sum(leaf.size for leaf in jax.tree.leaves(mechanism)) - own_inputs == 9930


def test_padding_is_small_and_shared_by_many_sizes():
    sizes = np.array([padded_rows(rows) for rows in range(1, 5001)])
    rows = np.arange(1, 5001)
    assert (sizes >= rows).all()
    assert (sizes <= rows * (1 + 1 / 32) + 8).all()
    assert len(np.unique(sizes)) < 300
    assert (np.diff(sizes) >= 0).all()


def test_a_silo_keeps_its_values_and_its_rows_weigh_alike():
    data = model.prepare(values.astype(np.float64))
    assert data.values.shape == (NODES, padded_rows(ROWS))
    np.testing.assert_array_equal(data.values[:, :ROWS], values.T)
    np.testing.assert_allclose(data.weight[:ROWS], 1 / ROWS, rtol=1e-6)
    assert not np.asarray(data.weight[ROWS:]).any()
