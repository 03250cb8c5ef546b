"""What clipping does to normal numbers is undone, and noise that no rows explain does no harm."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.regression.bounded_features import FeatureMap
from feddag.regression.clipped_moments import unclip


def clipped_moments(features, rows):
    count, sums, products = features.unpack(features.products(rows))
    return sums / count, products / count - np.outer(sums, sums) / count**2


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_the_covariance_of_normal_rows_comes_back_where_some_directions_hardly_vary(shift):
    features = FeatureMap(((-3.0, 3.0),) * 4, (0,) * 4, 1, 0)
    rng = np.random.default_rng(1)
    hidden = rng.standard_normal((200_000, 1))
    rows = np.sqrt(0.95) * hidden + np.sqrt(0.05) * rng.standard_normal((200_000, 4)) + shift
    means, covariance = clipped_moments(features, rows)
    found = unclip(features, means, covariance).covariance
    true = np.cov((rows * features.middles_and_units[1] ** -1).T)
    clipped_share, share, true_share = (
        np.linalg.eigvalsh(each)[:3] / np.trace(each) for each in (covariance, found, true)
    )
    assert (clipped_share > 1.5 * true_share).all()  # clipping shortens what varies most
    np.testing.assert_allclose(share, true_share, rtol=0.03)
    np.testing.assert_allclose(found, true, atol=0.03)


def test_noise_that_no_clipped_rows_explain_gives_finite_numbers():
    features = FeatureMap(((-3.0, 3.0),) * 4, (0,) * 4, 1, 0)
    found = unclip(features, np.zeros(4), 5 * np.eye(4) + 3)
    assert np.isfinite(found.covariance).all()
    assert 0 < found.kept <= 1
