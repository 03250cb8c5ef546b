"""The claimed (ε, δ) of a release against independent computations, and a ledger that cannot be overrun."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from feddag import FeddagError
from feddag.federation.row_privacy import NoisePlan, RowLedger, RowPrivacy, delta_of, epsilon_for, multiplier_for

accounting = pytest.importorskip("dp_accounting")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_the_noise_is_what_another_library_finds(epsilon, delta):
    theirs = accounting.gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    assert theirs * (1 - 1e-9) < multiplier_for(epsilon, delta) < theirs * 1.0001


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 10.0])
def test_the_privacy_loss_distribution_of_the_discrete_gaussian_keeps_the_claim(epsilon):
    plan = NoisePlan(RowPrivacy(epsilon, 1e-6), sensitivity=50, shares=1, numbers=1)
    distribution = accounting.pld.privacy_loss_distribution.from_discrete_gaussian_mechanism(
        plan.share_deviation, sensitivity=50, pessimistic_estimate=True, value_discretization_interval=1e-4
    )
    assert distribution.get_delta_for_epsilon(epsilon) <= 1e-6 * 1.001
    assert plan.claimed_delta <= 1e-6


def test_delta_is_that_of_a_sum_over_all_outcomes():
    deviation, sensitivity, epsilon = 30, 20, 1.0
    values = np.arange(-1000, 1001)
    here, there = (np.exp(-((values - at) ** 2) / (2 * deviation**2)) for at in (0, sensitivity))
    exact = np.maximum(here / here.sum() - math.exp(epsilon) * there / there.sum(), 0).sum()
    assert exact == pytest.approx(delta_of(epsilon, deviation / sensitivity), rel=2e-3)


def test_several_rows_of_one_person_take_so_much_more_noise():
    one, three = (NoisePlan(RowPrivacy(1.0, 1e-6, rows), 1000, 4, 10) for rows in (1, 3))
    assert three.share_deviation == pytest.approx(3 * one.share_deviation, rel=1e-3)


@pytest.mark.parametrize("shares", [1, 2, 9])
def test_the_shares_together_are_no_less_than_the_whole(shares):
    plan = NoisePlan(RowPrivacy(1.0, 1e-6), 10**8, shares, 1000)
    assert plan.deviation >= multiplier_for(1.0, 1e-6) * 10**8
    assert epsilon_for(plan.deviation / plan.sensitivity, 1e-6) <= 1.0
    assert plan.claimed_delta <= 1e-6


@pytest.mark.parametrize("change", [{"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.0}, {"rows_per_person": 0}])
def test_a_guarantee_that_is_none_is_refused(change):
    with pytest.raises(FeddagError, match=f"{next(iter(change))} must be"):
        RowPrivacy(**{"epsilon": 1.0, "delta": 1e-6, **change})


def ledger(folder, epsilon=2.0, witnesses=("witness.json",)):
    return RowLedger(
        folder / "table" / "ledger.json",
        limit=RowPrivacy(epsilon, 1e-6),
        witnesses=tuple(folder / name for name in witnesses),
    )


def test_a_release_is_charged_once_and_others_until_the_budget_ends(tmp_path):
    one = RowPrivacy(1.0, 1e-6)
    for _ in range(3):
        ledger(tmp_path).charge("same", "study", one)
    assert ledger(tmp_path).releases == 1
    assert ledger(tmp_path).spent(1e-6) == pytest.approx(1.0, rel=1e-3)
    ledger(tmp_path).charge("second", "another study", one)
    spent = ledger(tmp_path).spent(1e-6)
    assert 1.0 < spent < 2.0  # together they reveal less than the sum
    ledger(tmp_path).charge("third", "study", one)
    with pytest.raises(
        FeddagError, match=r"does not fit the privacy budget of this table, ε=2 .* 3 releases have spent"
    ):
        ledger(tmp_path).charge("fourth", "study", one)
    assert ledger(tmp_path).releases == 3


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_parts_of_a_study_reveal_together_what_it_states(share):
    whole = RowPrivacy(1.0, 1e-6)
    precision = sum(whole.part(each).multiplier ** -2 for each in (share, 1 - share))
    assert epsilon_for(precision**-0.5, 1e-6) == pytest.approx(1.0, rel=1e-4)
    assert epsilon_for(precision**-0.5, 1e-6) <= 1.0


def test_a_study_of_several_releases_begins_only_if_all_of_them_fit(tmp_path):
    whole = RowPrivacy(1.5, 1e-6)
    for share in (0.2, 0.8):
        ledger(tmp_path).charge(f"{share} of one", "study", whole, share)
    with pytest.raises(FeddagError, match="does not fit the privacy budget"):
        ledger(tmp_path).charge("0.2 of another", "another study", whole, 0.2)
    assert ledger(tmp_path).releases == 2


def test_releases_together_are_what_a_numerical_composition_finds(tmp_path):
    found = ledger(tmp_path, 10.0)
    for place, epsilon in enumerate((0.5, 1.0, 2.0)):
        found.charge(str(place), "study", RowPrivacy(epsilon, 1e-6))
    distributions = accounting.pld.privacy_loss_distribution
    total = distributions.identity(value_discretization_interval=1e-4)
    for epsilon in (0.5, 1.0, 2.0):
        total = total.compose(
            distributions.from_gaussian_mechanism(multiplier_for(epsilon, 1e-6), value_discretization_interval=1e-4)
        )
    assert found.spent(1e-6) == pytest.approx(total.get_epsilon_for_delta(1e-6), rel=1e-3)


def test_an_older_copy_or_none_is_found_out(tmp_path):
    ledger(tmp_path).charge("first", "study", RowPrivacy(0.5, 1e-6))
    path = tmp_path / "table" / "ledger.json"
    backup = path.read_text()
    ledger(tmp_path).charge("second", "study", RowPrivacy(0.5, 1e-6))
    path.write_text(backup)
    with pytest.raises(FeddagError, match=r"holds 1 releases, and .* knows of 2"):
        ledger(tmp_path)
    path.unlink()
    with pytest.raises(FeddagError, match="holds 0 releases"):
        ledger(tmp_path)


def test_another_history_of_the_same_length_is_found_out(tmp_path):
    ledger(tmp_path).charge("first", "study", RowPrivacy(0.5, 1e-6))
    other = tmp_path / "other"
    ledger(other).charge("else", "study", RowPrivacy(0.1, 1e-6))
    (tmp_path / "table" / "ledger.json").write_text((other / "table" / "ledger.json").read_text())
    with pytest.raises(FeddagError, match="restored from an older copy, or removed"):
        ledger(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", '{"releases": [{"epsilon": 1}]}', "[1]"])
def test_a_damaged_ledger_is_no_fresh_start(tmp_path, content):
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "ledger.json").write_text(content)
    with pytest.raises(FeddagError, match="it was changed or damaged"):
        ledger(tmp_path)


def test_a_changed_entry_is_found_out(tmp_path):
    ledger(tmp_path).charge("first", "study", RowPrivacy(1.5, 1e-6))
    path = tmp_path / "table" / "ledger.json"
    content = json.loads(path.read_text())
    content["releases"][0]["epsilon"] = 0.1
    path.write_text(json.dumps(content))
    with pytest.raises(FeddagError, match="an entry does not follow"):
        ledger(tmp_path)
