"""Counts of few rows, such as those that lack a value: a site gives none that its policy's `minimum_cell` forbids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from feddag.silos import Silo
from feddag.silos.preparation import Account
from feddag.trust.tables import TableSite


def counts_of(missing: int, minimum_cell: int) -> dict[str, np.ndarray]:
    values = np.random.default_rng(1).normal(size=(40, 2))
    account = replace(Account(40 + missing), missing={"a": missing}, rows_dropped=missing)
    silo = Silo("here", ("a", "b"), values, account=account, minimum_cell=minimum_cell)
    return TableSite(silo, 3, "salt", lambda text: None)._counts()


@pytest.mark.parametrize("missing", [1, 4])
def test_a_few_missing_values_are_not_counted(missing):
    found = counts_of(missing, minimum_cell=5)
    assert found["missing"].tolist() == [0.0, 0.0]
    assert (float(found["dropped"]), float(found["read"])) == (0.0, 40.0)  # nor does their difference tell
    assert counts_of(missing, minimum_cell=1)["missing"].tolist() == [float(missing), 0.0]


def test_many_are():
    found = counts_of(5, minimum_cell=5)
    assert (found["missing"].tolist(), float(found["dropped"])) == ([5.0, 0.0], 5.0)
