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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the example and other packages, as an installer would have laid them down."""
    site = tmp_path_factory.mktemp("site-packages")
    shutil.copy(EXAMPLE / "own_method.py", site)
    (site / "unsound.py").write_text(
        "from dataclasses import replace\n"
        "from own_method import METHOD\n"
        "GONE = replace(METHOD, name='gone', estimator='own_method:Nobody')\n"
        "IDLE = replace(METHOD, name='idle', regimes=())\n"
    )
    packages = {
        "own_method": tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"][
            "feddag.methods"
        ],
        "broken": {
            "lost": "nowhere:METHOD",
            "no-method": "own_method:Method",
            "gone": "unsound:GONE",
            "idle": "unsound:IDLE",
        },
        "copied": {"again": "own_method:METHOD"},
    }
    for package, methods in packages.items():
        about = site / f"{package}-0.1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
        lines = [f"{name} = {where}" for name, where in methods.items()]
        (about / "entry_points.txt").write_text("\n".join(["[feddag.methods]", *lines, ""]))
    return site


def run(site, folder, *program):
    """Python in a process of its own, which has the packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src")]), "COLUMNS": "200"}
    ended = subprocess.run(
        [sys.executable, *program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended


# One command after the other in one process: most of a command's time is that of its imports.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from feddag.cli import app
results = [CliRunner().invoke(app, command, catch_exceptions=False) for command in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.stdout, result.stderr] for result in results]))
"""


@pytest.fixture(scope="module")
def ended(site, tmp_path_factory):
    """What commands print, and what the process prints of itself."""
    folder = tmp_path_factory.mktemp("commands")
    simulate(4, mechanism="linear", sites=2, rows=60, seed=1).write(folder / "data")
    tables = [str(path) for path in sorted((folder / "data").glob("site*.csv"))]
    part = ["linear", "--nodes", "10", "--methods", f"{PARTIAL},empty", "--seeds", "2021-2022"]
    commands = [
        ["methods", "--format", "json"],
        ["learn", "--help"],
        ["learn", *tables, "--method", PARTIAL, "--least", "0.3", "--out", "run"],
        ["experiment", "run", *part, "--jobs", "2"],
        ["experiment", "show", *part],
    ]
    ended = run(site, folder, "-c", COMMANDS, json.dumps(commands))
    results = json.loads(ended.stdout)
    assert [code for code, _, _ in results] == [0] * len(commands), results
    return results, ended.stderr


def test_an_installed_method_takes_part_in_everything(ended):
    (_, methods, _), (_, options, _), _, (_, _, ran), (_, shown, _) = ended[0]
    assert PARTIAL in [each["name"] for each in json.loads(methods)]
    assert "--least" in options
    assert "8 cells computed" in ran
    assert PARTIAL in shown


def test_what_cannot_be_used_is_told_and_left_out(ended):
    ((_, methods, by_command), *_), by_process = ended
    names = [each["name"] for each in json.loads(methods)]
    assert names.count(PARTIAL) == 1
    assert not {"gone", "idle"} & {*names}
    for told in (
        "The method 'lost' of broken was left out: ModuleNotFoundError",
        "The method 'no-method' of broken was left out: TypeError: it is no feddag.learners.registry.Method.",
        "The method 'gone' of broken was left out: AttributeError",
        "The method 'idle' of broken was left out: ValueError: regimes must be some of federated,",
        "was left out: ValueError: the name 'partial-correlations' is taken.",
    ):
        assert told in by_command + by_process


def test_a_package_may_be_imported_before_feddag(site, tmp_path):
    for metadata in site.glob("*.dist-info"):
        if not metadata.name.startswith("own_method"):
            shutil.rmtree(metadata)  # they would be told of, and -W makes that an error
    command = "import own_method, feddag; feddag.make_learner('partial-correlations')"
    run(site, tmp_path, "-W", "error", "-c", command)
