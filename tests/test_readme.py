"""What the README shows works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_examples_recover_their_graphs(tmp_path):
    example = "\n".join(blocks("python"))
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "GraphMetrics(shd=0," in done.stdout
    assert "reversed_error" in done.stdout


def test_the_command_line_example_recovers_its_graph(tmp_path):
    (example,) = [block for block in blocks("console") if "feddag" in block]
    commands = "\n".join(line.removeprefix("$ ") for line in example.splitlines())
    feddag = f'feddag() {{ "{sys.executable}" -c "from feddag.cli import main; main()" "$@"; }}\nset -e\n'
    done = subprocess.run(["bash", "-c", feddag + commands], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "SHD 0  TPR 1" in done.stdout
    assert (tmp_path / "run" / "graph.csv").exists()
