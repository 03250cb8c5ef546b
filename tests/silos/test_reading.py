"""From what a user hands over to silos: every kind of table, every kind of bad file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddag.silos import Silo, read_silos, simulate
from refusals import refusal

ROWS = 12
values = np.random.default_rng(0).normal(size=(ROWS, 3))
frame = pd.DataFrame(values, columns=["a", "b", "c"])
LINES = frame.to_csv(index=False).splitlines()
HEADER, BODY = LINES[0], LINES[1:]


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class TestTables:
    def test_a_frame_keeps_its_names_and_values(self):
        (silo,) = read_silos([frame])
        assert (silo.name, silo.columns, silo.rows) == ("site-01", ("a", "b", "c"), ROWS)
        np.testing.assert_array_equal(silo.values, values)

    def test_an_arrays_columns_are_numbered(self):
        assert read_silos([values])[0].columns == ("x0", "x1", "x2")
        wide = np.random.default_rng(0).normal(size=(ROWS, 11))
        assert read_silos([wide])[0].columns[::10] == ("x00", "x10")  # names sort as the columns do

    def test_a_mapping_names_the_sites(self):
        assert [silo.name for silo in read_silos({"north": frame, 2: values[:, ::-1] @ np.eye(3)} | {2: frame})] == [
            "north",
            "2",
        ]

    def test_silos_keep_their_names(self):
        (silo,) = read_silos([Silo("ward", ("a", "b", "c"), values)])
        assert (silo.name, silo.columns) == ("ward", ("a", "b", "c"))

    def test_a_simulation_is_its_silos(self):
        simulation = simulate(3, sites=2, rows=20)
        for ours, theirs in zip(read_silos(simulation), simulation.silos, strict=True):
            assert (ours.name, ours.columns) == (theirs.name, theirs.columns)
            np.testing.assert_array_equal(ours.values, theirs.values)

    @pytest.mark.parametrize("extension", ["csv", "tsv", "parquet", "CSV"])
    def test_files_give_the_same_silo_to_the_bit(self, tmp_path, extension):
        path = tmp_path / f"north.{extension}"
        match extension:
            case "parquet":
                frame.to_parquet(path)
            case "tsv":
                frame.to_csv(path, index=False, sep="\t")
            case _:
                frame.to_csv(path, index=False)
        for given in (path, str(path), [path], {"north": str(path)}):
            (silo,) = read_silos(given)
            assert (silo.name, silo.columns) == ("north", ("a", "b", "c"))
            np.testing.assert_array_equal(silo.values, values)

    def test_many_sites_are_numbered_so_that_their_names_sort(self):
        assert [silo.name for silo in read_silos([frame] * 10)][::9] == ["site-01", "site-10"]
        assert read_silos([frame] * 100)[0].name == "site-001"

    def test_files_of_one_name_in_two_folders_are_told_apart_by_their_paths(self, tmp_path):
        paths = []
        for folder in ("north", "south"):
            (tmp_path / folder).mkdir()
            paths.append(written(tmp_path / folder / "data.csv", *LINES))
        other = written(tmp_path / "west.csv", *LINES)
        assert [silo.name for silo in read_silos([*paths, other])] == [*map(str, paths), "west"]


class TestSeparatedFiles:
    def test_spaces_around_names_do_not_count(self, tmp_path):
        path = written(tmp_path / "n.csv", " a ,b, c", *BODY)
        assert read_silos(path)[0].columns == ("a", "b", "c")

    def test_names_may_be_quoted_and_hold_separators(self, tmp_path):
        path = written(tmp_path / "n.csv", '"a, or b",b,"c"', *BODY)
        assert read_silos(path)[0].columns == ("a, or b", "b", "c")

    @pytest.mark.parametrize("start", ["\n\n", "\ufeff"])
    def test_blank_lines_and_a_byte_order_mark_before_the_header_do_not_count(self, tmp_path, start):
        path = written(tmp_path / "n.csv", start + HEADER, *BODY)
        (silo,) = read_silos(path)
        assert silo.columns == ("a", "b", "c")
        np.testing.assert_array_equal(silo.values, values)

    def test_names_that_are_numbers_or_stand_for_missing_values_are_names(self, tmp_path):
        path = written(tmp_path / "n.csv", "1,NA,2.50", *BODY)
        assert read_silos(path)[0].columns == ("1", "NA", "2.50")

    def test_a_repeated_name_is_not_hidden(self, tmp_path):
        path = written(tmp_path / "n.csv", "a,b,a", *BODY)
        assert refusal(read_silos, path) == "Site 'n': column 'a' occurs 2 times. Give each column its own name."

    def test_an_unnamed_column(self, tmp_path):
        path = written(tmp_path / "n.csv", "a,,c", *BODY)
        assert refusal(read_silos, path) == "Site 'n': column 2 has no name. Name every column."

    def test_an_empty_file(self, tmp_path):
        (tmp_path / "n.csv").touch()
        assert (
            refusal(read_silos, tmp_path / "n.csv") == f"Site 'n': {tmp_path}/n.csv is empty. Give a header and rows."
        )

    def test_a_header_alone(self, tmp_path):
        assert refusal(read_silos, written(tmp_path / "n.csv", HEADER)).startswith(
            "Site 'n': 0 rows are too few. Give at least"
        )

    @pytest.mark.parametrize("rows", [[0], [5], range(ROWS)], ids=["the first", "a later", "every"])
    def test_rows_with_more_fields_than_the_header(self, tmp_path, rows):
        body = [line + ",9" if k in rows else line for k, line in enumerate(BODY)]
        message = refusal(read_silos, written(tmp_path / "n.csv", HEADER, *body))
        assert message.startswith(f"Site 'n': {tmp_path}/n.csv could not be read (")
        assert "3 fields" in message
        assert message.endswith("Check the file.")

    def test_rows_with_fewer_fields_lack_values(self, tmp_path):
        body = [line.rpartition(",")[0] if k == 5 else line for k, line in enumerate(BODY)]
        message = refusal(read_silos, written(tmp_path / "n.csv", HEADER, *body))
        assert message.startswith("Site 'n', column 'c': 1 missing value, the first in row 6.")

    def test_another_encoding(self, tmp_path):
        path = tmp_path / "n.csv"
        path.write_bytes("\n".join(["é,b,c", *BODY]).encode("latin-1"))
        assert refusal(read_silos, path).startswith(f"Site 'n': {path} is not in UTF-8 (")

    @pytest.mark.parametrize("extension", ["csv", "tsv"])
    @pytest.mark.parametrize("separator", [";", "\t"])
    @pytest.mark.parametrize("decimal", [".", ","])
    def test_as_spreadsheets_write_it_where_the_comma_is_the_decimal_sign(
        self, tmp_path, extension, separator, decimal
    ):
        path = tmp_path / f"n.{extension}"
        frame.assign(mild=["no", "yes, a bit"] * (ROWS // 2)).to_csv(path, index=False, sep=separator, decimal=decimal)
        (silo,) = read_silos(path)
        assert silo.columns == ("a", "b", "c", "mild")
        np.testing.assert_array_equal(silo.values[:, :3], values)

    def test_two_decimal_signs(self, tmp_path):
        body = [line.replace(",", ";").replace(".", ",") for line in BODY]
        path = written(tmp_path / "n.csv", "a;b;c", *body, "1.234;1;1")
        number = body[0].partition(";")[0]
        reason = f"{number} has a decimal comma, and 1.234 a point"
        assert refusal(read_silos, path) == f"Site 'n': {path} could not be read ({reason}). Check the file."

    def test_one_column(self, tmp_path):
        assert refusal(read_silos, written(tmp_path / "n.csv", "a", *"123456789012")).startswith(
            "Site 'n': a graph needs at least 2"
        )


class TestPaths:
    def test_a_missing_file(self, tmp_path):
        path = tmp_path / "none.csv"
        assert refusal(read_silos, [path]) == f"Site 'none': {path} does not exist. Check the path."

    @pytest.mark.parametrize("name", ["folder", "folder.csv"])
    def test_a_folder(self, tmp_path, name):
        path = tmp_path / name
        path.mkdir()
        assert refusal(read_silos, path) == f"Site 'folder': {path} is a folder. Name the file of the site's table."

    @pytest.mark.parametrize("name", ["n.xlsx", "n"])
    def test_an_unknown_extension(self, tmp_path, name):
        path = written(tmp_path / name, *LINES)
        assert refusal(read_silos, path) == (
            f"Site 'n': {path} has the extension {path.suffix!r}, which feddag does not read. "
            "Use one of .csv, .tsv, .parquet, .feather, .sqlite, .db, .duckdb, .ddb."
        )

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_without_permission(self, tmp_path):
        path = written(tmp_path / "n.csv", *LINES)
        path.chmod(0)
        assert refusal(read_silos, path) == f"Site 'n': {path} may not be read. Check its permissions."

    def test_a_file_that_is_not_what_its_extension_says(self, tmp_path):
        path = written(tmp_path / "n.parquet", *LINES)
        message = refusal(read_silos, path)
        assert message.startswith(f"Site 'n': {path} could not be read (")
        assert message.endswith("). Check the file.")

    def test_a_name_in_a_mapping_is_the_one_that_errors_use(self, tmp_path):
        assert refusal(read_silos, {"north": tmp_path / "none.csv"}).startswith("Site 'north': ")


class TestWhatIsNoTable:
    @pytest.mark.parametrize("array", [np.zeros(5), np.zeros((5, 2, 2))])
    def test_an_array_of_other_than_two_dimensions(self, array):
        assert refusal(read_silos, [frame, array]) == (
            f"Site 'site-02': an array must have two dimensions (rows, columns). Got {array.ndim} instead."
        )

    @pytest.mark.parametrize("table", [3, None, [[1, 2], [3, 4]]])
    def test_something_else_in_a_list(self, table):
        assert refusal(read_silos, [table]) == (
            "Site 'site-01': a table must be a DataFrame, a two-dimensional array or a path. "
            f"Got {type(table).__name__} instead."
        )

    @pytest.mark.parametrize("silos", [frame, values, None, 3])
    def test_a_single_table_is_to_be_put_into_a_list(self, silos):
        message = refusal(read_silos, silos)
        assert message.startswith("silos must be a list or dict of tables or paths, or a Simulation. Got ")
        assert type(silos).__name__ in message
        assert message.endswith("put a single table into a list.")

    @pytest.mark.parametrize("silos", [[], {}, ()])
    def test_no_site_at_all(self, silos):
        assert refusal(read_silos, silos) == "There is no silo. Give at least one site's table."
