from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from feddag.cli import app
from feddag.silos import simulate


@pytest.fixture(scope="session")
def feddag() -> Callable[..., Result]:
    """Calls the command line within this process; what is no user's mistake is raised."""
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sites of three linear variables, and `truth.csv`."""
    folder = tmp_path_factory.mktemp("simulated") / "data"
    simulate(3, mechanism="linear", sites=3, rows=40, edge_probability="exact", seed=3).write(folder)
    return folder


@pytest.fixture(scope="session")
def sites(data: Path) -> list[Path]:
    return sorted(data.glob("site-*.csv"))


@pytest.fixture(scope="session")
def quick() -> tuple[str, ...]:
    """Options with which a run of FedDAG takes no time."""
    return ("--method", "feddag", "--model", "linear", "--it-inner", "20", "--it-fl", "10", "--rho-max", "10")
