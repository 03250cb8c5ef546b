"""Large tables go through regressions in blocks of rows, and fits are remembered within a bound."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.regression import features as features_module
from feddag.regression import views
from feddag.regression.features import ContrastFeatures, Features
from feddag.regression.views import View

ROWS, BLOCK = 530, 100


def _table() -> np.ndarray:
    rng = np.random.default_rng(3)
    cause, other = rng.normal(size=(2, ROWS))
    effect = np.sin(2 * cause) * other + 0.3 * rng.normal(size=ROWS)
    values = np.stack([cause, other, effect], axis=1)
    return (values - values.mean(axis=0)) / values.std(axis=0)


CHILDREN = np.array([2, 0, 1, 2])
PARENTS = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)


@pytest.fixture
def in_blocks(monkeypatch):
    monkeypatch.setattr(features_module, "BLOCK_ROWS", BLOCK)


def _mixed() -> ContrastFeatures:
    values = _table()
    values[:, 1] = np.arange(ROWS) % 3
    values[:2, 1] = 3
    return ContrastFeatures(values, np.array([0, 4, 0]), minimum_cell=5)


@pytest.mark.parametrize("features", [Features(_table()), _mixed()], ids=["numbers", "mixed"])
def test_blocks_are_small_and_hold_the_functions_of_the_whole_table(features, in_blocks):
    whole, blocks = features.joint((0, 1), ROWS), list(features.blocks())
    assert max(len(block.values) for _, block in blocks) == BLOCK
    np.testing.assert_array_equal(np.concatenate([block.joint((0, 1), ROWS) for _, block in blocks]), whole)
    np.testing.assert_array_equal(np.concatenate([block.coarse() for _, block in blocks]), features.coarse())


@pytest.mark.parametrize("precisions", [None, np.array([1.0, 2.0, 3.0])], ids=["free", "equal"])
def test_blocks_give_the_fits_of_the_whole_table(precisions, monkeypatch):
    whole = View(Features(_table()))
    expected = whole.fit(CHILDREN, PARENTS, precisions)
    monkeypatch.setattr(features_module, "BLOCK_ROWS", BLOCK)
    found = View(Features(_table())).fit(CHILDREN, PARENTS, precisions)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(View(Features(_table())).gram, whole.gram, rtol=1e-9, atol=1e-9)


def test_residuals_are_those_of_some_rows_and_mean_squares_those_of_all(in_blocks, monkeypatch):
    every = View(Features(_table())).fit(CHILDREN, PARENTS, None)
    monkeypatch.setattr(views, "MOST_ROWS", 200)
    some = View(Features(_table())).fit(CHILDREN, PARENTS, None)
    np.testing.assert_allclose(some.residuals, every.residuals[views.evenly_spaced(ROWS, 200)], atol=1e-9)
    np.testing.assert_allclose(some.mean_squares, (every.residuals**2).mean(axis=0), rtol=1e-7)
    np.testing.assert_allclose(some.with_normal_noise, every.with_normal_noise, rtol=1e-9)


def test_no_step_evaluates_functions_of_more_rows_than_a_block(in_blocks, monkeypatch):
    monkeypatch.setattr(views, "MOST_ROWS", BLOCK)
    monkeypatch.setattr(views, "MOST_ROWS_OF_QUICK", BLOCK)
    sizes, evaluate = [], features_module.waves

    def count(values, functions):
        sizes.append(values.size)
        return evaluate(values, functions)

    monkeypatch.setattr(features_module, "waves", count)
    view = View(Features(_table()))
    view.neighbourhoods(CHILDREN, PARENTS, None)
    view.given_all_others()
    view.row_losses(CHILDREN, PARENTS, view.fit(CHILDREN, PARENTS, None).residuals, None)
    assert max(sizes) == BLOCK


def test_a_family_is_regressed_once_as_far_as_memory_goes(monkeypatch):
    calls, regress = [], views.Factors.best_fit

    def count(*arguments):
        calls.append(1)
        return regress(*arguments)

    monkeypatch.setattr(views.Factors, "best_fit", count)
    view = View(Features(_table()))
    first, again = (view.fit(CHILDREN, PARENTS, None) for _ in range(2))
    assert len(calls) == len(CHILDREN)
    np.testing.assert_array_equal(first.scores, again.scores)
    monkeypatch.setattr(views, "REMEMBERED_VALUES", 2 * ROWS)
    view.fit(CHILDREN, PARENTS, None)
    assert len(view._known_fits) == 2
    np.testing.assert_array_equal(view.fit(CHILDREN, PARENTS, None).scores, first.scores)
