"""The files of a run's folder.

| file                                           | there               | holds                                     |
|------------------------------------------------|---------------------|-------------------------------------------|
| `run.json`                                     | always              | method, parameters, sites, data           |
| `checkpoint*.npz`                              | while running       | the state to resume from                  |
| `progress.jsonl`                               | while running       | the status after each round               |
| `.lock`                                        | while running       | nothing; its owner is at work             |
| `graph.csv`, `graph.edges.csv`, `graph.dot`... | when finished       | the learned graph, in every format        |
| `edge_scores.csv`, `history.csv`               | when finished       | each pair's score; every round            |
| other `.csv`                                   | when finished       | further tables of the method              |
| `result.npz`                                   | when finished       | all that `load` needs                     |
| `trust.json`                                   | `Run.assess`        | the verdict, and the warnings             |
| `stability/`, `stability.csv`                  | `Run.stability`     | replicates; how often each edge came back |
| `mechanisms.csv`                               | `Run.mechanisms`    | how well causes explain, at each site     |
| `effects.json`                                 | `Run.effects`       | the total effects computed so far         |
| `tuning.csv`                                   | over a network      | parameters compared by rows laid aside    |
| `disclosure.json`                              | `feddag disclosure` | what the study releases about one table   |

Every file is written at once or not at all, and `run.json` says `finished` only after all results are there: a run that
is killed, at whichever moment, can be resumed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from feddag.errors import FeddagError
from feddag.files import as_text, atomic_write, from_text, is_locked, lock

RECORD, CHECKPOINT, RESULT, PROGRESS = "run.json", "checkpoint.npz", "result.npz", "progress.jsonl"
ASSESSMENT, REPLICATES, STABILITY, MECHANISMS = "trust.json", "stability", "stability.csv", "mechanisms.csv"
EFFECTS, TUNING = "effects.json", "tuning.csv"
GRAPHS = ("graph.csv", "graph.edges.csv", "graph.dot", "graph.graphml", "graph.json")
_LOCK = ".lock"
LEFT_BY_A_KILL = (".*.tmp", _LOCK)
_TEXTS = ("cause", "effect", "causes", "site", "driving_site", "without_it", "learned")
"""Columns whose values are text, even if they look like numbers or gaps."""


def read_record(folder: Path) -> dict[str, Any]:
    """Read `run.json`."""
    try:
        return json.loads((folder / RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise FeddagError(f"{folder} is not a run: it has no {RECORD}. Check the path.") from None
    except ValueError as error:
        raise FeddagError(f"{folder / RECORD} is not the record of a run ({error}). Restore it.") from None


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write `run.json`."""
    write_json(folder / RECORD, record)


def is_finished(record: dict[str, Any]) -> bool:
    """Return whether the run has written its results."""
    return record["status"] == "finished"


def read_json(path: Path) -> Any:
    """Read a file of the folder that may not be there; then return `None`."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise FeddagError(f"{path} is not JSON ({error}). Remove it, or write it again.") from None


def write_json(path: Path, content: Any) -> None:
    """Write a document; numbers of NumPy become Python's, which are all that JSON knows."""
    with atomic_write(path) as stream:
        json.dump(content, stream, indent=2, ensure_ascii=False, default=lambda number: number.item())
        stream.write("\n")


def read_table(path: Path) -> pd.DataFrame | None:
    """Read a table that may not be there; then return `None`."""
    if not path.exists():
        return None
    frame = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str), keep_default_na=False, na_values=[""])
    frame = frame.fillna({name: "" for name in _TEXTS if name in frame})
    return frame.assign(**{name: frame[name].map(from_text) for name in _TEXTS if name in frame})


def write_table(frame: pd.DataFrame, path: Path, *, index: bool = False) -> None:
    """Write a table as CSV; texts that a spreadsheet would run as formulas have an apostrophe before them."""
    with atomic_write(path) as stream:
        frame.map(as_text).rename(index=as_text, columns=as_text).to_csv(stream, index=index, lineterminator="\n")


def at_work(folder: str | os.PathLike[str]) -> bool:
    """Return whether a process is learning in this folder. Where the system has no locks, always true."""
    return is_locked(Path(folder) / _LOCK)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes off a run."""
    with open(folder / _LOCK, "wb") as stream:
        lock(stream, f"{folder}: another process is at work on this run. Wait until it has ended, or stop it.")
        yield


def resume_command(folder: str | os.PathLike[str]) -> str:
    """Return the command that goes on with a run."""
    quoted = shlex.quote(os.fspath(folder))
    if read_record(Path(folder)).get("federated"):
        return f"feddag federation run STUDY --kit KIT --out {quoted}"
    return f"feddag learn --resume {quoted}"


def check_that_folder_is_free(folder: Path) -> None:
    """Refuse a folder that holds anything: nothing is ever overwritten."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FeddagError(f"{folder} is a file. Name a new folder for the run.")
    if (folder / RECORD).exists():
        raise FeddagError(
            f"{folder} holds a run already. Name a new folder, or resume it with: {resume_command(folder)}"
        )
    if any(not any(path.match(pattern) for pattern in LEFT_BY_A_KILL) for path in folder.iterdir()):
        raise FeddagError(f"{folder} is not empty. Name a new folder for the run.")


def clear(folder: Path) -> None:
    """Remove the files that only an unfinished run needs."""
    for pattern in (CHECKPOINT.replace(".", "*."), PROGRESS, *LEFT_BY_A_KILL):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
