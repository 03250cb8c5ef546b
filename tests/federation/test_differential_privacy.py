"""An answer is limited and has its noise, and the budget is never overrun. Held against other ways to reckon."""

from __future__ import annotations

import json
import math
import sys

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import kstest, norm

from feddag.errors import FeddagError
from feddag.federation import Answer, InProcess, Site, Task
from feddag.federation.differential_privacy import (
    Accountant,
    PrivacyBudget,
    PrivateSite,
    add_noise,
    noise_multiplier_for,
    system_noise,
)

BUDGET = PrivacyBudget(3.0, 1e-5)


def silent(size):
    return np.zeros(size)


def protected(arrays, reference=None, *, clip=1.0, noise_multiplier=1.0, sites=1, noise=silent):
    answer = Answer(1.0, arrays)
    terms = {"clip": clip, "noise_multiplier": noise_multiplier, "sites": sites, "noise": noise}
    return add_noise(answer, reference or {}, **terms).arrays


def length(arrays, reference=None):
    parts = [array - (reference or {}).get(name, 0) for name, array in arrays.items()]
    return np.linalg.norm(np.concatenate([np.ravel(part) for part in parts]))


def accounted(multipliers, delta=1e-5):
    accountant = Accountant(PrivacyBudget(1.0, delta))
    accountant.noise_multipliers = multipliers
    return accountant.spent


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("rounds", [1, 60])
def test_what_was_spent_is_the_analytic_gaussians(multiplier, rounds):
    """δ(ε) of Balle and Wang (ICML 2018), theorem 8, at the deviation σ = z/√rounds."""
    sigma, epsilon = multiplier / math.sqrt(rounds), accounted([multiplier] * rounds)
    a, b = 1 / (2 * sigma), epsilon * sigma
    delta = norm.cdf(a - b) - math.exp(epsilon + norm.logcdf(-a - b))
    assert delta == pytest.approx(1e-5, rel=1e-4)


@pytest.mark.parametrize("multipliers", [[0.7], [1.0, 2.0, 30.0], [5.0] * 60, [20.0] * 20 + [3.0]])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_what_was_spent_is_below_every_bound_and_near_it(multipliers, delta):
    """Rényi privacy and zero-concentrated privacy bound the same from above, and lose little."""
    events = [dp_accounting.GaussianDpEvent(multiplier) for multiplier in multipliers]
    renyi = RdpAccountant().compose(dp_accounting.ComposedDpEvent(events)).get_epsilon(delta)
    concentrated = sum(1 / (2 * multiplier**2) for multiplier in multipliers)
    zcdp = concentrated + 2 * math.sqrt(concentrated * math.log(1 / delta))
    assert 0.85 * renyi <= accounted(multipliers, delta) <= min(renyi, zcdp)


def test_unequal_rounds_compose_as_numerical_convolution_says():
    multipliers = [2.0, 3.0, 5.0, 3.0]
    events = [dp_accounting.GaussianDpEvent(multiplier) for multiplier in multipliers]
    numerical = PLDAccountant().compose(dp_accounting.ComposedDpEvent(events)).get_epsilon(1e-5)
    assert accounted(multipliers) == pytest.approx(numerical, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1, 10, 100])
@pytest.mark.parametrize("rounds", [1, 2, 7, 100])
def test_a_planned_noise_lasts_for_the_rounds_and_no_more(epsilon, rounds):
    budget = PrivacyBudget(epsilon, 1e-6)
    multiplier = noise_multiplier_for(budget, rounds)
    accountant = Accountant(budget)
    for _ in range(rounds):
        accountant.spend(multiplier)
    assert accountant.spent == pytest.approx(epsilon, rel=1e-6)
    assert not accountant.can_afford(multiplier)
    with pytest.raises(FeddagError, match=f"does not allow a further answer: {rounds} have spent") as caught:
        accountant.spend(multiplier)
    assert f"ε={epsilon:g}, δ=1e-06" in str(caught.value)
    assert len(accountant.noise_multipliers) == rounds


def test_nothing_is_spent_before_the_first_answer():
    accountant = Accountant(BUDGET)
    assert accountant.spent == 0
    assert accountant.can_afford(10)
    assert not accountant.can_afford(1e-200)


def test_a_restart_does_not_win_back_what_was_spent(tmp_path):
    path = tmp_path / "spent.json"
    multiplier = noise_multiplier_for(BUDGET, 5)
    for k in range(5):
        accountant = Accountant(BUDGET, path)
        assert len(accountant.noise_multipliers) == k
        accountant.spend(multiplier)
    again = Accountant(BUDGET, path)
    assert again.spent == accountant.spent
    content = path.read_bytes()
    with pytest.raises(FeddagError, match="5 have spent"):
        again.spend(multiplier)
    assert path.read_bytes() == content


def test_what_cannot_be_written_down_is_not_spent(tmp_path):
    accountant = Accountant(BUDGET, tmp_path / "nowhere" / "spent.json")
    with pytest.raises(FeddagError, match="does not exist"):
        accountant.spend(10)
    assert accountant.noise_multipliers == []


@pytest.mark.parametrize("content", ["", "{}", "[]", "3", '{"noise_multipliers": [0]}', '{"noise_multipliers": ["a"]}'])
def test_a_damaged_record_is_no_fresh_start(tmp_path, content):
    path = tmp_path / "spent.json"
    path.write_text(content)
    with pytest.raises(FeddagError, match=r"spent\.json does not say what was spent.*Restore it") as caught:
        Accountant(BUDGET, path)
    assert "\n" not in str(caught.value)


finite = st.floats(-1e6, 1e6)
shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
answers = st.dictionaries(st.sampled_from("abc"), npst.arrays(np.float64, shapes, elements=finite), min_size=1)


@given(answers, st.floats(1e-3, 1e3))
def test_an_answer_is_no_longer_than_allowed_and_points_the_same_way(arrays, clip):
    found = protected(arrays, clip=clip)
    before = length(arrays)
    assert length(found) == pytest.approx(min(before, clip), rel=1e-8, abs=1e-8 * clip)
    factor = 1 if before <= clip else clip / before
    for name, array in arrays.items():
        np.testing.assert_allclose(found[name], factor * array, rtol=1e-8, atol=1e-8 * clip)


def test_it_is_the_change_from_the_tasks_arrays_that_is_limited():
    reference = {"U": np.full((2, 2), 100.0), "V": np.full(3, 7.0), "other": np.ones(9)}
    arrays = {"U": np.full((2, 2), 101.0), "V": np.full((3, 1), 2.0), "W": np.full(4, 3.0)}
    found = protected(arrays, reference, clip=1.0)
    before = math.sqrt(4 * 1 + 3 * 4 + 4 * 9)  # V has another shape than the task's, and counts whole
    np.testing.assert_allclose(found["U"], 100 + 1 / before)
    np.testing.assert_allclose(found["V"], 2 / before)
    np.testing.assert_allclose(found["W"], 3 / before)


def test_an_answer_within_the_limit_stays_as_it_is():
    arrays = {"U": np.array([0.1, -0.2], np.float32)}
    found = protected(arrays, {"U": np.zeros(2, np.float32)}, clip=10.0)
    np.testing.assert_allclose(found["U"], arrays["U"], atol=1e-7)
    assert found["U"].dtype == np.float32


def test_whole_numbers_become_such_that_noise_can_be_added():
    found = protected({"votes": np.eye(3, dtype=np.int8)}, clip=10.0, noise=lambda size: np.full(size, 0.25))
    np.testing.assert_allclose(found["votes"], np.eye(3) + 2.5)


@pytest.mark.parametrize("sites", [1, 5])
def test_the_noise_of_a_sum_has_the_planned_deviation(sites):
    draw = np.random.default_rng(0).standard_normal
    zeros = {"U": np.zeros(20_000), "V": np.zeros((100, 100))}
    total = sum(
        np.concatenate(
            [
                array.ravel()
                for array in protected(zeros, clip=0.5, noise_multiplier=4.0, sites=sites, noise=draw).values()
            ]
        )
        for _ in range(sites)
    )
    assert kstest(total / (0.5 * 4.0), "norm").pvalue > 0.01
    assert np.std(total) == pytest.approx(2.0, rel=0.02)


def test_the_systems_noise_is_normal_and_never_the_same():
    first, second = system_noise(50_000), system_noise(50_000)
    assert kstest(first, "norm").pvalue > 1e-6
    assert not np.isin(first[:100], second[:100]).any()  # of more than 2³⁰ steps each, 50,000 share some by chance
    assert np.isfinite(first).all()
    assert system_noise(0).shape == (0,)


def test_noise_is_the_systems_unless_given():
    a, b = (protected({"U": np.zeros(3)}, noise=None)["U"] for _ in range(2))
    assert (a != b).all()


def test_an_answer_under_noise_is_a_whole_number_of_steps_and_tells_nothing_between_them():
    draw = np.random.default_rng(3).standard_normal
    step = 1.0 / 2**30
    for value in (0.0, 0.1, 0.1 + 0.3 * step):
        found = protected({"U": np.full(100, value)}, clip=1.0, noise_multiplier=1.0, sites=1, noise=draw)["U"] / step
        np.testing.assert_array_equal(found, np.rint(found))


def test_a_weight_is_refused():
    with pytest.raises(FeddagError, match=r"weighs 600\. Set weighting='equal'"):
        add_noise(Answer(600.0, {}), {}, clip=1, noise_multiplier=1, sites=1)


def test_what_is_no_number_is_refused_before_it_is_scaled():
    with pytest.raises(FeddagError, match="no finite number"):
        protected({"U": np.array([1.0, math.nan])})


@pytest.mark.parametrize(
    "change", [{"clip": 0.0}, {"clip": math.inf}, {"noise_multiplier": 0.0}, {"sites": 0}, {"sites": 2.5}]
)
def test_settings_that_protect_nothing_are_refused(change):
    with pytest.raises(FeddagError, match=f"{next(iter(change))} must be"):
        protected({"U": np.zeros(2)}, **change)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-5), (-1, 1e-5), (math.inf, 1e-5), (1, 0), (1, 1)])
def test_a_budget_that_is_none_is_refused(epsilon, delta):
    with pytest.raises(FeddagError, match="must be"):
        PrivacyBudget(epsilon, delta)


class Steady:
    """A site that always answers the same."""

    def __init__(self, name: str, value: float) -> None:
        self.name, self.value = name, value

    def answer(self, task: Task) -> Answer:
        return Answer(1.0, {"U": task.arrays["U"] + self.value})

    def snapshot(self):
        return {"value": np.array(self.value)}

    def restore(self, state):
        self.value = float(state["value"])


def test_a_federation_of_private_sites_sees_limited_changes_and_ends_with_the_budget():
    draw = np.random.default_rng(1).standard_normal
    multiplier = noise_multiplier_for(BUDGET, 2)
    sites = [
        PrivateSite(Steady(f"{k}", k), Accountant(BUDGET), clip=0.5, noise_multiplier=multiplier, sites=4, noise=draw)
        for k in range(4)
    ]
    assert all(isinstance(site, Site) for site in sites)
    task = Task("toy", 0, {}, {"U": np.full(5000, 9.0)}, (0, 1, 2, 3))
    with InProcess(sites, 1) as federation:
        changes = federation.aggregate(task)["U"] - 9
        # three of four have a change, each of length 0.5, and so 0.5/√5000 in every entry
        expected, deviation = 3 / 4 * 0.5 / math.sqrt(5000), multiplier * 0.5 / 4
        assert np.mean(changes) == pytest.approx(expected, abs=4 * deviation / math.sqrt(5000))
        assert np.std(changes) == pytest.approx(deviation, rel=0.05)
        federation.aggregate(task)
        with pytest.raises(FeddagError, match="does not allow a further answer"):
            federation.aggregate(task)
    sites[0].restore({"value": np.array(3.0)})
    assert sites[0].snapshot() == {"value": np.array(3.0)}


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(FeddagError, match=r"pip install '\.\[flare\]'"):
        noise_multiplier_for(BUDGET, 3)


def test_what_was_spent_is_a_file_that_people_can_read(tmp_path):
    accountant = Accountant(BUDGET, tmp_path / "spent.json")
    accountant.spend(10)
    assert json.loads((tmp_path / "spent.json").read_text()) == {"noise_multipliers": [10.0]}
