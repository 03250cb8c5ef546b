"""What works without any extra, and what says which one it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

BLOCK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("nvflare", "grpc", "dp_accounting", "psutil", "causallearn", "duckdb", "sqlalchemy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])

sys.meta_path.insert(0, Missing())
"""
"""Has Python find none of the extras' packages."""


CALLS = (
    ("demo", "--help"),
    ("report", "--help"),
    ("audit", "--help"),
    ("site", "--help"),
    ("federation", "demo"),
)
CALL_ALL = """
import json, sys
from typer.testing import CliRunner
from feddag.cli import app

results = [CliRunner().invoke(app, call) for call in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.stderr] for result in results]))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The exit code and the errors of each call on a machine without extras."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(BLOCK)
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    called = subprocess.run(
        [sys.executable, "-c", CALL_ALL, json.dumps(CALLS)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    return dict(zip(CALLS, json.loads(called.stdout), strict=True))


@pytest.mark.parametrize("call", [call for call in CALLS if "--help" in call], ids=" ".join)
def test_a_command_can_be_read_about(bare, call):
    assert bare[call] == [0, ""]


def test_what_needs_flare_names_its_extra(bare):
    code, errors = bare["federation", "demo"]
    assert code == 2
    assert errors.startswith("Error: A federation on a network needs NVIDIA FLARE")
    assert "pip install '.[flare]' in a clone of feddag, or pip install 'feddag-" in errors
