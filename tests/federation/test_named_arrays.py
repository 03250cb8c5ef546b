"""Pytrees travel and are stored as flat, named arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from feddag.federation.arrays import prefixed, under
from feddag.models.pytrees import flatten, unflatten


@pytest.fixture(scope="module")
def state():
    """Parameters and the state of Adam: dicts, lists, tuples, named tuples, an integer counter."""
    mechanism = {"weights": [jnp.ones((2, 3)), jnp.zeros(2)], "biases": [jnp.full(2, 0.5)]}
    params = {"graph": jnp.eye(2), "mechanism": mechanism}
    return params, optax.adam(0.1).init(params)


def test_leaves_are_named_by_their_path():
    tree = {"graph": jnp.zeros((2, 2)), "mechanism": {"weights": [jnp.ones(3), jnp.ones(4)]}}
    assert list(flatten(tree)) == ["graph", "mechanism/weights/0", "mechanism/weights/1"]


def test_flattened_arrays_make_the_same_tree_again(state):
    again = unflatten(state, flatten(state))
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for ours, theirs in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_the_values_come_from_the_arrays_and_their_order_does_not_matter(state):
    changed = {name: array + 1 for name, array in reversed(flatten(state).items())}
    again = unflatten(state, changed)
    for ours, theirs in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(ours, theirs + 1)


def test_no_two_leaves_share_a_name(state):
    assert len(flatten(state)) == len(jax.tree.leaves(state))


def test_what_was_prefixed_stands_under_the_prefix_and_nothing_else_does():
    one, other = {"a": np.zeros(1), "b/c": np.ones(1)}, {"a": np.full(1, 2.0)}
    both = prefixed("sites/1", one) | prefixed("sites/10", other)
    assert set(both) == {"sites/1/a", "sites/1/b/c", "sites/10/a"}
    assert under("sites/1", both) == one
    assert under("sites/10", both) == other
    assert under("site", both) == {}
