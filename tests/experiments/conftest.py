from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from feddag.experiments import Cell, Store
from feddag.experiments.result import METRICS, Result, identified
from feddag.learners import registry

sys.path.append(str(Path(__file__).parent))  # where counting_learner is


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results.sqlite")


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> str:
    from counting_learner import METHOD  # noqa: PLC0415 - after the path

    monkeypatch.setitem(registry.METHODS, "counting", METHOD)
    return "counting"


@pytest.fixture
def made() -> Callable[..., Result]:
    """A result as if the cell had been computed."""
    unknown = ("true_edges", "peak_memory", "bytes_sent", "bytes_received", "graph", "history", "data_digest")
    nowhere = ("python", "machine", "started", "finished")

    def make(cell: Cell, chosen: str = "declared", **metrics: float) -> Result:
        figures = {**dict.fromkeys((*METRICS, *unknown, *nowhere)), **metrics}
        return Result(**identified(cell), **figures, seconds=1.0, feddag="0", chosen=chosen)

    return make
