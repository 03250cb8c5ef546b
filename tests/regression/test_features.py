"""Functions of parents, discrete ones among them."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.regression.features import ContrastFeatures, Frame, IndicatorFeatures, contrasts, joint_columns

LEVELS = np.array([0, 2, 0, 3, 2, 4])
ROWS = 150
RNG = np.random.default_rng(1)
VALUES = np.column_stack([RNG.integers(each, size=ROWS) if each else RNG.normal(size=ROWS) for each in LEVELS])


def test_contrasts_are_orthonormal_and_blind_to_the_mean():
    for levels in (1, 2, 5):
        basis = contrasts(levels)
        assert basis.shape == (levels, levels - 1)
        np.testing.assert_allclose(basis.T @ basis, np.eye(levels - 1), atol=1e-12)
        np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)


def test_a_layer_holds_all_products_of_one_total_degree():
    layers = joint_columns(((1, 1, 1), (1, 2)), 100)
    assert [len(layer) for layer in layers] == [1, 3, 3, 2]
    assert sorted(map(tuple, layers[1].tolist())) == [(0, 1), (0, 2), (1, 0)]
    assert [len(layer) for layer in joint_columns(((1, 1, 1), (1, 2)), 5)] == [1, 3]


def test_layers_end_where_they_say():
    features = ContrastFeatures(VALUES, LEVELS)
    for parents in ((1,), (0, 3), (1, 3, 4), (0, 2), ()):
        ends = features.layers(parents, ROWS)
        assert features.joint(parents, ROWS).shape == (ROWS, ends[-1])
        assert (np.diff(ends) >= 0).all()


def test_a_parents_kernel_tells_levels_apart_and_nothing_else():
    features = ContrastFeatures(VALUES, LEVELS).joint((3,), ROWS) / 3.0
    same = (VALUES[:, 3][:, None] == VALUES[:, 3]).astype(float)
    np.testing.assert_allclose(features @ features.T, same - 1 / 3, atol=1e-12)


@pytest.mark.parametrize("coding", [ContrastFeatures, IndicatorFeatures])
@pytest.mark.parametrize("parents", [(1,), (0, 3), (1, 3), (0, 1, 2, 3)])
def test_either_coding_can_fit_any_value_for_each_level(coding, parents):
    """With a constant, the linear layer holds each indicator of each discrete parent."""
    features = coding(VALUES, LEVELS)
    linear = features.joint(parents, ROWS)[:, : features.layers(parents, ROWS)[0]]
    basis = np.column_stack([np.ones(ROWS), linear])
    for node in parents:
        wanted = np.eye(LEVELS[node])[VALUES[:, node].astype(int)] if LEVELS[node] else VALUES[:, [node]]
        found = basis @ np.linalg.lstsq(basis, wanted, rcond=None)[0]
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_only_numbers_that_vary_are_standardised():
    values = np.column_stack([5 + 2 * RNG.normal(size=ROWS), RNG.integers(3, size=ROWS), np.full(ROWS, 7.0)])
    frame = Frame.of(values.mean(axis=0), values.var(axis=0), np.array([0, 3, 0]))
    number, level, constant = frame.standardise(values).T
    assert number.mean() == pytest.approx(0)
    assert number.std() == pytest.approx(1)
    np.testing.assert_array_equal(level, values[:, 1])
    np.testing.assert_array_equal(constant, 0)
