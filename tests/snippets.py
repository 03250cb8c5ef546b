"""What a page shows in its fences, and how a reader would run it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    """Of a page of the repository, all fences in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [dedent(each) for each in re.findall(rf"```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)]


def run_python(code: str, folder: Path) -> str:
    return _output([sys.executable, "-c", code], folder)


def run_console(block: str, folder: Path) -> str:
    """The lines behind a prompt, by the feddag of this environment."""
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    feddag = f'feddag() {{ "{sys.executable}" -c "from feddag.cli import main; main()" "$@"; }}\nset -e\n'
    return _output(["bash", "-c", feddag + "\n".join(commands)], folder)


def _output(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
