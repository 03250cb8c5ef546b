from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feddag.experiments import Cell, Store
from feddag.experiments.result import METRICS, Result, describe_cell
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
    unknown = dict.fromkeys((*METRICS, "true_edges", "peak_memory", "history"))
    known = {
        "bytes_sent": 0,
        "bytes_received": 0,
        "graph": {"names": [], "edges": [], "undirected": [], "guessed": []},
        "data_digest": "0",
        **dict.fromkeys(("feddag", "python", "machine"), "0"),
        **dict.fromkeys(("started", "finished"), "2026-01-01T00:00:00+00:00"),
    }

    def make(cell: Cell, chosen: str = "declared", **figures: Any) -> Result:
        return Result(**describe_cell(cell), **{**unknown, **known, "seconds": 1.0, **figures}, chosen=chosen)

    return make
