"""Scores against the formula written out row by row."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.regression.evidence import RIDGES, CoarseEvidence, best_fit
from feddag.regression.features import FUNCTIONS, Features, joint_degrees, layers, waves
from feddag.regression.gram import centred_gram

ROWS, NODES = 120, 5


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((ROWS, NODES))
    table[:, 3] += table[:, 0] * table[:, 1]
    table[:, 4] += np.sin(2 * table[:, 3])
    return (table - table.mean(axis=0)) / table.std(axis=0)


def written_out(child, features, precision=None):
    """The mean evidence over all λ, from the covariance of all rows."""
    scores = []
    for ridge in RIDGES:
        covariance = np.eye(ROWS) + features @ features.T / ridge
        quadratic = child @ np.linalg.solve(covariance, child) / ROWS
        first = 0.5 * (np.log(quadratic) if precision is None else precision * quadratic - np.log(precision))
        scores.append(first + np.linalg.slogdet(covariance)[1] / (2 * ROWS))
    return np.array(scores)


def mean_evidence(scores):
    return -np.log(np.exp(-ROWS * (scores - scores.min())).mean()) / ROWS + scores.min()


def test_waves_make_up_the_kernel():
    points = np.linspace(-2.5, 2.5, 11)[:, None]
    functions = waves(points, 60)[:, 0]
    np.testing.assert_allclose(functions @ functions.T, np.exp(-((points - points.T) ** 2) / 2), atol=1e-9)


def test_waves_of_far_outliers_are_finite():
    assert np.isfinite(waves(np.array([[1e3, -1e6]]), 13)).all()


@pytest.mark.parametrize("functions", [FUNCTIONS, 3])
@pytest.mark.parametrize("precision", [None, 3.0])
@pytest.mark.parametrize(("child", "parents"), [(3, ()), (3, (0, 1)), (2, (0, 3, 4)), (0, (1,))])
def test_a_neighbourhood_holds_the_scores_of_all_families_one_parent_away(values, functions, precision, child, parents):
    features = Features(values).coarse(functions)
    gram = centred_gram(features.mean(axis=0), features.T @ features / ROWS, ROWS)
    precisions = None if precision is None else np.full(NODES, precision)
    chosen = np.isin(np.arange(NODES), parents)[None]
    found = CoarseEvidence(gram, ROWS, precisions, NODES).neighbourhoods(np.array([child]), chosen)[0]

    for other in range(NODES):
        family = sorted(set(parents) if other == child else set(parents) ^ {other})
        columns = [node * functions + k for node in family for k in range(functions)]
        used = features[:, columns] - features[:, columns].mean(axis=0)
        expected = mean_evidence(written_out(values[:, child], used, precision))
        assert found[other] == pytest.approx(expected, abs=1e-12)


def test_a_neighbourhood_of_many_near_copies_keeps_its_digits():
    rng = np.random.default_rng(1)
    nodes = 14
    table = rng.standard_normal((ROWS, 1)) + 1e-3 * rng.standard_normal((ROWS, nodes))
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    features = Features(table).coarse()
    features = features - features.mean(axis=0)
    parents = np.arange(nodes) > 1
    evidence = CoarseEvidence(features.T @ features, ROWS, None, nodes)
    found = evidence.neighbourhoods(np.array([0]), parents[None])[0]
    for other in range(nodes):
        family = parents ^ ((np.arange(nodes) == other) & (other != 0))
        expected = mean_evidence(written_out(table[:, 0], features[:, np.repeat(family, FUNCTIONS)]))
        assert found[other] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("precision", [None, 3.0])
@pytest.mark.parametrize("parents", [(0,), (0, 1), (0, 1, 2)])
def test_joint_evidence_is_averaged_over_layers_and_ridges(values, parents, precision):
    features = Features(values).joint(parents, ROWS)
    features = features - features.mean(axis=0)
    child, ends = values[:, 3], layers(len(parents), ROWS)
    fit = best_fit(features.T @ features, features.T @ child, child @ child, ROWS, ends, precision)
    options = np.array([written_out(child, features[:, :end], precision) for end in ends])
    assert ends[-1] == features.shape[1]
    assert fit.score == pytest.approx(mean_evidence(options.reshape(-1)), abs=1e-10)
    layer, ridge = np.unravel_index(options.argmin(), options.shape)
    assert (fit.size, fit.ridge) == (ends[layer], RIDGES[ridge])


def test_no_parents_leave_the_variance(values):
    fit = best_fit(np.zeros((0, 0)), np.zeros(0), float(ROWS), ROWS, layers(0, ROWS), None)
    assert fit.score == 0.0
    assert Features(values).joint((), ROWS).shape == (ROWS, 0)


def test_a_determined_variable_has_a_finite_score(values):
    features = Features(values).joint((0, 1), ROWS)
    features = features - features.mean(axis=0)
    child = values[:, 0]
    fit = best_fit(features.T @ features, features.T @ child, child @ child, ROWS, layers(2, ROWS), None)
    assert np.isfinite(fit.score)


@pytest.mark.parametrize(("parents", "most"), [(2, 150), (3, 150), (6, 300), (12, 300), (2, 2), (2, -8)])
def test_joint_functions_come_in_whole_layers_within_their_limit(parents, most):
    degrees = np.concatenate(joint_degrees(parents, most))
    totals = degrees.sum(axis=1)
    assert len(np.unique(degrees, axis=0)) == len(degrees) <= max(1, most)
    assert (np.diff(totals) >= 0).all()
    for parent in range(1, parents):
        swapped = degrees.copy()
        swapped[:, [0, parent]] = swapped[:, [parent, 0]]
        assert {tuple(row) for row in swapped} == {tuple(row) for row in degrees}
