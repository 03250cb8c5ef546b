"""A run's folder: what was asked for, how far it is, and what came out.

| file                                           | there         | holds                               |
|------------------------------------------------|---------------|-------------------------------------|
| `run.json`                                     | always        | method, parameters, sites, data     |
| `checkpoint*.npz`                              | while running | the state to resume from            |
| `progress.jsonl`                               | while running | what has been told of each round    |
| `.lock`                                        | while running | nothing; its owner is at work       |
| `graph.csv`, `graph.edges.csv`, `graph.dot`... | when finished | the learned graph, in every format  |
| `edge_scores.csv`, `history.csv`               | when finished | each pair's score; every round      |
| other `.csv`                                   | when finished | what else the method has to show    |
| `trust.json`, `stability/`, `stability.csv`... | on the way    | what `feddag.trust` found           |
| `result.npz`                                   | when finished | all that `load` needs               |

Every file is written at once or not at all, and `run.json` says `finished` only after all others are there:
a run that is killed, at whichever moment, can be resumed.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint
from feddag.files import atomic_write, is_locked, lock
from feddag.graphs import CausalGraph, write_graph
from feddag.learners.base import Learner
from feddag.learners.registry import make_learner, method_of, regime_of
from feddag.learners.status import Progress, Status
from feddag.progress_log import ProgressLog
from feddag.silos import Preparation, Silo, read_silos
from feddag.silos.preparation import Account
from feddag.silos.sources import source_of
from feddag.study import Study

_RECORD, _CHECKPOINT, _RESULT = "run.json", "checkpoint.npz", "result.npz"
PROGRESS = "progress.jsonl"
_LOCK = ".lock"
_LEFT_BY_A_KILL = (".*.tmp", _LOCK)
_LIBRARIES = ("jax", "numpy", "scipy", "scikit-learn")
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
        *,
        preparation: Preparation | None = None,
        study: Study | None = None,
    ) -> Run:
        """Claim a new or empty folder for what `estimator` will learn from the tables in `sources`.

        `method` is the name that it was made by, where several stand for the same; `preparation` or `study` is what
        the tables were read by. Whatever is wrong with the input is found before the folder is touched.
        """
        folder = Path(folder)
        silos = estimator.check(silos)
        _check_that_names_can_be_written(silos[0].columns)
        check_that_folder_is_free(folder)
        record = {
            **_new_record(estimator, method or method_of(estimator).name, silos[0].columns),
            "sites": [
                {
                    "name": silo.name,
                    "source": source_of(source).recorded,
                    "rows": silo.rows,
                    "sha256": silo.digest(),
                }
                for silo, source in zip(silos, sources, strict=True)
            ],
            "data": {
                **asdict(study.preparation if study else preparation or Preparation()),
                "sites": {silo.name: asdict(silo.account) for silo in silos},
            },
            "study": study and {"digest": study.digest, **study.document()},
        }
        return cls._claim(folder, record)

    @classmethod
    def start_federated(cls, folder: str | os.PathLike[str], study: Study) -> Run:
        """Claim a new or empty folder for what sites on a network will learn; one of the same study is taken up."""
        folder = Path(folder)
        agreed = {"digest": study.digest, **study.document()}
        if (folder / _RECORD).exists():
            run = cls.open(folder)
            if run.record.get("federated") and (run.record["study"] or {}).get("digest") == study.digest:
                return run
        check_that_folder_is_free(folder)
        record = {
            **_new_record(study.learner(), study.method.name, study.columns),
            "federated": True,
            "sites": [{"name": site.name} for site in study.sites],
            "data": asdict(study.preparation),
            "study": agreed,
        }
        return cls._claim(folder, record)

    @classmethod
    def _claim(cls, folder: Path, record: dict[str, Any]) -> Run:
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

    @property
    def preparation(self) -> Preparation:
        """How the tables were read."""
        data = self.record.get("data", {})
        return Preparation(**{name: data[name] for name in ("missing", "scale") if name in data})

    @property
    def study(self) -> Study | None:
        """What the sites had agreed on, where they had."""
        agreed = self.record.get("study")
        if agreed is None:
            return None
        content = {name: value for name, value in agreed.items() if name != "digest"}
        return Study.of(content, f"{self.folder / _RECORD}: study")

    def accounts(self) -> dict[str, Account]:
        """What was done to each site's table before it was learned from."""
        return {site: Account(**account) for site, account in self.record.get("data", {}).get("sites", {}).items()}

    def estimator(self) -> Learner:
        """The run's estimator, before it has learned anything."""
        parameters = {name: _as_tuples(value) for name, value in self.record["parameters"].items()}
        return make_learner(self.record["method"], self.record["regime"], **parameters)

    def silos(self) -> tuple[Silo, ...]:
        """The sites' tables, read again, if they are still those that the run was started with."""
        if self.record.get("federated"):
            raise FeddagError(f"{self.folder}: the tables of this run stayed at its sites. Do this there.")
        sources = {site["name"]: site["source"] for site in self.record["sites"]}
        silos = self.study.silos(sources) if self.study else read_silos(sources, **asdict(self.preparation))
        for silo, site in zip(silos, self.record["sites"], strict=True):
            if silo.digest() != site["sha256"]:
                raise FeddagError(
                    f"Site {silo.name!r}: {site['source']} has changed since the run started. "
                    "Restore the file, or start a new run."
                )
        return silos

    def learn(self, silos: Sequence[Silo], progress: Progress | None = None) -> Learner:
        """Start, or go on from the last checkpoint, and write the results."""
        checkpoint = self.folder / _CHECKPOINT
        return self.learn_by(lambda told: self.estimator().fit(silos, progress=told, checkpoint=checkpoint), progress)

    def learn_by(self, fit: Callable[[Progress], Learner], progress: Progress | None = None) -> Learner:
        """Have a fitted estimator of the run's method and parameters made, and write the results."""
        with _locked(self.folder):
            if Run.open(self.folder).finished:  # by another process, since this one looked
                return load(self.folder)
            estimator = fit(self._logged(progress))
            self._write_results(estimator)
            self.record |= {"status": "finished", "finished": _now()}
            self._write_record()
            self.clear()
        return estimator

    def clear(self) -> None:
        """Remove what only an unfinished run needs."""
        for pattern in (_CHECKPOINT.replace(".", "*."), PROGRESS, *_LEFT_BY_A_KILL):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def _logged(self, progress: Progress | None) -> Progress:
        """Keeps every status for those who follow the run by its folder, before `progress` may end the fit."""
        log = ProgressLog(self.folder / PROGRESS)

        def told(status: Status) -> None:
            log(status)
            if progress is not None:
                progress(status)

        return told

    def _write_record(self) -> None:
        with atomic_write(self.folder / _RECORD) as stream:
            # numpy's numbers are welcome as parameters, but JSON knows Python's only
            json.dump(self.record, stream, indent=2, ensure_ascii=False, default=lambda number: number.item())
            stream.write("\n")

    def _write_results(self, estimator: Learner) -> None:
        names = list(estimator.graph_.names)
        _write_graph_files(estimator.graph_, self.folder)
        _write_table(pd.DataFrame(estimator.edge_scores_, names, names), self.folder / "edge_scores.csv")
        _write_table(history_frame(estimator), self.folder / "history.csv", index=False)
        for name, table in estimator.tables().items():
            _write_table(table, self.folder / f"{name}.csv", index=False)
        save_checkpoint(self.folder / _RESULT, *estimator.snapshot())


def _as_tuples(value: Any) -> Any:
    """JSON has lists only, and the parameters' defaults are tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _new_record(estimator: Learner, method: str, columns: Sequence[str]) -> dict[str, Any]:
    learner, regime = regime_of(estimator)
    return {
        "feddag": version("feddag"),
        "versions": {"python": sys.version.split()[0]} | {name: version(name) for name in _LIBRARIES},
        "status": "running",
        "started": _now(),
        "finished": None,
        "method": method,
        "regime": regime,
        "parameters": learner.get_params(),
        "columns": columns,
    }


def load(folder: str | os.PathLike[str]) -> Learner:
    """The fitted estimator of a finished run, such as `feddag learn` leaves in its folder.

    Examples:
        >>> import feddag
        >>> from feddag.runs import Run
        >>> feddag.simulate(3, sites=2, rows=50).write("data")
        >>> tables = ["data/site-01.csv", "data/site-02.csv"]
        >>> run = Run.start("run", feddag.make_learner("notears"), feddag.read_silos(tables), tables)
        >>> learned = run.learn(run.silos())
        >>> feddag.load("run").graph_ == learned.graph_
        True
    """
    run = Run.open(folder)
    if not run.finished:
        raise FeddagError(f"{folder}: the run has not finished. Resume it with: {resume_command(folder)}")
    return run.estimator().restore(*load_checkpoint(run.folder / _RESULT))


def at_work(folder: str | os.PathLike[str]) -> bool:
    """Whether a process is learning in this folder, as far as the system can tell: where it has no locks, always."""
    return is_locked(Path(folder) / _LOCK)


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
    """Keep other processes off a run."""
    with open(folder / _LOCK, "wb") as stream:
        lock(stream, f"{folder}: another process is at work on this run. Wait until it has ended, or stop it.")
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


def history_frame(estimator: Learner) -> pd.DataFrame:
    """One row per round; where sites learned alone, their name comes first."""
    if not estimator.learned_alone:
        return estimator.history_.to_frame()
    frames = {site: history.to_frame() for site, history in estimator.history_.items()}
    return pd.concat(frames, names=["site"]).reset_index(level="site")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
