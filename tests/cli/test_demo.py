from __future__ import annotations

import pytest

from feddag import compare, load, read_graph

SMALL = ("--nodes", 3, "--sites", 2, "--rows", 20)


@pytest.fixture(scope="module")
def shown(feddag, tmp_path_factory):
    """The demo with its own learners and settings, on few small tables."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    result = feddag("demo", *SMALL, "--out", folder)
    assert result.exit_code == 0, result.stderr
    return folder, result


def rows_of(text):
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.split()[:3] == ["method", "columns", "SHD"])
    return [line.split() for line in lines[start + 1 : start + 6]]


def test_both_methods_stand_beside_the_truth_with_and_without_units(shown):
    folder, result = shown
    rows = rows_of(result.stdout)
    assert [row[0] for row in rows] == ["search", "search", "FedDAG", "FedDAG", "truth"]
    assert [" ".join(row[1:-5]) for row in rows[:4]] == ["as drawn", "standardised"] * 2
    truth, learned = read_graph(folder / "data" / "truth.csv"), load(folder / "run")
    assert rows[4][1:] == ["0", "0", str(len(truth.edges))]
    edges = len(learned.graph_.edges) + len(learned.graph_.undirected_edges)
    metrics = compare(learned.graph_, truth)
    assert rows[0][3:6] == [str(metrics.shd), str(metrics.strict_shd), str(edges)]
    assert all(float(row[-2]) >= 0 and int(row[-1].replace(",", "")) > 0 for row in rows[:4])


def test_the_report_of_the_search_is_written_with_its_verdict(shown):
    folder, result = shown
    report = folder / "run" / "report.html"
    assert f"Report of the search: {report}" in result.stdout
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (folder / "run" / "trust.json").exists()


def test_what_it_suggests_next_works(feddag, shown):
    folder, result = shown
    command = result.stdout.split("Next: feddag ")[1].split()
    assert command == ["evaluate", str(folder / "run"), "--truth", str(folder / "data" / "truth.csv")]
    assert feddag(*command).exit_code == 0


def test_the_progress_says_which_fit_is_under_way(shown):
    said = [line for line in shown[1].stderr.splitlines() if line.endswith(":")]
    assert [line.split(",")[0] for line in said] == ["The search"] * 2 + ["FedDAG with the paper's settings"] * 2


def test_a_folder_with_content_is_left_alone(feddag, tmp_path):
    (tmp_path / "mine.txt").touch()
    assert feddag("demo", *SMALL, "--out", tmp_path).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_impossible_option_is_told_in_one_line(feddag, tmp_path):
    result = feddag("demo", "--rows", 5, "--out", tmp_path / "demo")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Site 'site-01': 5 rows are too few. Site 'site-02':")
    assert result.stderr.endswith("Give at least 10, or leave the site out.\n")
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
