"""What a table must be: every refusal names the site, the column, what was found, and what to do."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from feddag.errors import FeddagError
from feddag.silos import CheckedSilos, Silo, read_silos, simulate
from feddag.silos.checks import MINIMUM_ROWS, check_agreement, make_silo
from refusals import refusal

ROWS = 12
rng = np.random.default_rng(0)


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame({"a": rng.normal(size=ROWS), "b": rng.normal(size=ROWS), **columns})


def with_value(value, row: int = 3) -> list:
    column = rng.normal(size=ROWS).tolist()
    column[row] = value
    return column


class TestOneTable:
    @pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
    def test_missing_values(self, missing):
        column = with_value(missing)
        column[7] = missing
        assert refusal(make_silo, "north", table(dose=column)) == (
            "Site 'north', column 'dose': 2 missing values, the first in row 4. Drop or impute them: "
            "missing='drop' or 'impute' of feddag.read_silos, --missing of a command that has it, [data] missing of "
            "a study; or do so beforehand."
        )

    @pytest.mark.parametrize(
        "column",
        [
            with_value("high"),
            with_value([1, 2]),
        ],
        ids=["text", "list"],
    )
    def test_values_that_are_no_numbers(self, column):
        found = repr(list(column)[3])
        assert refusal(make_silo, "north", table(dose=column)) == (
            f"Site 'north', column 'dose': {found} in row 4 is not a number. Correct it, encode the column as numbers, "
            "or leave it out."
        )

    @pytest.mark.parametrize(
        "column",
        [
            pd.date_range("2020-01-01", periods=ROWS),
            pd.to_timedelta(np.arange(ROWS), unit="D"),
            rng.normal(size=ROWS) + 1j,
        ],
        ids=["dates", "durations", "complex"],
    )
    def test_kinds_of_columns_that_are_no_numbers(self, column):
        message = refusal(make_silo, "north", table(dose=column))
        assert message.startswith("Site 'north', column 'dose': ")
        assert message.endswith("in row 1 is not a number. Correct it, encode the column as numbers, or leave it out.")

    @pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39, -1e300])
    def test_values_that_single_precision_does_not_hold(self, value):
        assert refusal(make_silo, "north", table(dose=with_value(value))) == (
            f"Site 'north', column 'dose': {value} in row 4 is not finite in single precision. "
            "Remove the row, or choose a larger unit."
        )

    @pytest.mark.parametrize("value", [2.5, 7])
    def test_constants(self, value):
        assert refusal(make_silo, "north", table(dose=[value] * ROWS)) == (
            f"Site 'north', column 'dose': the value is {float(value):g} in every row. "
            "A constant has no causes to learn: leave out the column, or the site."
        )

    def test_too_few_rows(self):
        assert make_silo("north", table().head(MINIMUM_ROWS)).rows == MINIMUM_ROWS
        assert refusal(make_silo, "north", table().head(MINIMUM_ROWS - 1)) == (
            "Site 'north': 9 rows are too few. Give at least 10, or leave the site out."
        )

    @pytest.mark.parametrize(
        ("columns", "found"),
        [([], "none"), (["a"], "'a' alone: in a text file, commas, semicolons or tabs separate columns")],
    )
    def test_too_few_columns(self, columns, found):
        assert refusal(make_silo, "north", table()[columns]) == (
            f"Site 'north': a graph needs at least 2 columns. Got {found}."
        )

    def test_a_repeated_name(self):
        frame = table(c=rng.normal(size=ROWS)).set_axis(["a", "b", "a"], axis=1)
        assert refusal(make_silo, "north", frame) == (
            "Site 'north': column 'a' occurs 2 times. Give each column its own name."
        )

    @pytest.mark.parametrize("name", ["", None, np.nan])
    def test_a_missing_name(self, name):
        frame = table().set_axis(["a", name], axis=1)
        assert refusal(make_silo, "north", frame) == "Site 'north': column 2 has no name. Name every column."

    @pytest.mark.parametrize(
        "column",
        [
            [0, 1] * (ROWS // 2),
            [True, False] * (ROWS // 2),
            np.array([True, False] * (ROWS // 2), dtype=object),
            pd.array([0, 1] * (ROWS // 2), dtype="Int64"),
            ["0", "1"] * (ROWS // 2),
            pd.Categorical([0, 1] * (ROWS // 2)),
            [Decimal(0), Decimal(1)] * (ROWS // 2),
            np.array([0, 1] * (ROWS // 2), dtype=np.float32),
        ],
        ids=["int", "bool", "object", "nullable", "digits", "category", "decimal", "single"],
    )
    def test_whole_numbers_and_booleans_are_numbers(self, column):
        silo = make_silo("north", table(dose=column))
        expected = [float(value) for value in np.asarray(column).tolist()]
        assert silo.values.dtype == np.float64
        assert silo.values[:, 2].tolist() == expected

    def test_the_silo_has_the_frames_names_and_values(self):
        frame = table()
        silo = make_silo("north", frame)
        assert (silo.name, silo.columns, silo.rows) == ("north", ("a", "b"), ROWS)
        np.testing.assert_array_equal(silo.values, frame.to_numpy())
        pd.testing.assert_frame_equal(silo.to_frame(), frame)


class TestAllTables:
    first = Silo("north", ("a", "b", "c"), rng.normal(size=(ROWS, 3)))

    def other(self, *columns: str) -> Silo:
        return Silo("south", columns, rng.normal(size=(ROWS, len(columns))))

    def test_columns_take_the_first_sites_order(self):
        south = self.other("c", "a", "b")
        _, aligned = check_agreement([self.first, south])
        assert (aligned.name, aligned.columns) == ("south", ("a", "b", "c"))
        np.testing.assert_array_equal(aligned.values, south.values[:, [1, 2, 0]])

    @pytest.mark.parametrize(
        ("columns", "difference"),
        [
            (("a", "c"), "lacks 'b'"),
            (("a", "b", "c", "d", "e"), "has besides 'd', 'e'"),
            (("a", "B", "c"), "lacks 'b' and has besides 'B'"),
        ],
    )
    def test_columns_that_differ(self, columns, difference):
        assert refusal(check_agreement, [self.first, self.other(*columns)]) == (
            f"Site 'south' {difference}, compared with site 'north'. Give every site the same columns."
        )

    def test_two_sites_of_one_name(self):
        assert refusal(check_agreement, [self.first, self.other("a", "b", "c"), self.first]) == (
            "Site 'north' occurs 2 times. Give each site its own name."
        )

    def test_no_site(self):
        assert refusal(check_agreement, []) == "There is no silo. Give at least one site's table."


def test_checked_tables_are_handed_on_as_they_are():
    checked = read_silos(simulate(3, sites=2, rows=20))
    assert read_silos(checked) is checked
    assert type(pickle.loads(pickle.dumps(checked))) is CheckedSilos


def test_checked_tables_are_scaled_without_being_checked_again():
    checked = read_silos(simulate(3, sites=2, rows=20))
    assert read_silos(checked, scale="site")[0].values.std(axis=0) == pytest.approx(1)


def test_some_of_the_tables_are_refused_if_a_level_is_only_elsewhere():
    mixed, single = {"sick": ["no", "yes"] * 10, "x": range(20)}, {"sick": ["no"] * 20, "x": range(20)}
    checked = read_silos([pd.DataFrame(mixed), pd.DataFrame(single)])
    assert checked.subset([0])[0].name == "site-01"
    with pytest.raises(FeddagError, match="'sick': the value is no in every row of every site"):
        checked.subset([1])


def test_pooled_tables_are_what_they_would_be_if_read():
    checked = read_silos(simulate(3, sites=3, rows=20))
    frame = pd.concat([silo.to_frame() for silo in checked])
    assert checked.pooled("all")[0].digest() == read_silos([frame])[0].digest()


def test_a_column_that_common_units_make_constant_is_refused():
    wide, narrow = np.linspace(0, 1e9, 20), np.linspace(0, 1, 20)
    other = np.arange(20.0)
    tables = {name: pd.DataFrame({"x": x, "y": other}) for name, x in (("wide", wide), ("narrow", narrow))}
    assert read_silos(tables)[1].name == "narrow"
    with pytest.raises(FeddagError, match=r"Site 'narrow', column 'x': the value is .* in every row"):
        read_silos(tables, scale="federated")
