"""Shapes are promises too: what the annotations say is checked at every call while the tests run."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from jaxtyping import install_import_hook

# Compiled programs are kept for the next run of the tests, and out of the user's own cache.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

# Before any of these is imported, which is why it stands here. Only where arrays cross a module: elsewhere beartype
# would refuse a user's mistake before feddag can, and a whole number where a float is meant.
install_import_hook(("feddag.models", "feddag.learners.feddag.history", "feddag.silos.silo"), "beartype.beartype")

# By itself Hypothesis fails an example that takes 0.2 seconds, which any may on a busy machine.
hypothesis.settings.register_profile("feddag", deadline=None)
hypothesis.settings.load_profile("feddag")

sys.path.append(str(Path(__file__).parent))  # where toy_learner is


@pytest.fixture(scope="session", autouse=True)
def no_power_cut() -> Iterator[None]:
    """Files need not reach the disk, which takes most of the time of a study's rounds: no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Name folders that nobody has made; `mktemp` would look at all folders of the session for each of them."""
    folder = tmp_path_factory.mktemp("states")
    return (str(folder / str(number)) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_state(states: Iterator[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test's tables are remembered by the next one, nor by the user's own sites."""
    monkeypatch.setenv("FEDDAG_STATE", next(states))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a further method, which is there for the time of a test."""
    from feddag.learners import registry  # noqa: PLC0415 - after the hook

    method = registry.Method("toy", "toy_learner:Toy", "Correlations.", "None.", "None.")
    monkeypatch.setitem(registry.METHODS, "toy", method)
    return "toy"
