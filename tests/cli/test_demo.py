from __future__ import annotations

from functools import partial

import pytest

from feddag import compare, load, read_graph
from feddag.cli import demo
from feddag.learners import FedDAG

SMALL = ("--nodes", 3, "--sites", 2, "--rows", 20, "--seed", 2)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(demo, "FedDAG", partial(FedDAG, model="linear", it_inner=6, it_fl=3, rho_max=1))


def test_the_demo_ends_with_every_true_edges_fate_and_what_to_try_next(feddag):
    result = feddag("demo", *SMALL)

    assert result.exit_code == 0, result.stderr
    assert "→" in result.stdout
    assert "edges were found, and no row left its site" in result.stdout
    assert "feddag simulate" in result.stdout
    assert "feddag learn" in result.stdout


def test_the_demo_can_be_kept_and_evaluated(feddag, tmp_path):
    result = feddag("demo", *SMALL, "--out", tmp_path / "demo")
    run, truth = tmp_path / "demo" / "run", tmp_path / "demo" / "data" / "truth.csv"

    assert f"feddag evaluate {run} --truth {truth}" in result.stdout
    assert f"SHD {compare(load(run).graph_, read_graph(truth)).shd} " in result.stdout
    assert feddag("evaluate", run, "--truth", truth).exit_code == 0


def test_the_demo_tells_how_many_bytes_each_site_sent(feddag, tmp_path):
    result = feddag("demo", *SMALL, "--out", tmp_path / "demo")
    learned = load(tmp_path / "demo" / "run")

    expected = len(learned.history_.rounds) * learned.U_.size * 4
    assert f"each sent {expected:,} bytes and received {expected:,}" in " ".join(result.stdout.split())


def test_a_folder_with_content_is_left_alone(feddag, tmp_path):
    (tmp_path / "mine.txt").touch()
    assert feddag("demo", *SMALL, "--out", tmp_path).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_impossible_option_is_told_in_one_line(feddag):
    result = feddag("demo", "--rows", 5)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Site 'site-01': 5 rows are too few. Give at least 10, or leave the site")
    assert result.stderr.count("\n") == 1
