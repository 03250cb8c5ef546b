"""What a server keeps of a study: every sum and every decision, so that it can be killed at any moment and resumed.

A learner is a function of its parameters, of the sums, and of what it decided otherwise, such as by the clock. Resumed,
it begins anew and finds both here, until it asks for what was never answered: no site works on a round twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint, not_kept, save_checkpoint
from feddag.files import atomic_write

_DECISIONS = "decisions.json"


@dataclass(frozen=True)
class Entry:
    """One round."""

    task: str
    """The digest of what was asked."""
    mean: Mapping[str, np.ndarray]
    summed: int
    """How many sites the mean is of."""
    sent: Mapping[str, int]
    """Bytes, by site; likewise what each received."""
    received: Mapping[str, int]


class Journal:
    """The rounds of one study, each a file in a folder, and its decisions."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        count = 0
        while self._path(count).exists():
            count += 1
        return count

    def read(self, round_: int, task: str) -> Entry | None:
        """Return a round, if it is there; refuse one that answers another task."""
        path = self._path(round_)
        if not path.exists():
            return None
        document, mean = load_checkpoint(path)
        entry = Entry(mean=mean, **document)
        if entry.task != task:
            raise FeddagError(
                f"{path} answers another task than round {round_ + 1} of this study asks for: feddag has changed since "
                "the study began. Go on with the version that it began with, or remove the folder and start anew."
            )
        return entry

    def write(self, round_: int, entry: Entry) -> None:
        """Keep a round."""
        document = {name: value for name, value in vars(entry).items() if name != "mean"}
        try:
            save_checkpoint(self._path(round_), document, entry.mean)
        except OSError as error:
            raise not_kept(self._folder, error) from None

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        """Return what was answered to a question, or answer it now and keep that before it is acted on."""
        path = self._folder / _DECISIONS
        decisions: dict[str, bool] = json.loads(path.read_text()) if path.exists() else {}
        if question not in decisions:
            decisions[question] = answer()
            try:
                with atomic_write(path) as stream:
                    json.dump(decisions, stream)
            except OSError as error:
                raise not_kept(self._folder, error) from None
        return decisions[question]

    def _path(self, round_: int) -> Path:
        return self._folder / f"{round_:06}.npz"
