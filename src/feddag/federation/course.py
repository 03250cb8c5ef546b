"""The course of a study as a site follows it: the site runs the study's learner itself, and knows what it asks next.

Whoever chooses the functions that are summed can make one of them a window on one row. So the server chooses nothing:
a site answers the question that the study's learner asks after the sums so far, and no other. What a server can choose
is when to stop, and what the clock says to a learner with a time budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from feddag.federation.journal import Entry, Journal
from feddag.federation.protocol import Federation, Task
from feddag.federation.questions import AskingLearner, Decide, End, Mean
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.steps import Step, first_head, next_head, question_digest
from feddag.federation.terms import StudyTerms
from feddag.federation.wire import decode_task, encode_task

Learn = Callable[[Federation], None]
"""Runs a study's learner, and its checks, on a federation."""

_CLOSENESS = 1e-6
"""By how much a number of a question may differ, relatively: processors round differently, and a learner's numbers
pass through many operations. Far too little for a question of another meaning."""
_SMALL = 1e-12
"""What counts as rounding of 0, relative to the largest number of the array."""


def same_question(expected: Task, message: bytes) -> bool:
    """Return whether a message asks for a task, but for the rounding of numbers."""
    written = encode_task(expected)
    if written == message:
        return True
    expected, found = decode_task(written), decode_task(message)
    return (
        (expected.name, expected.round, expected.participants) == (found.name, found.round, found.participants)
        and _all_close(expected.numbers, found.numbers)
        and _all_close(expected.arrays, found.arrays)
    )


def _all_close(expected: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    return expected.keys() == found.keys() and all(
        _close(np.asarray(value), np.asarray(found[name])) for name, value in expected.items()
    )


def _close(expected: np.ndarray, found: np.ndarray) -> bool:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if expected.dtype.kind != "f":
        return bool((expected == found).all())
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    # scales and variances are never the rounding of 0: in columns of far smaller units they may be very small
    rounding = 0.0 if (expected > 0).all() else _SMALL * float(np.abs(expected).max(initial=0.0))
    return bool((np.abs(expected - found) <= _CLOSENESS * np.abs(expected) + rounding).all())


class Course:
    """All steps of a study that a site knows, kept in a folder, and the learner that has seen them."""

    def __init__(self, folder: Path, terms: StudyTerms, learn: Learn) -> None:
        self._journal = Journal(folder)
        self._terms = terms
        self._learner = _FollowedLearner(terms, learn)
        self.head = first_head(terms.study)
        """The head of the chain of all steps."""
        self.rounds = 0
        """How many steps there are."""
        self.rosters: set[tuple[str, ...]] = set()
        """The members of all sums so far."""
        while (entry := self._journal.read(self.rounds)) is not None:
            self._take(entry.step)

    def add(self, step: Step) -> None:
        """Take the next step, once it has been checked, and keep it."""
        mean = step.mean(self._terms.maximum_rows)  # before it is kept: a worthless sum ends the study
        self._journal.write(self.rounds, Entry(step))
        self._take(step, mean)

    def path(self, round_: int) -> Path:
        """Return the file that keeps a step."""
        return self._journal.path(round_)

    def _take(self, step: Step, mean: dict[str, np.ndarray] | None = None) -> None:
        self._learner.queue(step.decisions, mean or step.mean(self._terms.maximum_rows), len(step.members))
        self.head = next_head(self.head, step)
        self.rounds += 1
        self.rosters.add(step.members)

    def question(self, task: str, decisions: Mapping[str, bool]) -> bytes:
        """Return the digest of a question that follows all steps so far; `task` is the digest of what it asks."""
        return question_digest(self.head, task, decisions)

    def expected(self, decisions: Mapping[str, bool]) -> Task:
        """Return what the study's learner asks now, given what the server has decided since the last step."""
        return self._learner.expected(decisions)

    def close(self) -> None:
        """End the learner."""
        self._learner.close()


class _FollowedLearner:
    """A learner that takes the steps of a study, once somebody wants to know what it asks next."""

    def __init__(self, terms: StudyTerms, learn: Learn) -> None:
        self._learner = AskingLearner(terms.sites, learn, terms.minimum_sites)
        self._steps: list[tuple[Mapping[str, bool], Mean]] = []
        """The steps that the learner has not seen yet."""

    def queue(self, decisions: Mapping[str, bool], mean: dict[str, np.ndarray], summed: int) -> None:
        """Have the learner take a step, when its next question is wanted."""
        self._steps.append((decisions, Mean(mean, summed)))

    def expected(self, decisions: Mapping[str, bool]) -> Task:
        """Let the learner take all steps, and return what it asks then."""
        while self._steps:
            taken, mean = self._steps[0]
            self._next_task(taken)
            self._learner.answer(mean)
            del self._steps[0]
        return self._next_task(decisions)

    def _next_task(self, decisions: Mapping[str, bool]) -> Task:
        while True:
            match self._learner.question():
                case Task() as task:
                    return task
                case Decide(question) if question in decisions:  # the server's clock counts
                    self._learner.answer(decisions[question])
                case Decide(question):
                    raise RefusedError(Refusal.QUESTION, f"The server has not decided on {question!r}.")
                case End(_, error):
                    why = "it has ended" if error is None else f"it cannot go on ({error})"
                    raise RefusedError(Refusal.QUESTION, f"The study's method asks nothing more: {why}.")

    def close(self) -> None:
        """Let the learner end at its question."""
        self._learner.close()
