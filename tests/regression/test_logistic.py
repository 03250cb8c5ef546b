"""The evidence of logistic regressions against integrals and optimisers of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from feddag.regression.logistic import INTERCEPT_VARIANCE, VARIANCES, Levels, fit_levels, fit_regression
from feddag.silos.variable_types import CONTINUOUS, Kind

BINARY = Kind("binary", (0, 1))
COLOUR = Kind("categorical", ("red", "green", "blue"))
GRADE = Kind("ordinal", (0, 1, 2, 3))
KINDS = (CONTINUOUS, BINARY, CONTINUOUS, COLOUR, BINARY, GRADE)
ROWS = 150


def table():
    """dose, ill, size, colour, well, grade: numbers and levels that depend on each other."""
    rng = np.random.default_rng(1)
    dose = rng.normal(size=ROWS)
    ill = rng.uniform(size=ROWS) < expit(2 * dose)
    size = 1.5 * ill + 0.7 * rng.normal(size=ROWS)
    colour = (np.stack([np.zeros(ROWS), size, 1 - size**2], axis=1) + rng.gumbel(size=(ROWS, 3))).argmax(axis=1)
    well = rng.uniform(size=ROWS) < expit(np.array([-1.5, 1.5, 0])[colour])
    grade = np.digitize(1.2 * size + rng.logistic(size=ROWS), [-0.5, 0.8, 2])
    return np.column_stack([dose, ill, size, colour, well, grade]).astype(float)


VALUES = table()


def test_it_agrees_with_a_numerical_integral():
    """Over the intercept alone, and over the intercept and one weight."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=80)
    y = (rng.uniform(size=80) < expit(x)).astype(float)
    levels = Levels.of(y, BINARY)
    signs = 2 * y - 1

    def normal(value, variance):
        return np.exp(-(value**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    def likelihood(intercept, weight):
        return np.exp(-np.log1p(np.exp(-signs * np.sqrt(2) * (intercept + weight * x))).sum() + 80 * np.log(2))

    def over_intercepts(weight):
        return quad(lambda a: likelihood(a, weight) * normal(a, INTERCEPT_VARIANCE), -4, 4)[0]

    alone = np.log(over_intercepts(0.0)) - 80 * np.log(2)
    assert fit_regression(np.empty((80, 0)), levels, 1.0).log_evidence == pytest.approx(alone, abs=0.01)
    both = np.log(quad(lambda w: over_intercepts(w) * normal(w, 1.0), -4, 4)[0]) - 80 * np.log(2)
    assert fit_regression(x[:, None], levels, 1.0).log_evidence == pytest.approx(both, abs=0.02)


@pytest.mark.parametrize("node", [1, 3, 5])
def test_it_is_laplaces_formula_at_the_posteriors_mode(node):
    values, kind, variance = VALUES[:, node], KINDS[node], 0.7
    features = np.column_stack([VALUES[:, 0], np.sin(VALUES[:, 2])])
    levels = Levels.of(values, kind)
    shifts, directions = levels.shifts.shape[1], levels.directions.shape[1]

    def negative(theta):
        weights = theta[shifts:].reshape(2, directions)
        logs = log_softmax(theta[:shifts] @ levels.shifts.T + features @ weights @ levels.directions.T, axis=1)
        prior = (theta[:shifts] ** 2).sum() / INTERCEPT_VARIANCE + (weights**2).sum() / variance
        return prior / 2 - logs[np.arange(len(values)), values.astype(int)].sum()

    size = shifts + 2 * directions
    mode = minimize(negative, np.zeros(size), method="BFGS", options={"gtol": 1e-5}).x
    step, unit = 1e-3, np.eye(size)
    hessian = [
        [
            sum(s * t * negative(mode + step * (s * unit[i] + t * unit[j])) for s in (1, -1) for t in (1, -1))
            / (4 * step**2)
            for j in range(size)
        ]
        for i in range(size)
    ]
    log_prior = -(shifts * np.log(INTERCEPT_VARIANCE) + 2 * directions * np.log(variance)) / 2
    expected = -negative(mode) + log_prior - np.linalg.slogdet(hessian)[1] / 2
    found = fit_regression(features, levels, variance)
    assert found.log_evidence == pytest.approx(expected, abs=1e-3)
    assert found.row_log_likelihoods.sum() == pytest.approx(
        -negative(found.parameters)
        + (found.parameters[:shifts] ** 2).sum() / INTERCEPT_VARIANCE / 2
        + (found.parameters[shifts:] ** 2).sum() / variance / 2
    )


def test_it_does_not_depend_on_where_newtons_method_begins():
    features, levels = VALUES[:, [0, 2]], Levels.of(VALUES[:, 3], COLOUR)
    far = np.random.default_rng(0).normal(0, 5, 6)
    ours = fit_regression(features, levels, 10.0)
    assert fit_regression(features, levels, 10.0, far).log_evidence == pytest.approx(ours.log_evidence, abs=1e-6)


def test_perfect_separation_has_a_finite_score():
    x = np.linspace(-1, 1, 40)[:, None]
    fit = fit_levels(1e3 * x, Levels.of((x[:, 0] > 0).astype(float), BINARY), [1])
    assert np.isfinite(fit.score)
    assert fit.score < 0.2 * np.log(2)


def test_it_is_averaged_over_variances_and_layers():
    features, levels = VALUES[:, [0, 2]], Levels.of(VALUES[:, 1], BINARY)
    options = [fit_regression(features[:, :end], levels, v).log_evidence for end in (1, 2) for v in VARIANCES]
    expected = -(np.log(np.mean(np.exp(np.array(options) - max(options)))) + max(options)) / ROWS
    assert fit_levels(features, levels, [1, 2]).score == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("node", "order"), [(1, [1, 0]), (3, [2, 0, 1]), (5, [3, 2, 1, 0])])
def test_other_numbers_of_the_levels_change_nothing(node, order):
    """Of an ordinal variable's only the reverse order."""
    features, values = VALUES[:, [0, 2]], VALUES[:, node]
    renamed = np.array(order, dtype=float)[values.astype(int)]
    scores = [fit_levels(features, Levels.of(each, KINDS[node]), [1, 2]).score for each in (values, renamed)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)
