"""A run as another process sees it: how far it is, and whether anybody is still at work on it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from feddag.learners.status import Status
from feddag.progress_log import ProgressReader
from feddag.runs import PROGRESS, Run, at_work

State = Literal["running", "finished", "stopped"]

GRACE = 2.0
"""Seconds without an owner after which a run counts as stopped: it has none for a moment when it starts."""


@dataclass
class Followed:
    """What has been told of a run so far; `look` brings it up to date."""

    folder: str | os.PathLike[str]
    statuses: list[Status] = field(default_factory=list)
    state: State = "running"

    def __post_init__(self) -> None:
        self._run = Run.open(self.folder)
        self._reader = ProgressReader(self._run.folder / PROGRESS)
        self._owned = time.monotonic()

    def look(self) -> list[Status]:
        """What is new."""
        news, anew = self._reader.news()
        self.statuses = news if anew else self.statuses + news
        self.state = self._seen_state()
        return news

    def _seen_state(self) -> State:
        # in this order: a run that ends has written `finished` before it lets go
        owned = at_work(self.folder)
        self._run = Run.open(self.folder)
        if self._run.finished:
            return "finished"
        if owned:
            self._owned = time.monotonic()
        return "running" if time.monotonic() - self._owned < GRACE else "stopped"


def follow(folder: str | os.PathLike[str], interval: float = 0.5) -> Iterator[Status]:
    """The last status of each site, or of the federation, whenever there is a new one; ends when the run does."""
    followed = Followed(folder)
    while True:
        news = followed.look()
        yield from {status.site: status for status in news}.values()
        if followed.state != "running":
            return
        time.sleep(interval)
