"""What residuals gain if noise need not be normal, nor of one size, and that this tells directions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from feddag import EvidenceSearch
from feddag.regression.features import Features
from feddag.regression.noise_models import (
    NoiseModels,
    normal_log_likelihood,
    row_log_densities,
    shaped_log_likelihoods,
)
from feddag.regression.views import MOST_ROWS, evenly_spaced

ROWS = 600
LAWS = {
    "uniform": (lambda rng, size: rng.uniform(-1, 1, size), 0.1765),
    "exponential": (lambda rng, size: rng.exponential(size=size), 0.4189),
    "Laplace": (lambda rng, size: rng.laplace(size=size), 0.0724),
}
"""With their negentropy."""
NO_PARENTS = np.zeros(0, dtype=int)


def gained(residuals):
    return NoiseModels(np.zeros((len(residuals), 0))).gains(residuals, [NO_PARENTS] * residuals.shape[1])


def test_normal_noise_gains_hardly_anything():
    gain = ROWS * gained(np.random.default_rng(0).standard_normal((ROWS, 500)))
    assert (gain < 1).mean() > 0.98
    assert gain.max() < 5
    assert gain.min() >= -np.log(8) - 1e-9  # eight models, all as likely beforehand


@pytest.mark.parametrize("law", LAWS)
def test_other_noise_gains_about_its_negentropy(law):
    draw, negentropy = LAWS[law]
    (gain,) = gained(draw(np.random.default_rng(0), (MOST_ROWS, 1)))
    assert 0.65 * negentropy < gain < 1.05 * negentropy


def test_sharp_ends_are_not_blurred():
    rng = np.random.default_rng(0)
    for law, least in (("uniform", 0.9), ("exponential", 0.85)):
        draw, negentropy = LAWS[law]
        (blurred, _, sharp), _ = shaped_log_likelihoods(draw(rng, (ROWS, 50)))
        assert (sharp > blurred).all()
        (gain,) = gained(draw(rng, (MOST_ROWS, 1)))
        assert gain > least * negentropy


@pytest.mark.parametrize("law", ["standard_normal", "laplace"])
def test_where_ends_are_not_sharp_folding_costs_its_price(law):
    blurred, _, sharp = ROWS * shaped_log_likelihoods(getattr(np.random.default_rng(0), law)(size=(ROWS, 200)))[0]
    assert (sharp < blurred - 10).all()


@pytest.mark.parametrize("law", LAWS)
def test_single_precision_is_enough(law):
    residuals = LAWS[law][0](np.random.default_rng(0), (ROWS, 20))
    single = NoiseModels(np.zeros((ROWS, 0), np.float32)).gains(residuals, [NO_PARENTS] * 20)
    np.testing.assert_allclose(single, gained(residuals), atol=1e-4)


@pytest.mark.parametrize("law", LAWS)
def test_units_do_not_matter(law):
    residuals = LAWS[law][0](np.random.default_rng(0), (ROWS, 20))
    np.testing.assert_allclose(gained(5 - 1000 * residuals), gained(residuals), atol=0.01)


def test_a_row_is_judged_by_all_others():
    """One far out row has the density of a stranger, not that of its own kernel."""
    residuals = np.random.default_rng(0).standard_normal((ROWS, 1))
    residuals[0] = 1e6
    (wide, *_), _ = shaped_log_likelihoods(residuals)
    without = np.log(norm.pdf(residuals[1:])).mean()
    assert wide[0] < without  # and yet:
    assert ROWS * (without - wide[0]) < 60
    assert normal_log_likelihood(residuals)[0] < wide[0] - 5


def test_noise_whose_size_depends_on_the_parents_gains_what_the_sizes_tell():
    rng = np.random.default_rng(1)
    parent, noise = rng.standard_normal((2, 4000))
    features = Features(parent[:, None]).coarse()
    size = np.exp(0.5 * parent)
    models, columns = NoiseModels(features), [np.arange(features.shape[1])]
    (gain,) = models.gains((size * noise)[:, None], columns)
    truth = norm.logpdf(noise).mean() - np.log(size).mean() - normal_log_likelihood((size * noise)[:, None])[0]
    assert 0.9 * truth < gain < 1.02 * truth
    (none,) = models.gains(noise[:, None], columns)
    assert 4000 * none < 1


def test_row_losses_have_the_mean_of_the_best_model():
    rng = np.random.default_rng(2)
    parent = rng.standard_normal(ROWS)
    features = Features(parent[:, None]).coarse()
    models, columns = NoiseModels(features), [np.arange(features.shape[1])] * 3
    residuals = np.column_stack(
        [rng.standard_normal(ROWS), rng.exponential(size=ROWS) - 1, np.exp(parent) * rng.standard_normal(ROWS)]
    )
    losses = models.row_losses(residuals, columns)
    expected = -normal_log_likelihood(residuals - residuals.mean(axis=0)) - models.gains(residuals, columns)
    np.testing.assert_allclose(losses.mean(axis=0), expected, atol=4 / ROWS)


def test_of_many_rows_some_are_looked_at():
    assert len(evenly_spaced(25 * MOST_ROWS, MOST_ROWS)) == MOST_ROWS
    np.testing.assert_array_equal(evenly_spaced(7, MOST_ROWS), np.arange(7))


@pytest.mark.parametrize("law", LAWS)
def test_densities_integrate_to_one(law):
    values = np.sort(LAWS[law][0](np.random.default_rng(3), (4000, 1)), axis=0)
    density = np.exp(row_log_densities(values))[:, 0]
    assert np.trapezoid(density, values[:, 0]) == pytest.approx(1, abs=0.05)


def test_what_rounding_leaves_of_a_determined_variable_breaks_nothing():
    assert np.isfinite(gained(np.random.default_rng(0).exponential(size=(ROWS, 2)) * [0, 1e-12])).all()


def tables_of(cause_law, effect):
    rng = np.random.default_rng(1)
    tables = []
    for _ in range(3):
        cause = cause_law(rng, ROWS)
        cause = (cause - cause.mean()) / cause.std()
        tables.append(pd.DataFrame({"cause": cause, "effect": effect(cause, rng)}))
    return tables


EFFECTS = {
    "of another shape": lambda cause, rng: cause + rng.exponential(size=len(cause)),
    "of a size by the cause": lambda cause, rng: cause + np.exp(0.7 * cause) * rng.standard_normal(len(cause)),
    "bent": lambda cause, rng: np.exp(np.tanh(2 * cause) + 0.5 * rng.standard_normal(len(cause))),
}


@pytest.mark.parametrize("sharing", ["graph", "all"])
@pytest.mark.parametrize("noise", EFFECTS)
def test_noise_tells_the_direction(sharing, noise):
    learned = EvidenceSearch(sharing).fit(tables_of(np.random.Generator.standard_normal, EFFECTS[noise]))
    (told,) = learned.edge_evidence_.itertuples()
    assert (told.cause, told.effect, told.present) == ("cause", "effect", True)
    assert told.reversed > max(
        np.log(19), 1.645 * told.reversed_error
    )  # whether a hidden cause explains it is asked apart


@pytest.mark.parametrize("sharing", ["graph", "all"])
@pytest.mark.parametrize("law", LAWS)
def test_a_line_from_a_cause_that_is_not_normal_is_not_surely_reversed(sharing, law):
    """The curve that fits the cause to its effect leaves less variance than the line that made the effect."""
    effect = lambda cause, rng: cause + rng.standard_normal(len(cause))  # noqa: E731
    learned = EvidenceSearch(sharing).fit(tables_of(LAWS[law][0], effect))
    assert ("effect", "cause") not in learned.graph_.edges


def test_a_uniform_cause_with_uniform_noise_is_the_cause():
    learned = EvidenceSearch("all", restarts=0).fit(
        tables_of(LAWS["uniform"][0], lambda a, rng: a + rng.uniform(-1, 1, len(a)))
    )
    (told,) = learned.edge_evidence_.itertuples()
    assert (told.cause, told.effect) == ("cause", "effect")
    assert told.reversed > 1.645 * told.reversed_error


@pytest.mark.parametrize("blur", [0.05, 0.2])
def test_ends_that_are_nearly_sharp_make_no_sure_wrong_direction(blur):
    def draw(rng, rows):
        return rng.uniform(-1, 1, rows) + blur * rng.standard_normal(rows)

    learned = EvidenceSearch("all", restarts=0).fit(tables_of(draw, lambda a, rng: a + draw(rng, len(a))))
    assert ("effect", "cause") not in learned.graph_.edges
