"""Progress and checkpoints of a fit, so that it can be killed at any moment and resumed."""

from __future__ import annotations

import copy
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint
from feddag.federation.protocol import Arrays
from feddag.learners.status import Progress, Status

CHECKPOINT_INTERVAL = 2.0
"""Seconds between two checkpoints: what a killed run has to do again at most, besides the round it was in."""


class Stateful(Protocol):
    """What can be stored as a JSON document and named arrays, and taken up again."""

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the state as a JSON document and named arrays."""
        ...

    def restore(self, document: dict[str, Any], arrays: Arrays) -> object:
        """Take up a state that `snapshot` returned."""
        ...


class FitContext:
    """The surroundings of one fit: its clock, the caller's `progress`, and the file that keeps its state."""

    def __init__(self, progress: Progress | None, checkpoint: str | os.PathLike[str] | None) -> None:
        self.progress = progress
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.fingerprint = ""
        """The hash of data and parameters: a checkpoint with another one is refused."""
        self._started = time.monotonic()
        self._earlier = [0.0]
        """What was counted before, in one list for the fit and all its parts."""

    @property
    def seconds(self) -> float:
        """The time of the whole fit: of this process, and of earlier ones until their last checkpoint."""
        return max(self._earlier) + time.monotonic() - self._started

    def taken_up_after(self, seconds: float) -> None:
        """Count what the fit had taken when its state was saved."""
        self._earlier.append(seconds)

    def part(self, number: int, site: str) -> FitContext:
        """Return the context of one site that learns alone: the same clock, a name and a file of its own."""
        part, progress = copy.copy(self), self.progress
        if progress is not None:
            part.progress = lambda status: progress(replace(status, site=site))
        if self.checkpoint is not None:
            part.checkpoint = self.checkpoint.with_stem(f"{self.checkpoint.stem}-{number}")
        return part

    def checkpointer(self, coordinator: Stateful, federation: Stateful | None = None) -> Checkpointer:
        """Restore the server's side and the sites' from the checkpoint, if there is one, and save them from now on."""
        checkpointer = Checkpointer(self, coordinator, federation)
        checkpointer.restore()
        return checkpointer


class Checkpointer:
    """Saves the server's state and the sites' together, marked with what they belong to.

    Without a path it saves nothing.
    """

    def __init__(self, context: FitContext, coordinator: Stateful, federation: Stateful | None) -> None:
        self._context = context
        self._path = context.checkpoint
        self._kept = {"coordinator": coordinator} | ({} if federation is None else {"federation": federation})
        self._saved = time.monotonic()

    def restore(self) -> None:
        """Go on from the file, if there is one."""
        if self._path is None or not self._path.exists():
            return
        document, arrays = load_checkpoint(self._path)
        if document["fingerprint"] != self._context.fingerprint:
            raise FeddagError(
                f"{self._path} belongs to a run with other data or parameters. "
                "Resume with those, or start a new run elsewhere."
            )
        for name, each in self._kept.items():
            each.restore(document[name], under(name, arrays))
        self._context.taken_up_after(document["seconds"])

    def after_round(self, status: Status) -> None:
        """Save if it is time to, and tell the caller; what he raises ends the fit, and the file holds this round."""
        if time.monotonic() - self._saved >= CHECKPOINT_INTERVAL:
            self.save()
        if self._context.progress is None:
            return
        try:
            self._context.progress(status)
        except BaseException:
            self.save()
            raise

    def save(self) -> None:
        """Write the checkpoint now, if there is a path."""
        if self._path is None:
            return
        document: dict[str, Any] = {"fingerprint": self._context.fingerprint, "seconds": self._context.seconds}
        arrays: dict[str, np.ndarray] = {}
        for name, each in self._kept.items():
            document[name], its = each.snapshot()
            arrays |= prefixed(name, its)
        save_checkpoint(self._path, document, arrays)
        self._saved = time.monotonic()
