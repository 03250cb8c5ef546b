from __future__ import annotations

import numpy as np
import pytest

import feddag
from feddag.errors import FeddagError
from feddag.graphs import CausalGraph
from feddag.silos import Silo
from feddag.silos.kinds import CONTINUOUS, Kind
from feddag.trust import assess, mechanisms_by_site, total_effect
from feddag.trust.sites import TrustSite

COLUMNS = ("size", "ill", "ward", "stay")
KINDS = (CONTINUOUS, Kind("binary", ("no", "yes")), Kind("categorical", ("a", "b", "c")), CONTINUOUS)
GRAPH = CausalGraph([[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]], COLUMNS)


@pytest.fixture(scope="module")
def silos():
    """size → ill → stay ← ward, where wards have no order."""
    draw = np.random.default_rng(0)
    found = []
    for name in ("one", "two"):
        size, ward = draw.normal(size=400), draw.integers(3, size=400)
        ill = (size + 0.5 * draw.normal(size=400) > 0).astype(float)
        stay = 2 * ill + np.array([0.0, 3.0, 0.0])[ward] + 0.5 * draw.normal(size=400)
        found.append(Silo(name, COLUMNS, np.column_stack([size, ill, ward, stay]), KINDS))
    return found


@pytest.fixture(scope="module")
def learner(silos):
    numbers = [Silo(silo.name, COLUMNS, silo.values) for silo in silos]
    learner = feddag.make_learner("empty").fit(numbers)
    learner.graph_ = GRAPH
    return learner


def test_a_graph_of_categories_and_numbers_is_judged(silos, learner):
    verdict = assess(learner, silos).verdict
    assert "better than no graph" in verdict
    assert "Do not trust" not in verdict


def test_categories_without_parents_are_as_likely_as_they_are_frequent(silos):
    site = TrustSite(silos[0])
    training, held_out = site._training[:, 2].astype(int), site._held_out[:, 2].astype(int)
    shares = (np.bincount(training, minlength=3) + 1) / (len(training) + 3)
    np.testing.assert_allclose(site._own_likelihoods((2, ())), np.log(shares[held_out]))


def test_levels_act_without_an_order_and_mechanisms_of_categories_are_not_compared(silos):
    table = mechanisms_by_site(GRAPH, silos).set_index(["effect", "site"])
    explained = 1 + 2.0  # the variance of 2·ill, and of (0, 3, 0)
    assert table.loc["stay", "r2"].mean() == pytest.approx(explained / (explained + 0.25), abs=0.03)
    assert table.loc["ill", "r2"].min() > 0.3
    assert table.loc["ill", ["own_gain", "mean_own_gain"]].isna().all(axis=None)
    assert not table["differs"].any()


def test_effects_are_told_of_two_levels_and_adjusted_for_many(silos, learner):
    found = total_effect(learner, silos, "ill", "stay").estimates[-1]
    assert abs(found.slope - 2) < 4 * found.error
    with pytest.raises(FeddagError, match="'ward' has 3 levels"):
        total_effect(learner, silos, "ward", "stay")
