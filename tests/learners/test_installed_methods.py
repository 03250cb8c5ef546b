"""A package that is installed brings its methods; what it brings is on every command, and cannot break feddag."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib

import pytest

from feddag.silos import simulate
from snippets import ROOT

EXAMPLE = ROOT / "examples" / "own_method"
PARTIAL = "partial-correlations"


@pytest.fixture
def installed(tmp_path):
    """Runs feddag beside the example and other packages, as an installer would have laid them down."""
    site = tmp_path / "site-packages"
    site.mkdir()
    shutil.copy(EXAMPLE / "own_method.py", site)
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]["feddag.methods"]

    def lay_down(package, entries):
        about = site / f"{package}-0.1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
        lines = [f"{name} = {where}" for name, where in entries.items()]
        (about / "entry_points.txt").write_text("\n".join(["[feddag.methods]", *lines, ""]))

    lay_down("own_method", points)

    def run(*arguments, program=("-m", "feddag")):
        command = [sys.executable, *program, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    run.lay_down = lay_down
    return run


# One command after the other in one process: most of a command's time is that of its imports.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from feddag.cli import app
results = [CliRunner().invoke(app, command, catch_exceptions=False) for command in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.stdout, result.stderr] for result in results]))
"""


def test_an_installed_method_takes_part_in_everything(installed, tmp_path):
    simulate(4, mechanism="linear", sites=2, rows=60, seed=1).write(tmp_path / "data")
    tables = [str(path) for path in sorted((tmp_path / "data").glob("site*.csv"))]
    part = ["linear", "--nodes", "10", "--methods", f"{PARTIAL},empty", "--seeds", "2021-2022"]
    commands = [
        ["methods", "--format", "json"],
        ["learn", "--help"],
        ["learn", *tables, "--method", PARTIAL, "--least", "0.3", "--out", "run"],
        ["experiment", "run", *part, "--jobs", "2"],
        ["experiment", "show", *part],
    ]
    ended = installed(json.dumps(commands), program=["-c", COMMANDS])
    assert ended.returncode == 0, ended.stderr
    results = json.loads(ended.stdout)
    assert [code for code, _, _ in results] == [0] * len(commands), results
    (_, methods, _), (_, options, _), _, (_, _, ran), (_, shown, _) = results
    assert PARTIAL in [each["name"] for each in json.loads(methods)]
    assert "--least" in options
    assert "8 cells computed" in ran
    assert PARTIAL in shown


def test_what_cannot_be_used_is_told_and_left_out(installed, tmp_path):
    (tmp_path / "site-packages" / "unsound.py").write_text(
        "from dataclasses import replace\n"
        "from own_method import METHOD\n"
        "GONE = replace(METHOD, name='gone', estimator='own_method:Nobody')\n"
        "IDLE = replace(METHOD, name='idle', regimes=())\n"
    )
    installed.lay_down(
        "broken",
        {"lost": "nowhere:METHOD", "no-method": "own_method:Method", "gone": "unsound:GONE", "idle": "unsound:IDLE"},
    )
    installed.lay_down("copied", {"again": "own_method:METHOD"})
    listed = installed("methods", "--format", "json")
    assert listed.returncode == 0
    names = [each["name"] for each in json.loads(listed.stdout)]
    assert names.count(PARTIAL) == 1
    assert not {"gone", "idle"} & {*names}
    for told in (
        "The method 'lost' of broken was left out: ModuleNotFoundError",
        "The method 'no-method' of broken was left out: TypeError: it is no feddag.learners.registry.Method.",
        "The method 'gone' of broken was left out: AttributeError",
        "The method 'idle' of broken was left out: ValueError: regimes must be some of federated,",
        "was left out: ValueError: the name 'partial-correlations' is taken.",
    ):
        assert told in listed.stderr


def test_a_package_may_be_imported_before_feddag(installed):
    command = "import own_method, feddag; feddag.make_learner('partial-correlations')"
    found = installed(program=["-W", "error", "-c", command])
    assert found.returncode == 0, found.stderr
