"""What cannot be used is refused in one line that names it and the remedy; nothing is written."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

ROWS = 12


def good() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, 3)), columns=["a", "b", "c"])


def with_cell(value) -> pd.DataFrame:
    frame = good().astype(object)
    frame.iloc[4, 1] = value
    return frame


TABLES = {
    "missing value": (with_cell(None), "column 'b': 1 missing value, the first in row 5. Drop or impute"),
    "text": (with_cell("high"), "column 'b': 'high' in row 5 is not a number. Correct it"),
    "infinity": (with_cell("inf"), "column 'b': inf in row 5 is not finite in single precision. Remove"),
    "too large": (with_cell(1e39), "column 'b': 1e+39 in row 5 is not finite in single precision. Remove"),
    "constant": (good().assign(b=2), "column 'b': the value is 2 in every row."),
    "too few rows": (good().head(9), "9 rows are too few. Give at least 10, or leave the site out."),
    "no rows": (good().head(0), "0 rows are too few."),
    "one column": (good()[["a"]], "a graph needs at least 2 columns. Got 'a' alone: in a text file, commas, semi"),
    "lacking column": (good()[["a", "b"]], "lacks 'c', compared with site 'good'. Give every site the same"),
    "further column": (good().assign(d=good()["a"]), "has besides 'd', compared with site 'good'."),
    "other name": (good().rename(columns={"c": "C"}), "lacks 'c' and has besides 'C'"),
    "repeated name": (
        good().rename(columns={"c": "b"}),
        "column 'b' occurs 2 times. Give each column its own",
    ),
    "nameless column": (good().rename(columns={"c": ""}), "column 3 has no name. Name every column."),
}


@pytest.fixture
def refused(feddag, tmp_path, monkeypatch):
    """Learns from a good table and the given arguments, and gives the complaint if all promises are kept."""
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)

    def learn(*arguments) -> str:
        before = sorted(tmp_path.rglob("*"))
        result = feddag("learn", "good.csv", *arguments, "--out", tmp_path / "run")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert sorted(tmp_path.rglob("*")) == before
        lines = result.stderr.splitlines()
        assert len(lines) == 1
        return lines[0]

    return learn


@pytest.mark.parametrize("case", TABLES)
def test_a_table_that_cannot_be_used_is_refused_by_site_and_column(refused, case):
    table, complaint = TABLES[case]
    table.to_csv("bad.csv", index=False)

    message = refused("bad.csv")
    assert message.startswith("Error: Site 'bad'")
    assert complaint in message


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("bad.csv", b"", "bad.csv is empty. Give a header and rows."),
        ("bad.csv", b"a,b,c\n1,2,3,4\n", "could not be read"),
        ("bad.csv", b"\xff\xfe\x00a,b,c\n", "is not in UTF-8"),
        ("bad.xlsx", b"", "has the extension '.xlsx', which feddag does not read. Use one of .csv"),
        ("bad.parquet", b"no parquet", "bad.parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(refused, tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    message = refused(name)
    assert message.startswith("Error: Site 'bad'")
    assert complaint in message


def test_paths_that_are_no_tables_are_refused(refused, tmp_path):
    (tmp_path / "folder").mkdir()
    assert "absent.csv does not exist. Check the path." in refused("absent.csv")
    assert "folder is a folder. Name the file" in refused("folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(refused, tmp_path):
    (tmp_path / "bad.csv").touch(mode=0o000)
    assert "bad.csv may not be read. Check its permissions." in refused("bad.csv")


def test_a_site_given_twice_is_refused(refused):
    assert "occurs 2 times. Give each site its own name: SITE=SILO." in refused("good.csv")


def test_a_name_that_no_graph_file_can_hold_is_refused_before_anything_is_learned(refused):
    frame = good().rename(columns={"a": "a\x01"})
    frame.to_csv("good.csv", index=False)
    assert "control character in the name 'a\\x01'" in refused()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("participation", 0),
        ("participation", 1.5),
        ("participation", 2),  # of one site
        ("alpha_init", -1.0),
        ("rho_init", 0.0),
        ("rho_max", float("inf")),
        ("beta", 1.0),
        ("gamma", 1.0),
        ("h_tol", 0.0),
        ("it_max", 0),
        ("it_inner", 0),
        ("it_fl", 0),
        ("l1", -0.1),
        ("learning_rate", 0.0),
        ("temperature", float("nan")),
        ("hidden_layers", 0),
        ("hidden_units", 0),
        ("threshold", 0.0),
        ("seed", -1),
        ("workers", 0),
    ],
)
def test_an_impossible_parameter_is_refused_by_name(refused, name, value):
    message = refused("--method", "feddag", f"--{name.replace('_', '-')}", value)
    assert message.startswith(f"Error: {name} must be ")
    assert message.endswith(f"Got {value!r} instead.")


@pytest.mark.parametrize("option", ["sharing", "model", "acyclicity", "weighting", "rho-update"])
def test_an_unknown_choice_is_refused_with_the_known_ones(feddag, tmp_path, option):
    result = feddag("learn", "good.csv", "--out", tmp_path / "run", f"--{option}", "magic")
    assert result.exit_code == 2
    assert f"--{option}" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [["good.csv"], ["--out", "run"]])
def test_sites_and_folder_are_both_asked_for(feddag, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = feddag("learn", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Give each site's table and --out RUN, or --resume RUN.")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [("learn", "--resume"), ("evaluate", "--truth", "truth.csv")])
def test_a_folder_that_is_no_run_is_refused(feddag, tmp_path, command):
    result = feddag(*command, tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path} is not a run: it has no run.json. Check the path.\n"
