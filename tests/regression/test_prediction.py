from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from feddag.regression.features import ROWS_PER_SUMMED_FUNCTION, Frame, IndicatorFeatures
from feddag.regression.prediction import CategoryFit, GaussianFit, RegressionSums


def log_evidence(features, y, ridge):
    """Of all rows at once, for a flat prior on the mean and on the logarithm of the noise."""
    rows = len(y)
    precision = np.linalg.inv(np.eye(rows) + features @ features.T / ridge)
    ones = np.ones(rows)
    across = precision @ ones
    left = y @ precision @ y - (y @ across) ** 2 / (ones @ across)
    return (
        np.linalg.slogdet(precision)[1] / 2
        - np.log(ones @ across) / 2
        + gammaln((rows - 1) / 2)
        - (rows - 1) / 2 * np.log(np.pi * left)
    )


@pytest.mark.parametrize("rows", [5, 30])
def test_a_prediction_is_the_ratio_of_two_evidences(rows):
    draw = np.random.default_rng(rows)
    features, y = draw.normal(size=(rows + 1, 3)) + 2, draw.normal(size=rows + 1) + 5
    fit = GaussianFit.to(RegressionSums.of(features[:-1], y[:-1]), [3], rows)
    ridge = (fit.factor @ fit.factor.T)[0, 0] - ((features[:-1, 0] - features[:-1, 0].mean()) ** 2).sum()

    expected = log_evidence(features, y, ridge) - log_evidence(features[:-1], y[:-1], ridge)
    assert fit.log_densities(features[-1:], y[-1:], 1.0)[0] == pytest.approx(expected, abs=1e-8)


def test_units_shift_a_density_by_their_logarithm():
    draw = np.random.default_rng(0)
    features, y = draw.normal(size=(20, 2)), draw.normal(size=20)
    fit = GaussianFit.to(RegressionSums.of(features, y), [2], 20)
    np.testing.assert_allclose(fit.log_densities(features, y, 10.0), fit.log_densities(features, y, 1.0) - np.log(10))


@pytest.mark.parametrize("parents", [(), (0,), (2,), (0, 1), (0, 2), (2, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("rows", [12, 2000])
@pytest.mark.parametrize("summed", [False, True])
def test_layers_end_where_the_functions_do(parents, rows, summed):
    draw = np.random.default_rng(0)
    values = np.column_stack([draw.normal(size=(30, 2)), draw.integers(2, size=30), draw.integers(3, size=30)])
    levels = np.array([0, 0, 2, 3])
    frame = Frame.of(values.mean(axis=0), values.var(axis=0), levels)
    features = IndicatorFeatures(frame.standardise(values), levels)
    ends = features.layers(parents, rows, summed=summed)

    assert ends == sorted(set(ends))
    assert features.joint(parents, rows, summed=summed).shape == (30, ends[-1])
    if summed:
        assert len(ends) == 1 or ROWS_PER_SUMMED_FUNCTION * ends[-1] <= rows


def test_categories_have_probabilities_that_add_up_to_one_even_of_levels_never_seen():
    draw = np.random.default_rng(0)
    features, codes = draw.normal(size=(50, 2)), draw.integers(2, size=50)
    for fit in (CategoryFit.to(features, codes, 4, [2]), CategoryFit.to(features[:, :0], codes, 4, [0])):
        used = features if len(fit.theta) else features[:, :0]
        total = sum(np.exp(fit.log_densities(used, np.full(50, level))) for level in range(4))
        np.testing.assert_allclose(total, 1)
