"""No row, however extreme, adds more than the stated length; sums are exact whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddag.regression.bounded_features import GRID, FeatureMap, feature_map

MAPS = {
    "linear": FeatureMap(((-1.0, 1.0),) * 3, (0, 0, 0), 1, 0),
    "smooth": FeatureMap(((0.0, 120.0),) * 4, (0, 0, 0, 0), 5, 1),
    "pairs": FeatureMap(((-3.0, 3.0),) * 3, (0, 0, 0), 6, 2),
    "mixed": FeatureMap(((-3.0, 3.0), None, None), (0, 2, 5), 4, 0),
}


@pytest.mark.parametrize("name", MAPS)
@given(data=st.data())
@settings(max_examples=40)
def test_a_row_changes_a_release_by_no_more_than_the_sensitivity(name, data):
    features = MAPS[name]
    numbers = st.floats(allow_nan=True, allow_infinity=True)
    row = np.array(
        [[data.draw(st.integers(0, levels - 1) if levels else numbers) for levels in features.levels]], dtype=float
    )
    entries = features.products(row)
    assert (entries == np.rint(entries)).all()
    assert sum(int(each) ** 2 for each in entries) <= features.sensitivity**2


@pytest.mark.parametrize("name", MAPS)
def test_sums_over_rows_are_exact_in_any_order(name):
    features = MAPS[name]
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.integers(0, k, 3000) if k else 3 * rng.standard_normal(3000) for k in features.levels])
    rows = rows.astype(float)
    apart = features.products(rows[:1000]) + features.products(rows[1000:])
    np.testing.assert_array_equal(features.products(rows[::-1]), apart)
    assert features.products(rows).shape == (features.entries,)


def test_a_release_without_noise_gives_back_the_moments_of_rows_that_are_not_clipped():
    features = FeatureMap(((-30.0, 30.0),) * 4, (0, 0, 0, 0), 1, 0)  # all rows are short within such ranges
    rows = np.random.default_rng(2).standard_normal((4000, 4)) @ np.array(np.triu(np.ones((4, 4))))
    count, sums, products = features.unpack(features.products(rows))
    assert count == pytest.approx(4000)
    np.testing.assert_allclose(sums * 10, rows.sum(axis=0), atol=4000 * 2 * 10 / GRID * 4)
    np.testing.assert_allclose(products * 100 / 4000, rows.T @ rows / 4000, rtol=0.01, atol=0.01)


def test_values_beyond_the_range_and_missing_ones_are_clamped():
    features = MAPS["linear"]
    inside = features.products(np.array([[1.0, -1.0, -1.0]]))
    np.testing.assert_array_equal(features.products(np.array([[1e300, -np.inf, np.nan]])), inside)


def test_more_rows_and_a_larger_epsilon_allow_more_functions():
    ranges, levels = {"a": (0.0, 1.0), "b": (0.0, 1.0)}, {"a": 0, "b": 0}
    sizes = [
        feature_map(ranges, levels, expected_rows=rows, multiplier=multiplier, linear=False).columns
        for rows, multiplier in ((100, 4.0), (1000, 4.0), (100_000, 4.0), (100_000, 0.5))
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert feature_map(ranges, levels, expected_rows=10**6, multiplier=0.1, linear=True).columns == 2
