"""What passes every check and is seldom meant is warned of, by name, before a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from feddag.silos import read_silos
from feddag.silos.suspicions import table_warnings


def table(seed: int = 1, rows: int = 100, **columns) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame({"age": draw.normal(50, 10, rows), "dose": draw.normal(5, 1, rows), **columns})


def warnings(tables, **options) -> list[str]:
    return table_warnings(read_silos(tables, **options))


def test_tables_of_measurements_are_no_news():
    assert warnings({"basel": table(1), "bern": table(2), "lyon": table(3)}) == []


@pytest.mark.parametrize(("slope", "shown"), [(2.0, "2"), (-0.5, "-0.5")])
def test_a_column_that_is_a_multiple_of_another(slope, shown):
    given = table()
    (warning,) = warnings({"basel": given.assign(twice=slope * given["age"] + 3)})
    assert warning.startswith(f"Site 'basel': column 'twice' is {shown} times column 'age'")


def test_a_column_that_is_nearly_a_multiple_is_none():
    given = table()
    noise = np.random.default_rng(5).normal(0, 0.01, len(given))
    assert warnings({"basel": given.assign(twice=2 * given["age"] + noise)}) == []


@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_one_site_s_column_in_another_unit(factor):
    other = table(2)
    (warning,) = warnings({"basel": table(1), "bern": other.assign(dose=factor * other["dose"]), "lyon": table(3)})
    assert warning.startswith("Site 'bern', column 'dose': its spread is ")
    assert "another unit" in warning


def test_every_row_twice():
    (warning,) = warnings({"basel": pd.concat([table(), table()])})
    assert warning.startswith("Site 'basel': every row stands at least twice (100 different rows of 200)")


def test_levels_alone_repeat_by_nature():
    draw = np.random.default_rng(1)
    answers = pd.DataFrame({name: draw.choice(["no", "yes"], 300) for name in "abcdef"})
    assert warnings({"basel": answers}) == []


def test_one_table_under_three_names():
    (warning,) = warnings({"basel": table(), "bern": table(), "lyon": table(), "oslo": table(2)})
    assert warning.startswith("Sites 'basel', 'bern', 'lyon' have the same table")


def test_rows_that_are_lost_name_the_column_that_costs_them():
    given = table(rows=294)
    given.loc[20:, "dose"] = np.nan
    given.loc[:4, "age"] = np.nan
    (warning,) = warnings({"basel": given}, missing="drop")
    assert "279 of 294 rows are dropped for missing values, which leaves 15 to learn from" in warning
    assert "Most are missing in 'dose' 274, 'age' 5: leave 'dose' out" in warning
