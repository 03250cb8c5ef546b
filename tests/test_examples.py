"""The examples run, and show what their texts say."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

from snippets import ROOT, blocks, run_console, run_python

EXAMPLES = ROOT / "examples"


def test_simulated_sites_find_together_what_most_miss_alone(tmp_path):
    shown = run_python((EXAMPLES / "simulated.py").read_text(encoding="utf-8"), tmp_path)
    assert "together: 0 errors" in shown
    assert shown.count("alone: 0 errors") < 2


@pytest.mark.slow
def test_the_proteins_graph_beats_every_check(tmp_path):
    shown = run_python((EXAMPLES / "sachs.py").read_text(encoding="utf-8"), tmp_path)
    assert "raf -- mek" in shown or "raf -> mek" in shown  # the best known of all these edges
    assert shown.rstrip().splitlines()[-1].startswith("On rows held out the graph explains the data better than")


@pytest.fixture(scope="module")
def heart_disease(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "heart_disease"
    shutil.copytree(EXAMPLES / "heart_disease", folder, ignore=shutil.ignore_patterns("run"))
    (commands,) = blocks("examples/heart_disease/README.md", "console")
    return folder, run_console(commands, folder)


@pytest.mark.slow
def test_the_hospitals_graph_obeys_what_their_study_knows(heart_disease):
    folder, _ = heart_disease
    adjacency = pd.read_csv(folder / "run" / "graph.csv", index_col=0)
    assert (adjacency[["age", "sex"]] == 0).to_numpy().all()
    assert adjacency.loc["num", "oldpeak"] or adjacency.loc["oldpeak", "num"]


@pytest.mark.slow
def test_the_hospitals_missing_values_are_told(heart_disease):
    assert "200 rows read" in heart_disease[1]
    assert (heart_disease[0] / "run" / "report.html").exists()
