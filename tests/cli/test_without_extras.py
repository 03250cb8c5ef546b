"""What works without any extra, and what says which one it needs."""

from __future__ import annotations

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


@pytest.fixture
def bare(tmp_path):
    """Run a command as on a machine without extras."""
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "feddag", *map(str, arguments)]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
        )

    return call


@pytest.mark.parametrize("command", ["demo", "report", "audit", "site"])
def test_a_command_can_be_read_about(bare, command):
    shown = bare(*command.split(), "--help")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_what_needs_flare_names_its_extra(bare):
    shown = bare("federation", "demo")
    assert shown.returncode == 2
    assert shown.stderr.startswith("Error: A federation on a network needs NVIDIA FLARE")
    assert "pip install 'feddag[flare]'" in shown.stderr
