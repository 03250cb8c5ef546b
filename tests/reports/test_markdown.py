from __future__ import annotations

from feddag import load
from feddag.reports import write_report


def test_edges_sites_and_parameters_are_tables(notears_run):
    text = write_report(notears_run, format="md").read_text(encoding="utf-8")
    assert text.startswith("# Causal graph of 5 variables, learned from 2 sites\n")
    for source, target in load(notears_run).graph_.edges:
        assert f"| {source} → {target} |" in text
    assert "| Basel | 60 |" in text
    assert "| l1 |" in text
    assert "## What the graph does not mean" in text


def test_tables_stay_tables_whatever_the_names(hostile_run):
    text = write_report(hostile_run, format="md").read_text(encoding="utf-8")
    assert "<script" not in text.replace("\\<script", "")
    assert "a \\& b \\< c \\| d \\* e\\_f" in text
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("| "):
            widths = {line.replace("\\|", "").count("|") for line in lines}
            assert len(widths) == 1
