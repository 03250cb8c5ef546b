"""The rounds of a run as lines of JSON in its folder, for whoever follows it from another process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from threading import Lock

from feddag.files import atomic_write
from feddag.learners.status import Status


class ProgressLog:
    """Appends each status to the file.

    What a run that was interrupted did after its last checkpoint it does again. So the first status of a site that was
    taken up takes the place of those that stand in the file as later ones.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._earlier = read_progress(self._path)
        self._taken_up: set[str | None] = set()
        self._lock = Lock()
        _write(self._path, self._earlier)  # without a line that was cut short

    def __call__(self, status: Status) -> None:
        with self._lock:  # sites that learn alone may do so side by side
            if self._earlier and status.site not in self._taken_up:
                self._drop_later_than(status)
            with open(self._path, "a", encoding="utf-8", newline="") as stream:
                stream.write(_line(status))

    def _drop_later_than(self, status: Status) -> None:
        kept = [each for each in read_progress(self._path) if each.site != status.site or each.seconds < status.seconds]
        self._taken_up.add(status.site)
        _write(self._path, kept)


class ProgressReader:
    """Reads what has been added since it was last asked."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._read = 0
        self._last = b""

    def news(self) -> tuple[list[Status], bool]:
        """Statuses, and whether they are all there are: the file is a new one, or another has taken its place."""
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
    """All statuses in a file; none where there is no file."""
    return ProgressReader(path).news()[0]


def _write(path: Path, statuses: list[Status]) -> None:
    with atomic_write(path) as stream:
        stream.writelines(map(_line, statuses))


def _line(status: Status) -> str:
    return json.dumps(asdict(status), ensure_ascii=False) + "\n"
