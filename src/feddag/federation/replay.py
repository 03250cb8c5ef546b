"""Check from a site's audit log alone that the server asked what the study's method asks, and nothing else.

The log holds every question of the server, and every sum that it showed. The method runs again on these sums, and its
questions are compared with those in the log.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from feddag.errors import FeddagError
from feddag.federation.audit import BrokenLogError, read_entries
from feddag.federation.course import Course, Learn, same_question
from feddag.federation.protocol import Task
from feddag.federation.secure.messages import from_text
from feddag.federation.steps import Step
from feddag.federation.terms import StudyTerms
from feddag.federation.wire import encode_task


@dataclass(frozen=True)
class Deviation:
    """A question that the study's method would not have asked."""

    line: int
    """Of the log."""
    round: int
    asked: str
    expected: str
    """What the method asks there; empty if nothing."""


@dataclass(frozen=True)
class Replay:
    """What came of running the method again on a log."""

    questions: int
    """How many questions the log holds."""
    sums: int
    """How many sums it was shown."""
    deviations: tuple[Deviation, ...]


def replay(path: Path, terms: StudyTerms, learn: Learn) -> Replay:
    """Run a study's method again on the sums of a site's log, and compare what it asks with what the server asked.

    Args:
        path: The log.
        terms: The study's terms.
        learn: Runs the study's learner, and its checks.
    """
    entries = read_entries(path)
    if entries[0]["study"] != terms.study:
        raise FeddagError(
            f"{path} is a log of the study {entries[0]['study'][:12]}…, and the file given is {terms.study[:12]}…. "
            "Name the study file that the site had agreed to."
        )
    questions, deviations = 0, []
    with TemporaryDirectory(prefix="feddag-replay-") as scratch:
        course = Course(Path(scratch), terms, learn)
        try:
            for line, entry in enumerate(entries, start=1):
                if entry["event"] == "step":
                    course.add(_step(path, line, entry))
                    if course.head.hex() != entry["course"]:
                        raise BrokenLogError(path, line, "this sum does not follow those above")
                elif entry["event"] == "message" and "decisions" in entry:
                    questions += 1
                    expected = _expected(course, entry)
                    if expected is None or not _asks(entry, expected):
                        name = "" if expected is None else expected.name
                        deviations.append(Deviation(line, int(entry["round"]), str(entry["task"]), name))
        finally:
            course.close()
        return Replay(questions, course.rounds, tuple(deviations))


def _expected(course: Course, entry: dict[str, Any]) -> Task | None:
    if entry["round"] != course.rounds:  # asked before its sums were shown, or again after them
        return None
    try:
        return course.expected(entry["decisions"])
    except FeddagError:
        return None


def _asks(entry: dict[str, Any], expected: Task) -> bool:
    if "content" in entry:
        return same_question(expected, base64.b64decode(entry["content"]))
    return hashlib.sha256(encode_task(expected)).hexdigest() == entry["payload"]


def _step(path: Path, line: int, entry: dict[str, Any]) -> Step:
    """Return a sum that was shown: it stands in the log, or in a file beside it if it is large."""
    content = base64.b64decode(entry["content"]) if "content" in entry else _beside(path, entry["file"])
    if hashlib.sha256(content).hexdigest() != entry["payload"]:
        raise BrokenLogError(path, line, f"the sum of round {entry['round'] + 1} is not the one that was written")
    return Step.of(from_text(content.decode())["step"])


def _beside(path: Path, file: str) -> bytes:
    place = path.parent / file
    if not place.is_file():
        raise FeddagError(f"{place} is not there: the log needs it for a sum that is too large for a line. Restore it.")
    return place.read_bytes()
