"""A run seen from another process: it appends a line to its folder after every round, and others follow these lines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Literal

from feddag.files import atomic_write
from feddag.learners.status import Status
from feddag.runs.folder import PROGRESS, at_work, is_finished, read_record

State = Literal["running", "finished", "stopped"]

GRACE = 2.0
"""Seconds without an owner after which a run counts as stopped: it has none for a moment when it starts."""


class ProgressLog:
    """Append each status to a file.

    A run that was interrupted repeats the rounds after its last checkpoint. So the first status of a resumed site
    replaces the later ones of that site in the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._earlier = read_progress(self._path)
        self._resumed: set[str | None] = set()
        self._lock = Lock()
        _write(self._path, self._earlier)  # without a line that was cut short

    def __call__(self, status: Status) -> None:
        """Append a status."""
        with self._lock:  # sites that learn alone may do so side by side
            if self._earlier and status.site not in self._resumed:
                self._drop_later_than(status)
            with open(self._path, "a", encoding="utf-8", newline="") as stream:
                stream.write(_line(status))

    def _drop_later_than(self, status: Status) -> None:
        kept = [each for each in read_progress(self._path) if each.site != status.site or each.seconds < status.seconds]
        self._resumed.add(status.site)
        _write(self._path, kept)


class ProgressReader:
    """Read the lines that were added since the last call."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._read = 0
        self._last = b""

    def news(self) -> tuple[list[Status], bool]:
        """Return the new statuses, and whether they replace all earlier ones: the file is another one."""
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._read - len(self._last))
                if stream.read(len(self._last)) != self._last:  # not the file that was read before
                    self._read, self._last = 0, b""
                anew = self._read == 0
                stream.seek(self._read)
                whole, end, _ = stream.read().rpartition(b"\n")
        except FileNotFoundError:  # before the run begins to learn, and when it has finished
            return [], False
        if end:
            self._read += len(whole) + len(end)
            self._last = whole.rpartition(b"\n")[2] + end
        return [Status(**json.loads(line)) for line in whole.splitlines()], anew


def read_progress(path: str | os.PathLike[str]) -> list[Status]:
    """Return all statuses in a file; none if there is no file."""
    return ProgressReader(path).news()[0]


def _write(path: Path, statuses: list[Status]) -> None:
    with atomic_write(path) as stream:
        stream.writelines(map(_line, statuses))


def _line(status: Status) -> str:
    return json.dumps(asdict(status), ensure_ascii=False) + "\n"


class RunMonitor:
    """The statuses and the state of a run as of the last `look`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.statuses: list[Status] = []
        self.state: State = "running"
        read_record(self.folder)
        self._reader = ProgressReader(self.folder / PROGRESS)
        self._owned = time.monotonic()

    def look(self) -> list[Status]:
        """Update the state, and return the statuses that are new."""
        news, anew = self._reader.news()
        self.statuses = news if anew else self.statuses + news
        self.state = self._seen_state()
        return news

    def _seen_state(self) -> State:
        # in this order: a run that ends has written `finished` before it lets go
        owned = at_work(self.folder)
        if is_finished(read_record(self.folder)):
            return "finished"
        if owned:
            self._owned = time.monotonic()
        return "running" if time.monotonic() - self._owned < GRACE else "stopped"


def follow(folder: str | os.PathLike[str], interval: float = 0.5) -> Iterator[Status]:
    """Yield the last status of each site, or of the federation, whenever there is a new one, until the run ends."""
    monitor = RunMonitor(folder)
    while True:
        news = monitor.look()
        yield from {status.site: status for status in news}.values()
        if monitor.state != "running":
            return
        time.sleep(interval)
