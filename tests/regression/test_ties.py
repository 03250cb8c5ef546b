"""Rounding says nothing about directions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from feddag import AssumptionWarning, EvidenceSearch
from feddag.regression.ties import spread_ties

NUMBER = np.zeros(1, dtype=int)


def test_rows_that_share_a_value_are_spread_evenly_around_it():
    values = np.repeat([[0.0], [1.0], [2.0], [7.0]], [10, 20, 1, 5], axis=0)
    spread = spread_ties(values, NUMBER)
    assert spread is not None
    np.testing.assert_array_equal(np.round(spread), values)
    np.testing.assert_allclose(np.sort(spread[10:30, 0]), 1 + (np.arange(20) + 0.5) / 20 - 0.5)
    assert spread[30] == 2


def test_columns_without_ties_and_levels_stay_as_they_are():
    values = np.random.default_rng(0).standard_normal((50, 2))
    assert spread_ties(values, np.zeros(2, dtype=int)) is None
    assert spread_ties(np.ones((50, 1)), NUMBER) is None
    assert spread_ties(np.round(values), np.array([5, 5])) is None


def test_neither_units_nor_the_order_of_columns_matter():
    values = np.round(np.random.default_rng(0).standard_normal((200, 2)), 1)
    levels = np.zeros(2, dtype=int)
    spread = spread_ties(values, levels)
    np.testing.assert_allclose(spread_ties(3 + 1000 * values, levels), 3 + 1000 * spread)
    np.testing.assert_array_equal(spread_ties(values[:, ::-1], levels), spread[:, ::-1])


EFFECTS = {
    "bent": lambda cause, rng: np.tanh(1.5 * cause) + 0.5 * rng.standard_normal(len(cause)),
    "straight": lambda cause, rng: cause + rng.standard_normal(len(cause)),
}


def fitted(effect, steps):
    rng = np.random.default_rng(1)
    cause = rng.standard_normal(1500)
    table = pd.DataFrame({"cause": cause, "effect": EFFECTS[effect](cause, rng)})
    for column, step in steps.items():
        table[column] = (table[column] / step).round() * step
    return EvidenceSearch("graph", restarts=0).fit([table])


@pytest.mark.parametrize(
    "steps", [{"effect": 0.1}, {"effect": 0.3}, {"cause": 0.3}, {"cause": 0.3, "effect": 0.3}], ids=str
)
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_rounded_column_is_not_taken_for_a_cause(effect, steps):
    learned = fitted(effect, steps)
    (told,) = learned.edge_evidence_.itertuples()
    assert told.present
    if effect == "bent":
        assert learned.graph_.edges == [("cause", "effect")]
    else:
        assert not learned.graph_.edges


@pytest.mark.parametrize("seed", range(3))
def test_a_column_of_few_values_makes_no_sure_wrong_direction(seed):
    """Rounded so coarsely, skewed noise looks as if the effect were the cause: a check opens this."""
    rng = np.random.default_rng(seed)
    cause = rng.standard_normal(1500)
    effect = cause + rng.exponential(size=1500)
    table = pd.DataFrame({"cause": cause, "effect": (effect / 1.2).round()})
    with pytest.warns(AssumptionWarning, match="Few values make up much of effect"):
        learned = EvidenceSearch("graph", restarts=0).fit([table])
    assert not learned.graph_.edges
    assert learned.graph_.undirected_edges
