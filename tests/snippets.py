"""What a page shows in its fences, and how a reader would run it."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    """Of a page of the repository, all fences in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [dedent(each) for each in re.findall(rf"```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)]


def run_python(code: str, folder: Path) -> str:
    """What a program prints that knows nothing but what it imports itself; in this process, which has imported much."""
    printed, program = io.StringIO(), ModuleType("__main__")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        patch.setitem(sys.modules, "__main__", program)
        exec(compile(code, "a page's program", "exec"), vars(program))
    return printed.getvalue()


def run_console(block: str, folder: Path) -> str:
    """The lines behind a prompt, by the feddag of this environment."""
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    feddag = f'feddag() {{ "{sys.executable}" -c "from feddag.cli import main; main()" "$@"; }}\nset -e\n'
    command = ["bash", "-c", feddag + "\n".join(commands)]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
