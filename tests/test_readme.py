"""What the README shows works as it stands."""

from __future__ import annotations

from snippets import blocks, run_console, run_python


def test_the_python_examples_recover_their_graphs(tmp_path):
    shown = run_python("\n".join(blocks("README.md", "python")), tmp_path)
    assert "GraphMetrics(shd=0," in shown
    assert "reversed_error" in shown


def test_the_command_line_example_recovers_its_graph(tmp_path):
    (example,) = [block for block in blocks("README.md", "console") if "feddag" in block]
    assert "SHD 0  TPR 1" in run_console(example, tmp_path)
    assert (tmp_path / "run" / "graph.csv").exists()
