"""How far two variables depend on each other beyond chance."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.regression.dependence import PairDependence, deviations_from_chance, line_dependence, table_dependence


def deviations(sites, rows):
    """Deviations from chance of one pair, of the mean over equal sites."""
    return deviations_from_chance(*np.mean(sites, axis=0)[:, None], rows * len(sites))[0]


def test_lines_without_a_dependence_are_as_far_from_chance_as_normal_squares_are():
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        given = rng.normal(size=(200, 2))
        one, other = given.sum(axis=1) + rng.normal(size=200), given[:, 0] + rng.normal(size=200)
        found.append(line_dependence(one, other[:, None], given))
    excess, variance, _ = 200 * np.array(found).T
    assert abs(excess.mean()) < 0.2
    assert excess.var() == pytest.approx(variance.mean(), rel=0.3)


def test_a_weak_dependence_that_no_site_shows_shows_at_all_of_them_together():
    rng, sites = np.random.default_rng(1), []
    for _ in range(20):
        other = rng.normal(size=(100, 1))
        sites.append(line_dependence(0.1 * other[:, 0] + rng.normal(size=100), other, np.empty((100, 0))))
    by_each = deviations([each._replace(correlation=0.0) for each in sites], 100)
    assert deviations(sites, 100) > max(4, 2 * by_each)


@pytest.mark.parametrize("told", ["child", "other"])
def test_a_column_that_others_tell_says_nothing(told):
    rng = np.random.default_rng(2)
    given, free = rng.normal(size=(100, 1)), rng.normal(size=(100, 1))
    child, other = (given[:, 0], free) if told == "child" else (free[:, 0], given)
    assert line_dependence(child, other, given) == PairDependence(0.0, 0.0)


def test_sparse_tables_without_a_dependence_have_the_mean_and_the_variance_of_chance():
    """With five rows in each table of twenty cells, likelihood ratios would be far from their limit."""
    rng, found, groups = np.random.default_rng(3), [], 60
    one, other = rng.dirichlet(np.full(4, 0.7), groups), rng.dirichlet(np.full(5, 0.7), groups)
    for _ in range(500):
        group = rng.integers(0, groups, 300)
        first = (rng.random(300)[:, None] > one.cumsum(axis=1)[group]).sum(axis=1).clip(max=3)
        second = (rng.random(300)[:, None] > other.cumsum(axis=1)[group]).sum(axis=1).clip(max=4)
        cells = np.ravel_multi_index((group, first, second), (groups, 4, 5))
        found.append(table_dependence(np.bincount(cells, minlength=groups * 20).reshape(groups, 4, 5)))
    excess, variance, _ = 300 * np.array(found).T
    assert abs(excess.mean()) < 0.2 * excess.std()
    assert excess.var() == pytest.approx(variance.mean(), rel=0.3)


def test_tables_that_tell_nothing_are_finite():
    for counts in (
        np.zeros((2, 3, 3)),
        np.full((1, 2, 2), 1),
        np.array([[[5, 0], [0, 0]]]),
        np.array([[[2, 1], [1, 0]]]),
    ):
        assert np.isfinite(table_dependence(counts.astype(int))).all()
