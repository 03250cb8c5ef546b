"""The README's examples work as they stand, each by itself."""

from __future__ import annotations

import pytest

from snippets import blocks, run_console, run_python

PYTHON = blocks("README.md", "python")


@pytest.mark.parametrize(("example", "shows"), [*zip(PYTHON, ["GraphMetrics(shd=0,", "reversed_error"], strict=True)])
def test_a_python_example_works_by_itself(tmp_path, example, shows):
    assert shows in run_python(example, tmp_path)


def test_the_command_line_example_recovers_its_graph(tmp_path):
    (example,) = [block for block in blocks("README.md", "console") if "feddag" in block]
    assert "SHD 0  TPR 1" in run_console(example, tmp_path)
    assert (tmp_path / "run" / "graph.csv").exists()
    assert (tmp_path / "run" / "report.html").exists()


def test_the_first_commands_are_the_demo_and_the_tests():
    assert blocks("README.md", "console")[0].split() == ["$", "make", "demo", "$", "make", "test"]
