"""Promises of the functions and of the noise, against formulas by hand and known distributions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from feddag.silos.simulation import gaussian_process
from feddag.silos.simulation.gaussian_process import sample_exactly, sample_with_fourier_features
from feddag.silos.simulation.mechanisms import (
    MECHANISMS,
    AdditiveGaussianProcess,
    Linear,
    Mlp,
    MultipleIndex,
    signed_uniform,
)
from feddag.silos.simulation.noise import NOISE_LAWS

INPUTS = np.array([[0.0, 0.0], [0.3, 0.1], [1.0, -1.0], [1.0, -1.0], [2.0, 0.5], [-1.5, 2.0]])


def rbf(inputs: np.ndarray) -> np.ndarray:
    return np.array([[np.exp(-((a - b) @ (a - b)) / 2) for b in inputs] for a in inputs])


def assert_covariance(draws: np.ndarray, expected: np.ndarray) -> None:
    """Within 4.5 standard errors of a Gaussian's sample covariance, entry by entry."""
    variances = np.diag(expected)
    error = np.sqrt((np.outer(variances, variances) + expected**2) / len(draws))
    assert np.all(np.abs(draws.T @ draws / len(draws) - expected) < 4.5 * error)


@pytest.mark.parametrize(
    "sample",
    [sample_exactly, lambda inputs, rng: sample_with_fourier_features(inputs, rng, features=2000)],
    ids=["exact", "fourier"],
)
def test_gaussian_process_has_the_rbf_covariance(sample: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(7)
    assert_covariance(np.array([sample(INPUTS, rng) for _ in range(8000)]), rbf(INPUTS))


def test_additive_gaussian_process_sums_one_function_per_parent() -> None:
    mechanism = AdditiveGaussianProcess(np.random.default_rng(3))
    expected = rbf(INPUTS[:, :1]) + rbf(INPUTS[:, 1:])
    assert_covariance(np.array([mechanism(INPUTS) for _ in range(4000)]), expected)


def test_exact_draws_span_several_blocks_and_any_rank() -> None:
    """Whitened by the kernel's own Cholesky factor, a draw is standard normal, also over several blocks."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(1200, 5)) * 3
    white = np.linalg.solve(np.linalg.cholesky(rbf_fast(inputs)), sample_exactly(inputs, rng))
    assert stats.kstest(white, "norm").pvalue > 0.01


def rbf_fast(inputs: np.ndarray) -> np.ndarray:
    squares = (inputs**2).sum(axis=1)
    return np.exp(inputs @ inputs.T - squares[:, None] / 2 - squares / 2) + 1e-10 * np.eye(len(inputs))


def test_equal_inputs_get_equal_values() -> None:
    for sample in (sample_exactly, sample_with_fourier_features):
        values = sample(INPUTS, np.random.default_rng(1))
        assert values[2] == pytest.approx(values[3], abs=1e-4)


def test_fourier_features_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = np.random.default_rng(0).normal(size=(100, 3))
    whole = sample_with_fourier_features(inputs, np.random.default_rng(1))
    monkeypatch.setattr(gaussian_process, "_BLOCK_ROWS", 7)
    np.testing.assert_allclose(sample_with_fourier_features(inputs, np.random.default_rng(1)), whole)


def test_fourier_features_take_over_beyond_the_exact_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_process, "EXACT_ROWS", 5)
    drawn = gaussian_process.sample_gaussian_process(INPUTS, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, sample_with_fourier_features(INPUTS, np.random.default_rng(1)))


def test_signed_uniform_is_uniform_on_both_intervals() -> None:
    draws = signed_uniform(np.random.default_rng(0), 20_000)
    assert np.abs(draws).min() >= 0.5
    assert np.abs(draws).max() <= 2
    assert stats.kstest(np.abs(draws), stats.uniform(0.5, 1.5).cdf).pvalue > 0.01
    assert stats.binomtest(int((draws > 0).sum()), len(draws)).pvalue > 0.01


def test_linear_is_a_weighted_sum() -> None:
    assert Linear(np.array([2.0, -1.0]))(np.array([[1.0, 3.0], [0.5, 0.0]])).tolist() == [-1.0, 1.0]


def test_mlp_is_one_hidden_layer_of_a_hundred_sigmoid_units() -> None:
    mlp = Mlp.draw(2, np.random.default_rng(0))
    assert mlp.hidden.shape == (2, 100)
    by_hand = [
        sum(
            mlp.output[unit] / (1 + np.exp(-(row[0] * mlp.hidden[0, unit] + row[1] * mlp.hidden[1, unit])))
            for unit in range(100)
        )
        for row in INPUTS
    ]
    np.testing.assert_allclose(mlp(INPUTS), by_hand)


def test_mim_is_tanh_cosine_and_sine_of_three_indices() -> None:
    theta = np.array([[0.5, -1.0, 2.0], [1.5, 0.7, -0.6]])
    by_hand = [np.tanh(0.5 * a + 1.5 * b) + np.cos(-1.0 * a + 0.7 * b) + np.sin(2.0 * a - 0.6 * b) for a, b in INPUTS]
    np.testing.assert_allclose(MultipleIndex(theta)(INPUTS), by_hand)
    assert MultipleIndex.draw(4, np.random.default_rng(0)).theta.shape == (4, 3)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_a_function_of_the_stream_alone(name: str) -> None:
    inputs = np.random.default_rng(0).normal(size=(50, 3))
    first, again, other = (MECHANISMS[name].draw(3, np.random.default_rng(seed))(inputs) for seed in (5, 5, 6))
    assert first.shape == (50,)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


DISTRIBUTIONS = {
    "gaussian": stats.norm(),
    "laplace": stats.laplace(scale=2**-0.5),
    "uniform": stats.uniform(-(3**0.5), 2 * 3**0.5),
    "exponential": stats.expon(-1),
    "gumbel": stats.gumbel_r(-np.euler_gamma * 6**0.5 / np.pi, 6**0.5 / np.pi),
}


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_noise_follows_its_law_with_mean_zero_and_variance_one(law: str) -> None:
    distribution = DISTRIBUTIONS[law]
    assert distribution.mean() == pytest.approx(0, abs=1e-12)
    assert distribution.var() == pytest.approx(1)
    draws = NOISE_LAWS[law](np.random.default_rng(11), 20_000)
    assert stats.kstest(draws, distribution.cdf).pvalue > 0.01
    fourth_moment = distribution.stats("k") + 3
    assert abs(draws.mean()) < 4 / np.sqrt(len(draws))
    assert abs(draws.var() - 1) < 4 * np.sqrt((fourth_moment - 1) / len(draws))
