"""A run's folder: what was asked for, how far it is, and what came out.

| file                                           | there         | holds                               |
|------------------------------------------------|---------------|-------------------------------------|
| `run.json`                                     | always        | method, regime, parameters, sites   |
| `checkpoint*.npz`                              | while running | the state to resume from            |
| `.lock`                                        | while running | nothing; its owner is at work       |
| `graph.csv`, `graph.edges.csv`, `graph.dot`... | when finished | the learned graph, in every format  |
| `edge_scores.csv`, `history.csv`               | when finished | each pair's score; every round      |
| other `.csv`                                   | when finished | what else the method has to show    |
| `result.npz`                                   | when finished | all that `load` needs               |

Every file is written at once or not at all, and `run.json` says `finished` only after all others are there:
a run that is killed, at whichever moment, can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint
from feddag.files import atomic_write
from feddag.graphs import CausalGraph, write_graph
from feddag.learners.base import Learner
from feddag.learners.registry import make_learner, method_of, regime_of
from feddag.learners.status import Progress
from feddag.silos import Silo, as_silos

_RECORD, _CHECKPOINT, _RESULT = "run.json", "checkpoint.npz", "result.npz"
_LOCK = ".lock"
_LEFT_BY_A_KILL = (".*.tmp", _LOCK)
_GRAPH_FILES = ("graph.csv", "graph.edges.csv", "graph.dot", "graph.graphml", "graph.json")


@dataclass
class Run:
    """A fit that lives in a folder."""

    folder: Path
    record: dict[str, Any]
    """What `run.json` holds."""

    @classmethod
    def start(
        cls,
        folder: str | os.PathLike[str],
        estimator: Learner,
        silos: Sequence[Silo],
        sources: Sequence[str | os.PathLike[str]],
        method: str | None = None,
    ) -> Run:
        """Claim a new or empty folder for what `estimator` will learn from the tables in `sources`.

        `method` is the name that it was made by, where several stand for the same. Whatever is wrong with the input is
        found before the folder is touched.
        """
        folder = Path(folder)
        silos = estimator.check(silos)
        _check_that_names_can_be_written(silos[0].columns)
        check_that_folder_is_free(folder)
        learner, regime = regime_of(estimator)
        record = {
            "feddag": version("feddag"),
            "status": "running",
            "started": _now(),
            "finished": None,
            "method": method or method_of(estimator).name,
            "regime": regime,
            "parameters": learner.get_params(),
            "columns": silos[0].columns,
            "sites": [
                {
                    "name": silo.name,
                    "source": os.path.abspath(source),
                    "rows": silo.rows,
                    "sha256": _digest(silo),
                }
                for silo, source in zip(silos, sources, strict=True)
            ],
        }
        folder.mkdir(parents=True, exist_ok=True)
        run = cls(folder, record)
        run._write_record()
        return run

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Run:
        """The run that a folder holds, finished or not."""
        path = Path(folder) / _RECORD
        try:
            record = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise FeddagError(f"{folder} is not a run: it has no {_RECORD}. Check the path.") from None
        except ValueError as error:
            raise FeddagError(f"{path} is not the record of a run ({error}). Restore it.") from None
        return cls(Path(folder), record)

    @property
    def finished(self) -> bool:
        return self.record["status"] == "finished"

    def estimator(self) -> Learner:
        """The run's estimator, before it has learned anything."""
        return make_learner(self.record["method"], self.record["regime"], **self.record["parameters"])

    def silos(self) -> tuple[Silo, ...]:
        """The sites' tables, read again, if they are still those that the run was started with."""
        silos = as_silos({site["name"]: site["source"] for site in self.record["sites"]})
        for silo, site in zip(silos, self.record["sites"], strict=True):
            if _digest(silo) != site["sha256"]:
                raise FeddagError(
                    f"Site {silo.name!r}: {site['source']} has changed since the run started. "
                    "Restore the file, or start a new run."
                )
        return silos

    def learn(self, silos: Sequence[Silo], progress: Progress | None = None) -> Learner:
        """Start, or go on from the last checkpoint, and write the results."""
        estimator = self.estimator()
        with _locked(self.folder):
            if Run.open(self.folder).finished:  # by another process, since this one looked
                return load(self.folder)
            estimator.fit(silos, progress=progress, checkpoint=self.folder / _CHECKPOINT)
            self._write_results(estimator)
            self.record |= {"status": "finished", "finished": _now()}
            self._write_record()
            self.clear()
        return estimator

    def clear(self) -> None:
        """Remove what only an unfinished run needs."""
        for pattern in (_CHECKPOINT.replace(".", "*."), *_LEFT_BY_A_KILL):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def _write_record(self) -> None:
        with atomic_write(self.folder / _RECORD) as stream:
            # numpy's numbers are welcome as parameters, but JSON knows Python's only
            json.dump(self.record, stream, indent=2, ensure_ascii=False, default=lambda number: number.item())
            stream.write("\n")

    def _write_results(self, estimator: Learner) -> None:
        names = list(estimator.graph_.names)
        _write_graph_files(estimator.graph_, self.folder)
        _write_table(pd.DataFrame(estimator.edge_scores_, names, names), self.folder / "edge_scores.csv")
        _write_table(_history_frame(estimator), self.folder / "history.csv", index=False)
        for name, table in estimator.tables().items():
            _write_table(table, self.folder / f"{name}.csv", index=False)
        save_checkpoint(self.folder / _RESULT, *estimator.snapshot())


def load(folder: str | os.PathLike[str]) -> Learner:
    """The fitted estimator of a finished run."""
    run = Run.open(folder)
    if not run.finished:
        raise FeddagError(f"{folder}: the run has not finished. Resume it with: {resume_command(folder)}")
    return run.estimator().restore(*load_checkpoint(run.folder / _RESULT))


def resume_command(folder: str | os.PathLike[str]) -> str:
    """What a user types to go on with a run."""
    return f"feddag learn --resume {shlex.quote(os.fspath(folder))}"


def check_that_folder_is_free(folder: Path) -> None:
    """Refuse a folder that holds anything: nothing is ever overwritten."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FeddagError(f"{folder} is a file. Name a new folder for the run.")
    if (folder / _RECORD).exists():
        raise FeddagError(
            f"{folder} holds a run already. Name a new folder, or resume it with: {resume_command(folder)}"
        )
    if any(not any(path.match(pattern) for pattern in _LEFT_BY_A_KILL) for path in folder.iterdir()):
        raise FeddagError(f"{folder} is not empty. Name a new folder for the run.")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes off a run. The system ends the lock with its process, however that ends."""
    if fcntl is None:
        yield
        return
    with open(folder / _LOCK, "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FeddagError(
                f"{folder}: another process is at work on this run. Wait until it has ended, or stop it."
            ) from None
        except OSError:  # some network file systems have no locks
            pass
        yield


def _check_that_names_can_be_written(columns: Sequence[str]) -> None:
    """Let a name that some format cannot hold fail now, not when all is learned."""
    with TemporaryDirectory() as scratch:
        _write_graph_files(CausalGraph(np.zeros((len(columns), len(columns))), columns), Path(scratch))


def _write_graph_files(graph: CausalGraph, folder: Path) -> None:
    for name in _GRAPH_FILES:
        write_graph(graph, folder / name)


def _write_table(frame: pd.DataFrame, path: Path, *, index: bool = True) -> None:
    with atomic_write(path) as stream:
        frame.to_csv(stream, index=index, lineterminator="\n")


def _history_frame(estimator: Learner) -> pd.DataFrame:
    """One row per round; where sites learned alone, their name comes first."""
    if not estimator.learned_alone:
        return estimator.history_.to_frame()
    frames = {site: history.to_frame() for site, history in estimator.history_.items()}
    return pd.concat(frames, names=["site"]).reset_index(level="site")


def _digest(silo: Silo) -> str:
    digest = hashlib.sha256(json.dumps(silo.columns).encode())
    digest.update(np.ascontiguousarray(silo.values, dtype="<f8").tobytes())
    return digest.hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
