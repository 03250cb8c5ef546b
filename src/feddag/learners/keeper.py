"""Keeps a run's state in one file, so that it can be killed at any moment and taken up again."""

from __future__ import annotations

import time
from pathlib import Path

from feddag.errors import FeddagError
from feddag.federation import InProcess
from feddag.federation.arrays import prefixed, under
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint
from feddag.learners.coordinator import Coordinator

CHECKPOINT_INTERVAL = 2.0
"""Seconds between two checkpoints: what a killed run has to do again at most, besides the round it was in."""


class Keeper:
    """Saves the coordinator's state and the federation's together, marked with what they belong to."""

    def __init__(self, path: Path, fingerprint: str, coordinator: Coordinator, federation: InProcess) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._coordinator = coordinator
        self._federation = federation
        self._saved = time.monotonic()

    def restore(self) -> None:
        """Go on from the file, if there is one."""
        if not self._path.exists():
            return
        document, arrays = load_checkpoint(self._path)
        if document["fingerprint"] != self._fingerprint:
            raise FeddagError(
                f"{self._path} belongs to a run with other data or parameters. "
                "Resume with those, or start a new run elsewhere."
            )
        self._coordinator.restore(document["coordinator"], under("coordinator", arrays))
        self._federation.restore(document["federation"], under("federation", arrays))

    def save_if_due(self) -> None:
        if time.monotonic() - self._saved >= CHECKPOINT_INTERVAL:
            self.save()

    def save(self) -> None:
        coordinator, coordinator_arrays = self._coordinator.snapshot()
        federation, federation_arrays = self._federation.snapshot()
        save_checkpoint(
            self._path,
            {"fingerprint": self._fingerprint, "coordinator": coordinator, "federation": federation},
            prefixed("coordinator", coordinator_arrays) | prefixed("federation", federation_arrays),
        )
        self._saved = time.monotonic()
