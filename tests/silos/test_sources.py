"""Where a table may be: files of all formats, real SQLite and DuckDB files, addresses; and what of it is read."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddag.errors import FeddagError
from feddag.silos import read_silos
from feddag.silos.databases import Database
from feddag.silos.reading import site_names
from feddag.silos.sources import read_table, source_of
from refusals import refusal

frame = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 3)), columns=["a", "b", "c"])
ordered = frame.sort_values(["a", "b", "c"]).to_numpy()


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "north.db"
    with sqlite3.connect(path) as connection:
        frame.to_sql("visits", connection, index=False)
    connection.close()
    return path


@pytest.fixture
def duckdb(tmp_path: Path) -> Path:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "north.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", frame)
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")
    return path


@pytest.fixture(params=["sqlite", "duckdb"])
def database(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


class TestDatabaseFiles:
    @pytest.mark.parametrize(
        "selection", ["table=visits", "table=main.visits", "query=SELECT * FROM visits WHERE 1 = 1;"]
    )
    def test_a_table_or_a_query_is_a_silo(self, database, selection):
        (silo,) = read_silos([f"{database}?{selection}"])
        assert (silo.name, silo.columns) == ("north", ("a", "b", "c"))
        np.testing.assert_array_equal(silo.values, ordered)

    def test_the_order_of_rows_does_not_matter(self, sqlite):
        before, after = (
            read_silos([f"{sqlite}?query=SELECT a, b, c FROM visits ORDER BY a {way}"])[0] for way in ("ASC", "DESC")
        )
        assert before.digest() == after.digest()

    def test_nothing_is_written(self, database):
        content = database.read_bytes()
        assert "could not be read (" in refusal(read_silos, [f"{database}?query=DELETE FROM visits"])
        assert database.read_bytes() == content

    def test_what_is_not_there(self, database, tmp_path):
        assert "could not be read (" in refusal(read_silos, [f"{database}?table=none"])
        lacking = tmp_path / f"none{database.suffix}"
        assert refusal(read_silos, [f"{lacking}?table=visits"]) == (
            f"Site 'none': {lacking}?table=visits does not exist. Check the path."
        )
        assert not lacking.exists()

    @pytest.mark.parametrize("selection", ["", "?table=visits&query=SELECT 1"])
    def test_a_table_or_a_query_must_be_named(self, database, selection):
        assert "needs ?table=NAME or ?query=SELECT..., and one of them only." in refusal(
            read_silos, [f"{database}{selection}"]
        )

    def test_a_column_that_is_not_there_is_no_constant(self, sqlite):
        """SQLite takes an unknown name in quotes for a text."""
        with pytest.raises(FeddagError, match="lacks 'nothing'"):
            read_table("north", source_of(f"{sqlite}?table=visits"), ["a", "nothing"])

    def test_the_record_of_a_run_can_be_read_from_anywhere(self, sqlite, monkeypatch):
        monkeypatch.chdir(sqlite.parent)
        recorded = source_of("north.db?table=visits").recorded
        assert recorded == f"{sqlite}?table=visits"
        monkeypatch.chdir("/")
        assert read_silos([recorded])[0].rows == 12


class TestColumns:
    @pytest.mark.parametrize("extension", ["csv", "tsv", "parquet", "feather"])
    def test_only_those_named_are_read_in_the_order_asked_for(self, tmp_path, extension):
        path = tmp_path / f"north.{extension}"
        match extension:
            case "csv" | "tsv":
                frame.to_csv(path, index=False, sep="," if extension == "csv" else "\t")
            case _:
                getattr(frame, f"to_{extension}")(path)
        read = read_table("north", source_of(path), ["c", "a"])
        pd.testing.assert_frame_equal(read, frame[["c", "a"]])
        np.testing.assert_array_equal(read_silos(path)[0].values, frame.to_numpy())
        with pytest.raises(FeddagError, match=r"lacks 'd', 'e'\. It has 'a', 'b', 'c': let the study tell"):
            read_table("north", source_of(path), ["a", "d", "e"])

    def test_a_row_whose_fields_are_shifted_is_found(self, tmp_path):
        path = tmp_path / "north.csv"
        path.write_text("a,b,c\n" + "1,2,3\n" * 10 + "1,2,3,4\n", encoding="utf-8")
        with pytest.raises(FeddagError, match="rows have more than the header's 3 fields"):
            read_table("north", source_of(path), ["a", "b"])

    def test_a_repeated_column_is_refused_if_it_is_asked_for(self, tmp_path):
        path = tmp_path / "north.csv"
        path.write_text("a,b,b\n" + "1,2,3\n" * 10, encoding="utf-8")
        with pytest.raises(FeddagError, match="has 2 columns 'b'"):
            read_table("north", source_of(path), ["a", "b"])


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "shown", "recorded"),
        [
            ("postgresql://me:hush@h/db?table=t", "postgresql://me:***@h/db?table=t", "postgresql://me@h/db?table=t"),
            ("mysql://h/db?ssl=1&table=t", "mysql://h/db?ssl=1&table=t", "mysql://h/db?ssl=1&table=t"),
            ("mysql://h/db?table=t&ssl=1", "mysql://h/db?ssl=1&table=t", "mysql://h/db?ssl=1&table=t"),
            ("mysql://h/db?password=hush&table=t", "mysql://h/db?table=t", "mysql://h/db?table=t"),
        ],
    )
    def test_passwords_are_neither_shown_nor_recorded(self, address, shown, recorded):
        pytest.importorskip("sqlalchemy")
        source = source_of(address)
        assert (source.shown, source.recorded) == (shown, recorded)
        assert "hush" not in repr(vars(source)["_url"]) or "password" in address

    def test_one_that_cannot_be_parsed_is_not_repeated(self):
        pytest.importorskip("sqlalchemy")
        message = refusal(read_silos, ["postgresql://me:hush@h:port/db?table=t"])
        assert message.startswith("The address postgresql://... is none. Write it as postgresql://user@host")
        assert "hush" not in message

    def test_a_query_is_taken_as_it_stands(self, sqlite):
        query = "SELECT a+b AS s, c AS '50%&' FROM visits WHERE '10:30 :x' <> 'a?b' -- all"
        for source in (f"{sqlite}?query={query}", f"sqlite:///{sqlite}?query={query}"):
            (silo,) = read_silos([source])
            assert silo.columns == ("s", "50%&")
            np.testing.assert_allclose(np.sort(silo.values[:, 0]), np.sort(frame["a"] + frame["b"]))

    def test_that_of_a_file_which_is_not_there_makes_none(self, tmp_path):
        assert "does not exist" in refusal(read_silos, [f"sqlite:///{tmp_path}/none.db?table=t"])
        assert not (tmp_path / "none.db").exists()

    def test_a_driver_that_is_not_there_is_named(self):
        pytest.importorskip("sqlalchemy")
        assert refusal(read_silos, ["mysql+pymysql://h/db?table=t"]) == (
            "Site 'db': mysql+pymysql://h/db?table=t needs pymysql to be read. Install it."
        )


class TestNamesOfSites:
    def test_they_can_be_given_with_the_source(self, sqlite):
        given = [f"basel={sqlite}?table=visits", "lyon.csv", "postgresql://h/clinic?table=visits"]
        assert site_names(given) == {
            "basel": f"{sqlite}?table=visits",
            "lyon": "lyon.csv",
            "clinic": "postgresql://h/clinic?table=visits",
        }

    def test_a_file_whose_name_looks_so_is_a_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        frame.to_csv("a=b.csv", index=False)
        assert site_names(["a=b.csv"]) == {"a=b": "a=b.csv"}

    def test_two_of_one_name_are_refused(self):
        with pytest.raises(FeddagError, match="Site 'basel' occurs 2 times"):
            site_names(["basel=a.csv", "basel=b.csv"])


def test_read_silos_takes_what_learners_take(sqlite):
    silos = read_silos({"north": f"{sqlite}?table=visits", "south": frame})
    assert [silo.name for silo in silos] == ["north", "south"]


@pytest.mark.parametrize("extension", ["parquet", "feather"])
@pytest.mark.parametrize("read", [lambda path: read_silos([path]), lambda path: source_of(path).header()])
def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch, extension, read):
    path = tmp_path / f"north.{extension}"
    path.touch()
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.ipc"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FeddagError, match=r"needs pyarrow to be read .*pip install '\.\[parquet\]'"):
        read(path)


@pytest.mark.parametrize(
    ("password", "reason", "shown"),
    [
        ("a", 'password authentication failed for user "a"', 'password authentication failed for user "***"'),
        ("hush", "no hush, hushed", "no ***, ***ed"),
        ("a.c", "a.c abc a.cd", "*** abc a.cd"),
    ],
)
def test_a_short_password_is_masked_as_a_word_and_a_long_one_everywhere(password, reason, shown):
    source = Database(f"postgresql://me:{password}@h/db?table=t")
    assert source._without_secrets(reason) == shown
