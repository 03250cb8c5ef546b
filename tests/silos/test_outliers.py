from __future__ import annotations

import numpy as np
import pytest

from feddag.silos import Silo
from feddag.silos.outliers import outlier_warnings
from feddag.silos.variable_types import CONTINUOUS, Kind

VALUES = np.random.default_rng(0).normal(170, 10, size=(200, 2))


def with_slip(value, rows=1):
    values = VALUES.copy()
    values[:rows, 1] = value
    return Silo("basel", ("age", "height"), values)


@pytest.mark.parametrize("silo", [with_slip(250.0), with_slip(999.0, rows=20), Silo("bern", ("a", "b"), VALUES**5)])
def test_values_that_come_like_that_are_not_spoken_of(silo):
    assert outlier_warnings([silo]) == []


@pytest.mark.parametrize(("slip", "rows"), [(1700.0, 1), (-999.0, 3), (1e30, 1)])
def test_a_slip_is_named_with_site_column_value_and_remedy(slip, rows):
    (warning,) = outlier_warnings([with_slip(slip, rows)])
    count = "1 value of 200" if rows == 1 else "3 values of 200"
    assert warning.startswith("Site 'basel', column 'height': ")
    assert f"% of the spread is {count} ({slip:g}); all others lie" in warning
    assert "declare the values missing" in warning


def test_a_column_is_spoken_of_once():
    others = [Silo(name, silo.columns, silo.values) for name in ("bern", "lyon") for silo in [with_slip(1e4)]]
    (warning,) = outlier_warnings([with_slip(1e4), *others])
    assert warning.endswith("The same at 2 more sites.")


def test_a_rare_level_is_no_slip():
    values = np.column_stack([VALUES[:, 0], np.arange(200) == 3])
    assert outlier_warnings([Silo("basel", ("age", "ill"), values, (CONTINUOUS, Kind("binary", ("no", "yes"))))]) == []
