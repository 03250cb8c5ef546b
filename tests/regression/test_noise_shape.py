"""What residuals gain if noise need not be normal, and that no direction is sure against it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from feddag import EvidenceSearch
from feddag.regression.noise_shape import shape_gain, shape_of

ROWS = 600
LAWS = {
    "uniform": lambda rng, size: rng.uniform(-1, 1, size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "Laplace": lambda rng, size: rng.laplace(size=size),
}


def gained(residuals):
    shape = shape_of(residuals)
    return shape_gain(shape["shape"], shape["shape_square"], len(residuals))


def test_normal_noise_gains_hardly_anything():
    gain, _ = gained(np.random.default_rng(0).standard_normal((ROWS, 500)))
    assert (gain == 0).mean() > 0.95
    assert ROWS * gain.max() < 10


@pytest.mark.parametrize(("law", "negentropy"), [("uniform", 0.1765), ("exponential", 0.4189), ("Laplace", 0.0724)])
def test_other_noise_gains_about_its_negentropy(law, negentropy):
    gain, _ = gained(LAWS[law](np.random.default_rng(0), (100_000, 1)))
    assert negentropy / 4 < gain[0] < 2 * negentropy


@pytest.mark.parametrize("law", LAWS)
def test_units_do_not_matter_and_the_variance_is_that_over_draws(law):
    residuals = LAWS[law](np.random.default_rng(0), (ROWS, 800))
    gain, variance = gained(residuals)
    np.testing.assert_allclose(gained(5 - 1000 * residuals)[0], gain, atol=1e-9)
    assert variance.mean() == pytest.approx(gain.var(), rel=0.3)


def test_what_rounding_leaves_of_a_determined_variable_gains_nothing():
    residuals = np.random.default_rng(0).exponential(size=(ROWS, 2)) * [0, 1e-9]
    np.testing.assert_array_equal(gained(residuals), 0)


@pytest.mark.parametrize("sharing", ["graph", "all"])
@pytest.mark.parametrize("law", LAWS)
def test_a_line_from_a_cause_that_is_not_normal_is_not_surely_reversed(sharing, law):
    """The curve that fits the cause to its effect leaves less variance than the line that made the effect."""
    rng = np.random.default_rng(1)
    tables = []
    for _ in range(3):
        cause = LAWS[law](rng, ROWS)
        cause /= cause.std()
        tables.append(pd.DataFrame({"cause": cause, "effect": cause + rng.standard_normal(ROWS)}))
    learned = EvidenceSearch(sharing).fit(tables)
    (edge,) = learned.edge_evidence_.itertuples()
    assert ("effect", "cause") not in learned.graph_.edges
    assert (edge.reversed_any_noise < edge.reversed) == (edge.cause == "effect")
