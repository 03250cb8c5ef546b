"""A column's errors of measurement are told by what it separates."""

import numpy as np
import pytest

from feddag.regression.imprecision import (
    SHARES,
    Separations,
    explained_by_errors,
    most_by_errors,
    separations,
    surely_imprecise,
    surely_precise,
)

CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.int8)
ALL = np.ones(3, dtype=bool)


def chain(rows: int, seed: int, error: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    first, second, third = rng.normal(size=(3, rows)) * [[1], [0.5], [0.5]]
    middle = first + second
    measured = middle + np.sqrt(error / (1 - error)) * middle.std() * rng.normal(size=rows)
    return np.column_stack([first, measured, middle + third])


def told(sites: int, rows: int, error: float, effects: np.ndarray = ALL) -> Separations:
    """Take the mean over sites."""
    found = [separations(chain(rows, seed, error), np.arange(3), CHAIN, effects) for seed in range(sites)]
    return Separations(*np.mean(found, axis=0))


def test_many_small_sites_tell_together_that_a_column_is_precise():
    assert not surely_precise(told(1, 200, 0), 200).any()
    np.testing.assert_array_equal(surely_precise(told(40, 200, 0), 8000), [False, True, False])


@pytest.mark.parametrize(("sites", "rows"), [(1, 200), (40, 200), (3, 50_000)])
@pytest.mark.parametrize("error", [0.02, 0.05, 0.2])
def test_no_number_of_rows_makes_an_imprecise_column_precise(sites, rows, error):
    assert not surely_precise(told(sites, rows, error), sites * rows).any()


def test_the_share_of_errors_is_estimated():
    found = told(3, 50_000, 0.05)
    np.testing.assert_allclose(found.errors[:, 1] / found.error_weights[:, 1], 1, atol=0.1)


def test_effects_that_experiments_set_tell_nothing():
    found = told(1, 200, 0, effects=np.array([True, True, False]))
    np.testing.assert_array_equal(found, 0)


def test_variables_that_a_discrete_one_acts_on_tell_nothing():
    dag = np.zeros((4, 4), dtype=np.int8)
    dag[[0, 1, 3], [1, 2, 2]] = 1
    found = separations(chain(200, 0, 0), np.arange(3), dag, np.ones(4, dtype=bool))
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize(("error", "seen"), [(0, False), (0.04, True)])
def test_all_separations_together_tell_of_errors(error, seen):
    assert surely_imprecise(told(3, 3000, error), 9000) == seen


def two_effects_of_three(rows: int, error: float, direct: float) -> np.ndarray:
    """Draw three causes of two variables, with skewed noise; the first of these acts `direct`ly on the other."""
    rng = np.random.default_rng(0)
    causes = rng.exponential(size=(rows, 3)) @ [[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]]
    first = causes @ [1, -1, 1] + rng.exponential(size=rows)
    second = causes @ [1, 1, -1] + direct * first + rng.exponential(size=rows)
    measured = causes + np.sqrt(error) * causes.std(axis=0) * rng.normal(size=causes.shape)
    return np.column_stack([measured, first, second])


def is_explained(values: np.ndarray) -> bool:
    dag = np.zeros((5, 5), dtype=bool)
    dag[:3, 3:] = dag[3, 4] = True
    found = explained_by_errors(values, dag, np.array([[3, 4]]), np.zeros(5, dtype=bool))
    return bool(found[0, 0])


def test_an_edge_between_effects_of_imprecise_causes_is_explained_by_all_of_them():
    assert is_explained(two_effects_of_three(20_000, error=0.04, direct=0))


def test_a_direct_effect_is_not_explained():
    assert not is_explained(two_effects_of_three(20_000, error=0.04, direct=0.7))


@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_no_effect_of_a_cause_regains_more_than_small_errors_hide(strength):
    rng = np.random.default_rng(0)
    cause = rng.normal(size=100_000)
    effect = strength * cause + rng.normal(size=len(cause))
    measured = cause + np.sqrt(SHARES[0] / (1 - SHARES[0])) * rng.normal(size=len(cause))

    def left(*columns: np.ndarray) -> float:
        """Return what columns leave unexplained of the effect: half the logarithm of its variance."""
        given = np.column_stack(columns)
        return float(np.log((effect - given @ np.linalg.lstsq(given, effect, rcond=None)[0]).var()) / 2)

    most = most_by_errors(np.log(effect.var()) / 2 - left(cause))
    assert 0.9 * most < left(measured) - left(measured, cause) < 1.1 * most
