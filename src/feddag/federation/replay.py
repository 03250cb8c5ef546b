"""Check from a site's audit log alone that the server asked what the study's method asks, and nothing else.

The log holds every question of the server, and every sum that it showed. The method runs again on these sums, and its
questions are compared with those in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from feddag.errors import FeddagError
from feddag.federation.audit import BrokenLogError, read_entries, read_in_full
from feddag.federation.course import Course, Learn, same_question
from feddag.federation.protocol import Task
from feddag.federation.secure.messages import from_text
from feddag.federation.steps import Step
from feddag.federation.terms import StudyTerms


@dataclass(frozen=True)
class Deviation:
    """A question that the study's method would not have asked."""

    line: int
    """The line of the log."""
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
                    if expected is None or not same_question(expected, read_in_full(path, line, entry)):
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


def _step(path: Path, line: int, entry: dict[str, Any]) -> Step:
    """Return a sum that was shown."""
    return Step.of(from_text(read_in_full(path, line, entry).decode())["step"])
