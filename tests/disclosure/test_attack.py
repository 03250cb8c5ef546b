from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from feddag.disclosure.attack import Guesses, Metric, area, caught, hidden_value, membership


@pytest.mark.parametrize("samples", [3, 50])
def test_the_metric_is_the_inverse_of_the_shrunk_covariance(samples):
    rng = np.random.default_rng(1)
    sample, left, right = rng.normal(size=(samples, 8)), rng.normal(size=(4, 8)), rng.normal(size=(5, 8))
    inverse = np.linalg.inv(sample.T @ sample / samples + 0.3 * np.eye(8))
    metric = Metric(sample)
    np.testing.assert_allclose(metric.products(left, right, 0.3), left @ inverse @ right.T, atol=1e-10)
    np.testing.assert_allclose(metric.squares(left, 0.3), np.diag(left @ inverse @ left.T), atol=1e-10)


def test_the_area_is_the_chance_that_a_member_scores_higher():
    assert area(np.array([2.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(3.5 / 4)
    assert caught(np.array([0.0, 5.0]), np.arange(4.0)) == 0.5


def _means(numbers: int, rows: int, sites: int = 3, federations: int = 40, members: int = 400):
    """Means of independent normal numbers over rows: the test's power is known."""
    rng = np.random.default_rng(5)
    tables = rng.normal(size=(federations, sites * rows, numbers))
    own = np.arange(members) % federations
    influences = np.array([tables[each, rng.integers(rows)] for each in own]) / np.sqrt(rows)
    deviations = tables.mean(axis=1) * np.sqrt(rows)
    metric = Metric(rng.normal(size=(20 * numbers, numbers)))
    return metric, influences, deviations, sites, own


def test_membership_in_means_is_found_as_often_as_theory_says():
    numbers, rows, sites = 60, 20, 3
    found = membership(*_means(numbers, rows, sites))
    expected = norm.cdf(np.sqrt(numbers / (sites * rows)) / np.sqrt(2))
    assert found.auc == pytest.approx(expected, abs=0.03)


def test_many_rows_hide_each_of_them():
    assert membership(*_means(10, 2000)).auc == pytest.approx(0.5, abs=0.04)


def _hidden(waves: int, rows: int, sites: int = 3, federations: int = 10, members: int = 40):
    """Rows of a known and a hidden value, of which sites release the means of products of waves."""
    rng = np.random.default_rng(6)
    tables = rng.uniform(-1, 1, size=(federations, sites * rows, 2))

    def functions(values):
        of_each = np.sqrt(2) * np.cos(np.pi * np.arange(1, waves + 1) * (values[..., None] + 1) / 2)
        return (of_each[..., 0, :, None] * of_each[..., 1, None, :]).reshape(*values.shape[:-1], waves**2)

    guesses, hidden = np.linspace(-1, 1, 41), []
    for place in range(members):
        known, truth = tables[place % federations, place // federations]
        tried = np.column_stack([np.full(len(guesses), known), guesses])
        moved = functions(tried) / np.sqrt(rows)
        hidden.append(Guesses(float(truth), tables.std(), guesses, False, (0.0, 1.0), moved, [], place % federations))
    metric = Metric(rng.normal(size=(5 * waves**2, waves**2)))
    return hidden_value(metric, hidden, functions(tables).mean(axis=1) * np.sqrt(rows), sites, [])


def test_more_numbers_than_rows_tell_a_hidden_value():
    found = _hidden(waves=10, rows=5)
    assert found.error < 0.6 * found.others


def test_few_numbers_of_many_rows_tell_nothing_of_a_hidden_value():
    found = _hidden(waves=2, rows=1000)
    assert found.error == pytest.approx(found.others, abs=0.15)
