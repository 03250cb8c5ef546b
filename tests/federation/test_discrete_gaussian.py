"""Noise on whole numbers has exactly the law that the accounting assumes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from feddag.federation.discrete_gaussian import draw, log_distance_of_sum, simulated_noise, system_noise


def law(deviation, values):
    """The discrete Gaussian's probabilities, from its definition."""
    everything = np.arange(-60 * deviation, 60 * deviation + 1)
    total = np.exp(-(everything**2) / (2 * deviation**2)).sum()
    return np.exp(-(values**2) / (2 * deviation**2)) / total


@pytest.mark.parametrize("deviation", [1, 3, 10])
def test_it_has_the_law_of_its_definition(deviation):
    rng = np.random.default_rng(1)
    found = np.array([draw(deviation, lambda most: int(rng.integers(most))) for _ in range(20_000)])
    values = np.arange(-3 * deviation, 3 * deviation + 1)
    counts = np.array([(found == value).sum() for value in values])
    expected = 20_000 * law(deviation, values)
    assert chisquare([*counts, 20_000 - counts.sum()], [*expected, 20_000 - expected.sum()]).pvalue > 1e-3


def test_noise_as_large_as_in_a_release_is_whole_and_normal():
    whole = system_noise(4000, 10**9)
    assert (whole == np.rint(whole)).all()
    found = whole / 1e9
    assert abs(found.mean()) < 5 / math.sqrt(4000)
    assert abs(found.std() - 1) < 5 / math.sqrt(8000)


def test_no_two_draws_of_the_system_are_alike_and_those_of_a_seed_are():
    assert (system_noise(20, 10**9) != system_noise(20, 10**9)).any()
    np.testing.assert_array_equal(simulated_noise(1, 2)(20, 10**9), simulated_noise(1, 2)(20, 10**9))
    assert (simulated_noise(1, 2)(20, 10**9) != simulated_noise(1, 3)(20, 10**9)).any()


@pytest.mark.parametrize("deviation", [1, 2])
def test_the_sum_of_shares_is_as_near_to_one_discrete_gaussian_as_is_claimed(deviation):
    values = np.arange(-40, 41)
    share = law(deviation, values)
    summed = np.convolve(share, share)
    one = np.exp(-(np.arange(-80, 81) ** 2) / (4 * deviation**2))
    distance = np.abs(summed - one / one.sum()).sum() / 2
    assert distance <= math.exp(log_distance_of_sum(deviation, 2, 1))
