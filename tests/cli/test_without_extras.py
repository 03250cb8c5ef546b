"""What works without any extra, or without JAX, and what says which package it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from feddag import simulate
from missing_packages import paths_without

EXTRAS = ("nvflare", "grpc", "dp_accounting", "psutil", "causallearn", "duckdb", "sqlalchemy")
GRADIENTS = ("jax", "jaxlib", "optax")

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
print(json.dumps([[result.exit_code, result.stdout, result.stderr] for result in results]))
"""


def call_all(folder, packages, calls):
    """Return the exit code, the output and the errors of each call on a machine without some packages."""
    environment = {**os.environ, "PYTHONPATH": paths_without(folder, packages)}
    called = subprocess.run(
        [sys.executable, "-c", CALL_ALL, json.dumps(calls)], check=True, capture_output=True, text=True, env=environment
    )
    return dict(zip(calls, json.loads(called.stdout), strict=True))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The exit code and the errors of each call on a machine without extras."""
    return call_all(tmp_path_factory.mktemp("bare"), EXTRAS, CALLS)


@pytest.mark.parametrize("call", [call for call in CALLS if "--help" in call], ids=" ".join)
def test_a_command_can_be_read_about(bare, call):
    code, _, errors = bare[call]
    assert (code, errors) == (0, "")


def test_what_needs_flare_names_its_extra(bare):
    code, _, errors = bare["federation", "demo"]
    assert code == 2
    assert errors.startswith("Error: A federation on a network needs NVIDIA FLARE")
    assert "pip install '.[flare]' in a clone of feddag, or pip install 'feddag-" in errors


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """What commands do on a machine without JAX."""
    folder = tmp_path_factory.mktemp("light")
    simulate(3, sites=3, rows=60, mechanism="linear", seed=1).write(folder)
    tables = [str(table) for table in sorted(folder.glob("site-*.csv"))]
    learn = ("learn", *tables, "--quiet", "--out", str(folder / "run"))
    calls = (("methods",), learn, (*learn, "--method", "feddag"))
    return dict(zip(("methods", "search", "feddag"), call_all(folder, GRADIENTS, calls).values(), strict=True))


def test_the_search_runs_without_jax(light):
    code, _, errors = light["search"]
    assert code == 0, errors


def test_a_method_that_needs_jax_says_so(light):
    code, _, errors = light["feddag"]
    assert code == 2
    assert "The method 'feddag' needs jax, which is not installed here. Install it with: pip install jax" in errors


def test_methods_that_are_not_installed_are_named_and_the_others_described(light):
    code, output, errors = light["methods"]
    assert code == 0, errors
    assert "feddag, mcsl, notears-mlp, admg, dag-gnn, notears-mlp-admm: pip install jax" in " ".join(output.split())
    assert "Search over orders of the variables" in output
