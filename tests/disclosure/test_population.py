from __future__ import annotations

import numpy as np

from feddag.disclosure.population import Population, Regression
from feddag.silos import Silo
from feddag.silos.variable_types import Kind


def _silo(rows: int) -> Silo:
    rng = np.random.default_rng(3)
    x = rng.normal(size=rows)
    y = np.tanh(2 * x) + 0.3 * rng.normal(size=rows)
    level = (y + 0.3 * rng.normal(size=rows) > 0).astype(float) + (y > 1)
    kinds = (Kind("continuous"), Kind("continuous"), Kind("categorical", ("a", "b", "c")))
    return Silo("north", ("x", "y", "z"), np.column_stack([x, y, level]), kinds)


def test_new_rows_depend_on_one_another_as_those_of_the_table_do():
    silo = _silo(800)
    drawn = Population(silo).draw(4000, np.random.default_rng(1))
    for values in (drawn, silo.values):
        values[:, 0] = np.tanh(2 * values[:, 0])
    there, here = np.corrcoef(silo.values.T), np.corrcoef(drawn.T)
    np.testing.assert_allclose(here, there, atol=0.05)


def test_new_rows_have_the_values_and_levels_of_the_table_but_none_of_its_rows():
    silo = _silo(300)
    drawn = Population(silo).draw(1000, np.random.default_rng(1))
    for column in range(3):
        assert set(drawn[:, column]) <= set(silo.values[:, column])
    whole = {tuple(row) for row in silo.values}
    # a value may come from the row that gave the one before it; then five donors stand to choose from
    assert np.mean([tuple(row) in whole for row in drawn]) < 0.2


def test_the_same_seed_draws_the_same_rows():
    population = Population(_silo(100))
    first, second = (population.draw(50, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_regression_finds_the_noise_that_is_left():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(2000, 5))
    targets = features @ np.arange(5.0)[:, None] + 0.5 * rng.normal(size=(2000, 1))
    found = Regression.fit(features, targets)
    np.testing.assert_allclose(found.variance, 0.25, rtol=0.1)
    np.testing.assert_allclose(found.weights[:, 0], np.arange(5.0), atol=0.05)
