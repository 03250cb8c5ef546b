from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def run(feddag, sites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "run"
    assert feddag("learn", *sites, "--method", "notears", "--out", folder).exit_code == 0
    return folder


def test_it_is_written_into_the_run_unless_told_otherwise(feddag, run, tmp_path):
    assert feddag("report", run).stdout == f"Written: {run / 'report.html'}\n"
    assert (run / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert feddag("report", run, "--format", "md").stdout == f"Written: {run / 'report.md'}\n"
    assert feddag("report", run, "--out", tmp_path / "mine.md").exit_code == 0
    assert (tmp_path / "mine.md").read_text(encoding="utf-8").startswith("# Causal graph")


def test_mistakes_are_told_in_a_line(feddag, run, tmp_path):
    for arguments, message in (
        ([tmp_path], "is not a run"),
        ([run, "--out", tmp_path / "report.docx"], "no format has this ending"),
        ([run, "--out", tmp_path], "no format has this ending"),
        ([run, "--out", tmp_path, "--format", "md"], "is a folder"),
        ([run, "--out", tmp_path / "no" / "report.html"], "does not exist"),
    ):
        result = feddag("report", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
