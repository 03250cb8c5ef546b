"""A site's record of every message that came in or went out, in which nothing can be changed unnoticed.

The log is a file of JSON lines. Each ends with its own `hash`, the SHA-256 of all that stands before it, and begins
with that of the line above (`previous`): whoever changes, removes or inserts a line breaks the chain from there on.
The first line names study, site and version.

A chain alone does not show that its end was cut off, or that all of it was written anew. Its head, the last line's
hash, does: it goes to the other sites in every round of a secure sum, they write it into their own logs, and `verify`
takes what they have seen.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from feddag.errors import FeddagError
from feddag.federation.protection import PLAIN
from feddag.federation.protocol import Arrays, Task
from feddag.federation.tasks import TaskSpec
from feddag.files import atomic_write, lock

Direction = Literal["in", "out"]
MOST_BYTES_IN_FULL = 2**16
"""Messages of the server that are no larger stand in the log in full; others in files beside it."""
_QUESTIONS = "questions"
"""The folder of such files that hold questions."""
_NOTHING = "0" * 64
"""What the first line has for the hash of the line above."""
_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}')


class BrokenLogError(FeddagError):
    """A line that is not the one which was written."""

    def __init__(self, path: Path, line: int, found: str) -> None:
        self.line = line
        super().__init__(
            f"{path}, line {line}: {found}. What stands here was not written so: trust nothing from it on."
        )


class AuditLog:
    """Writes the log of one site in one study, and takes up one that is there. No two may write at a time."""

    def __init__(self, path: str | os.PathLike[str], study_hash: str, site: str) -> None:
        self.path = Path(path)
        self._lock = Lock()
        if not self.path.parent.is_dir():
            raise FeddagError(f"{path}: the directory {self.path.parent} does not exist. Create it first.")
        self._stream = open(self.path, "a+b", buffering=0)  # noqa: SIM115 - open as long as the log is
        try:
            lock(self._stream, f"{path}: another process is writing this log. Stop it, or wait until it has ended.")
            self._take_up(study_hash, site)
        except BaseException:
            self._stream.close()
            raise

    def _take_up(self, study_hash: str, site: str) -> None:
        self._stream.seek(0)
        content = self._stream.read()
        whole = content.rfind(b"\n") + 1
        entries = list(_entries(self.path, content[:whole]))
        first = entries[0][0] if entries else None
        self._size = whole
        self.head = entries[-1][1] if entries else _NOTHING
        """The last line's hash, to be sent with the results."""
        self._declared = {entry["task"] for entry, _ in entries if entry["event"] == "task"}
        if first is not None and (first["study"], first["site"]) != (study_hash, site):
            raise FeddagError(
                f"{self.path} is the log of site {first['site']!r} in the study {first['study'][:12]}…, not of "
                f"{site!r} in {study_hash[:12]}…. Name another file."
            )
        if whole < len(content):  # a kill left half a line
            self._stream.truncate(whole)
        if first is None:
            self._append({"event": "started", "study": study_hash, "site": site, "feddag": version("feddag")})
        else:
            self._append({"event": "resumed", "feddag": version("feddag")})
        if whole < len(content):
            self._append({"event": "repaired", "bytes_removed": len(content) - whole})

    def declare(self, spec: TaskSpec) -> None:
        """Write down what answers to a task disclose, before the first of them: the log explains itself."""
        if spec.name in self._declared:
            return
        answers = {name: output.discloses for name, output in spec.answers.items()}
        self._append({"event": "task", "task": spec.name, "discloses": spec.discloses, "answers": answers})
        self._declared.add(spec.name)

    def record(
        self,
        direction: Direction,
        task: str,
        round_: int,
        arrays: Arrays,
        payload: bytes,
        *,
        protection: str = PLAIN,
        sites: int = 1,
    ) -> None:
        """Write down a message before it is sent, or as it came in. Once this returns, the line is on the disk.

        `payload` is what the message is on the wire, of which the log keeps size and hash. `protection` is such that
        `feddag.federation.protection.describe_protection` knows it, and `sites` is how many enter the sum.
        """
        self._append(_message(direction, task, round_, arrays, payload, protection, sites))

    def record_question(self, task: Task, round_: int, payload: bytes, decisions: Mapping[str, bool]) -> None:
        """Write down what the server asks, in full, and what it has decided since the last round."""
        entry = _message("in", task.name, round_, task.arrays, payload, PLAIN, 1)
        kept = _in_full(payload) or {"file": self._keep_question(entry["payload"], payload)}
        self._append({**entry, "decisions": dict(decisions), **kept})

    def _keep_question(self, digest: str, payload: bytes) -> str:
        """Write a question that is too large for a line into a file of its own; return its name."""
        file = self.path.parent / _QUESTIONS / f"{digest[:32]}.bin"
        file.parent.mkdir(exist_ok=True, mode=0o700)
        with atomic_write(file, "wb") as stream:
            stream.write(payload)
        return f"{_QUESTIONS}/{file.name}"

    def record_step(self, round_: int, file: Path, head: str) -> None:
        """Write down the sum of a round as the server shows it, in full where it is small; `file` keeps it."""
        payload = file.read_bytes()
        entry = {"event": "step", "round": round_, "file": f"{file.parent.name}/{file.name}", "course": head}
        digest = hashlib.sha256(payload).hexdigest()
        self._append({**entry, "bytes": len(payload), "payload": digest, **_in_full(payload)})

    def record_members(self, round_: int, members: Sequence[str]) -> None:
        """Write down whose answers are in the sum of a round."""
        self._append({"event": "sum", "round": round_, "members": list(members)})

    def record_heads(self, heads: Mapping[str, str]) -> None:
        """Write down the heads of the other sites' logs: none of them can write its log anew without being noticed."""
        self._append({"event": "heads", "heads": dict(heads)})

    def record_refusal(self, request: str, reason: str) -> None:
        """Write down that the site has refused a request of the server. Why, in full, only its terminal says."""
        self._append({"event": "refused", "request": request, "reason": reason})

    def _append(self, entry: Mapping[str, Any]) -> None:
        with self._lock:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            body = json.dumps({"previous": self.head, "time": time, **entry}, separators=(",", ":")).encode()
            sealed = hashlib.sha256(body).hexdigest()
            line = body[:-1] + f',"hash":"{sealed}"}}\n'.encode()
            try:
                written = 0
                while written < len(line):
                    written += self._stream.write(line[written:]) or 0
                os.fsync(self._stream.fileno())
            except OSError:  # a full disk must not leave half a line for the next one to follow
                self._stream.truncate(self._size)
                raise
            self.head, self._size = sealed, self._size + len(line)

    def close(self) -> None:
        """Close the file; another process may then write it."""
        self._stream.close()

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _message(
    direction: Direction, task: str, round_: int, arrays: Arrays, payload: bytes, protection: str, sites: int
) -> dict[str, Any]:
    return {
        "event": "message",
        "direction": direction,
        "task": task,
        "round": round_,
        "arrays": {name: [array.dtype.name, *array.shape] for name, array in arrays.items()},
        "bytes": len(payload),
        "protection": protection,
        "sites": sites,
        "payload": hashlib.sha256(payload).hexdigest(),
    }


def _in_full(payload: bytes) -> dict[str, str]:
    return {"content": base64.b64encode(payload).decode()} if len(payload) <= MOST_BYTES_IN_FULL else {}


@dataclass
class Flow:
    """All messages of one task that went one way under one protection."""

    direction: Direction
    task: str
    protection: str
    sites: int
    messages: int = 0
    bytes: int = 0
    arrays: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)
    """By name, in which * stands for a number: every dtype, followed by the shape, that was seen."""

    def add(self, size: int, arrays: Mapping[str, list[Any]]) -> None:
        """Count a message."""
        self.messages += 1
        self.bytes += size
        for name, (dtype, *shape) in arrays.items():
            pattern = "/".join("*" if part.isdigit() else part for part in name.split("/"))
            self.arrays.setdefault(pattern, set()).add((dtype, *map(int, shape)))


@dataclass(frozen=True)
class Disclosure:
    """What answers to a task disclose, in the words of the site's own log."""

    summary: str
    answers: Mapping[str, str] = field(default_factory=dict)
    """By the array's name, in which * stands for anything."""

    def describe(self, array: str) -> str:
        """Say what an array discloses; an empty text where the log says nothing of it."""
        return next((words for name, words in self.answers.items() if fnmatchcase(array, name)), "")


@dataclass
class Summary:
    """What a log whose chain is whole has to say."""

    study: str
    site: str
    version: str
    started: str
    ended: str
    head: str
    lines: int
    resumed: int
    repaired: int
    unfinished: bool
    """Whether the last line was cut short, as a kill leaves it."""
    flows: list[Flow]
    disclosures: dict[str, Disclosure]
    """By task."""
    refusals: dict[str, int]
    """By reason, how many requests of the server the site has refused."""


def read_entries(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the content of every line of a log, each checked."""
    path = Path(path)
    content, whole = _read(path)
    return [entry for entry, _ in _entries(path, content[:whole])]


def read_in_full(path: Path, line: int, entry: Mapping[str, Any]) -> bytes:
    """Return a message of the server, once it has been checked: it stands in the log, or in a file beside it."""
    content = base64.b64decode(entry["content"]) if "content" in entry else _beside(path, entry["file"])
    if hashlib.sha256(content).hexdigest() != entry["payload"]:
        found = f"the {_KEPT[entry['event']]} of round {entry['round'] + 1} is not the one that was written"
        raise BrokenLogError(path, line, found)
    return content


_KEPT = {"step": "sum", "message": "question"}


def _beside(path: Path, file: str) -> bytes:
    place = path.parent / file
    if not place.is_file():
        raise FeddagError(
            f"{place} is not there: the log needs it for what is too large for a line. Restore it beside the log."
        )
    return place.read_bytes()


def heads_seen(path: str | os.PathLike[str], site: str) -> list[str]:
    """Return the heads of another site's log that this log has seen."""
    seen = [entry["heads"].get(site) for entry in read_entries(path) if entry["event"] == "heads"]
    return [head for head in seen if head]


def _read(path: Path) -> tuple[bytes, int]:
    """Return a log's bytes, and how many of them are whole lines."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FeddagError(f"{path} does not exist. Check the path.") from None
    whole = content.rfind(b"\n") + 1
    if whole == 0:
        raise FeddagError(f"{path} is not an audit log: it has not one whole line. Check the path.")
    return content, whole


def verify(path: str | os.PathLike[str], heads: Iterable[str] = ()) -> Summary:
    """Check every line of a log, and sum it up. `heads` are those that others have seen: the log must have each."""
    path = Path(path)
    content, whole = _read(path)
    entries = list(_entries(path, content[:whole]))
    own = {sealed for _, sealed in entries}
    if lost := [head for head in heads if head not in own]:
        raise BrokenLogError(path, len(entries), f"the log ends without the head {lost[0][:12]}…, which it once had")
    first, last = entries[0][0], entries[-1][0]
    flows: dict[tuple[Any, ...], Flow] = {}
    disclosures: dict[str, Disclosure] = {}
    refusals: Counter[str] = Counter()
    for line, (entry, _) in enumerate(entries, start=1):
        try:
            if entry["event"] == "message":
                key = (entry["direction"], entry["task"], entry["protection"], int(entry["sites"]))
                flows.setdefault(key, Flow(*key)).add(int(entry["bytes"]), entry["arrays"])
            elif entry["event"] == "task":
                disclosures[entry["task"]] = Disclosure(entry["discloses"], dict(entry["answers"]))
            elif entry["event"] == "refused":
                refusals[str(entry["reason"])] += 1
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BrokenLogError(path, line, "the message is not described as feddag does") from None
    events = [entry["event"] for entry, _ in entries]
    return Summary(
        study=first["study"],
        site=first["site"],
        version=first["feddag"],
        started=first["time"],
        ended=last["time"],
        head=entries[-1][1],
        lines=len(entries),
        resumed=events.count("resumed"),
        repaired=events.count("repaired"),
        unfinished=whole < len(content),
        flows=list(flows.values()),
        disclosures=disclosures,
        refusals=dict(refusals),
    )


def _entries(path: Path, content: bytes) -> Iterator[tuple[dict[str, Any], str]]:
    """Each line's content and hash, once it has been checked."""
    previous = _NOTHING
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        body, seal = line[: -len(_NOTHING) - 11], line[-len(_NOTHING) - 11 :]
        match = _SEAL.fullmatch(seal)
        if match is None:
            raise BrokenLogError(path, number, "this is no line of an audit log")
        sealed = match[1].decode()
        if hashlib.sha256(body + b"}").hexdigest() != sealed:
            raise BrokenLogError(path, number, "the line does not have the hash it ends with")
        entry = _parsed(body + b"}")
        texts = ["previous", "time", "event"] + ["study", "site", "feddag"] * (number == 1)
        if not all(isinstance(entry.get(key), str) for key in texts):
            raise BrokenLogError(path, number, "this is no line of an audit log")
        if entry["previous"] != previous:
            raise BrokenLogError(path, number, "the line does not follow the one above")
        yield entry, sealed
        previous = sealed


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
