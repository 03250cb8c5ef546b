from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

import feddag
from feddag.errors import FeddagError
from feddag.federation.arrays import under
from feddag.graphs import CausalGraph
from feddag.regression.features import Frame, IndicatorFeatures, level_counts
from feddag.regression.logistic import VARIANCES
from feddag.regression.prediction import CategoryFit
from feddag.silos import Silo
from feddag.silos.variable_types import CONTINUOUS, Kind
from feddag.trust import assess, mechanisms_by_site, total_effect
from feddag.trust.assessment import trust_sites
from feddag.trust.mechanisms import common_mechanisms
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
    np.testing.assert_allclose(site._own.of_family((2, ())), np.log(shares[held_out]))


def test_levels_act_without_an_order_and_sites_that_are_alike_do_not_differ(silos):
    table = mechanisms_by_site(GRAPH, silos).set_index(["effect", "site"])
    explained = 1 + 2.0  # the variance of 2·ill, and of (0, 3, 0)
    assert table.loc["stay", "r2"].mean() == pytest.approx(explained / (explained + 0.25), abs=0.03)
    assert table.loc["ill", "r2"].min() > 0.3
    assert not table.isna().any(axis=None)
    assert not table["differs"].any()


def shops(slopes, sizes=(600, 500, 700)):
    """number → choice of three ← kind, where the number acts with a slope of each shop's own."""
    draw, kinds = np.random.default_rng(5), (CONTINUOUS, *KINDS[1:3])
    for k, (slope, rows) in enumerate(zip(slopes, sizes, strict=True)):
        number, kind = draw.normal(size=rows), draw.integers(2, size=rows)
        odds = np.column_stack([np.zeros(rows), slope * number, kind - 0.5 * slope * number])
        choice = (odds + draw.gumbel(size=odds.shape)).argmax(axis=1)
        yield Silo(f"shop-{k}", ("number", "kind", "choice"), np.column_stack([number, kind, choice]), kinds)


CHOICE = CausalGraph([[0, 0, 1], [0, 0, 1], [0, 0, 0]], ("number", "kind", "choice"))


def test_a_category_whose_mechanism_differs_is_found_and_no_other():
    differs = {
        slopes: mechanisms_by_site(CHOICE, list(shops(slopes))).drop_duplicates("effect").set_index("effect")["differs"]
        for slopes in ((1.0, 1.0, 1.0), (1.5, 1.5, -1.5))
    }
    assert differs[1.0, 1.0, 1.0].to_dict() == {"number": False, "kind": False, "choice": False}
    assert differs[1.5, 1.5, -1.5].to_dict() == {"number": False, "kind": False, "choice": True}


def test_the_common_regression_of_a_category_is_that_of_all_rows_together():
    silos = list(shops((1.0, -1.0, 0.5)))
    levels = level_counts(silos[0].kinds)
    with trust_sites(silos) as (federation, local):
        common = common_mechanisms(federation, CHOICE.adjacency, levels)
    rows = np.concatenate([site._training for site in local])
    frame = Frame.of(rows.mean(axis=0), rows.var(axis=0), levels)
    table = IndicatorFeatures(frame.standardise(rows), levels)
    features = table.joint((0, 1), len(rows), summed=True)
    ends, fit = table.layers((0, 1), len(rows), summed=True), CategoryFit(**under("2", common))
    own = CategoryFit.to(features, table.codes[2], 3, ends)
    np.testing.assert_allclose(fit.theta, own.theta, rtol=1e-5, atol=1e-7)
    features = features[:, : len(fit.theta) // 2 - 1]
    assert features.shape[1] == ends[0]  # which is linear, as the truth is
    codes, indicators = table.codes[2], np.eye(3)[table.codes[2]]

    def loss(flat, variance):
        """Of the softmax regression itself: priors of variance 10 for what levels differ by, another for weights."""
        shift, weights = flat[:3] - flat[:3].mean(), flat[3:].reshape(-1, 3)
        weights = weights - weights.mean(axis=1, keepdims=True)
        logits = shift + features @ weights
        likelihood = (logits * indicators).sum() - logsumexp(logits, axis=1).sum()
        return (shift @ shift / 10 + (weights**2).sum() / variance) / 2 - likelihood

    distances = []
    for variance in VARIANCES:
        best = minimize(loss, np.zeros(3 * (1 + features.shape[1])), variance, options={"gtol": 1e-4}).x
        logits = best[:3] + features @ best[3:].reshape(-1, 3)
        expected = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))[np.arange(len(codes)), codes]
        expected = np.log((len(rows) * expected + 1) / (len(rows) + 3))
        distances.append(np.abs(fit.log_densities(features, codes) - expected).max())
    assert min(distances) < 1e-4


def test_one_site_s_categories_have_nothing_to_differ_from():
    table = mechanisms_by_site(CHOICE, list(shops((1.0,), (300,))))
    np.testing.assert_allclose(table["own_gain"], 0, atol=1e-9)


def test_levels_that_some_sites_have_never_seen_do_no_harm():
    one, two, three = shops((1.0, 1.0, 1.0))
    values = one.values[one.values[:, 2] != 2]
    table = mechanisms_by_site(CHOICE, [Silo("few", one.columns, values, one.kinds), two, three])
    assert np.isfinite(table[["r2", "own_gain", "error"]].to_numpy()).all()
    gains = table[table["effect"] == "choice"].set_index("site")["own_gain"]
    assert gains["few"] > 0.1 > gains.drop("few").abs().max()


def test_effects_are_told_of_two_levels_and_adjusted_for_many(silos, learner):
    found = total_effect(learner, silos, "ill", "stay").estimates[-1]
    assert abs(found.slope - 2) < 4 * found.error
    with pytest.raises(FeddagError, match="'ward' has 3 levels"):
        total_effect(learner, silos, "ward", "stay")
