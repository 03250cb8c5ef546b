"""A step of a study: what was decided, what was asked, and the sum that came back; and the chain of all steps so far.

A learner is a function of its study, of the sums, and of what it decided by the clock. So the chain of these decides
what is asked next, and two participants whose chains have the same head mean the same question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.protocol import Answer
from feddag.federation.secure.messages import Message, digest, read_total
from feddag.federation.wire import decode_answer, encode_answer

SUM, MEAN = "sum", "mean"
"""What a step can bring: a secure sum, which sites can check, or a mean that they must believe."""


@dataclass(frozen=True)
class Step:
    """One round of a study."""

    task: str
    """The SHA-256 of what was asked, in hexadecimal."""
    decisions: Mapping[str, bool]
    """What the server decided between the round before and this one, by question."""
    result: Message
    """What came of it."""

    @property
    def members(self) -> tuple[str, ...]:
        """Whose answers are in the sum."""
        return tuple(self.result["survivors"])

    def mean(self, maximum_weight: float) -> dict[str, np.ndarray]:
        """Return the weighted mean of the answers; refuse a sum that is worthless."""
        if self.result["kind"] == SUM:
            return read_total(self.result, maximum_weight).mean
        return dict(decode_answer(self.result["mean"]).arrays)

    def message(self) -> Message:
        """Return the step as a plain message."""
        return {"task": self.task, "decisions": dict(self.decisions), "result": self.result}

    @classmethod
    def of(cls, message: Any) -> Self:
        """Read a message; refuse one that is none of a step."""
        try:
            step = cls(str(message["task"]), read_decisions(message["decisions"]), dict(message["result"]))
            if step.result["kind"] in (SUM, MEAN) and isinstance(step.result["survivors"], list):
                return step
        except (KeyError, TypeError, ValueError):
            pass
        raise FeddagError("The server shows a round of the study that is not described as feddag does.")


def read_decisions(decisions: Any) -> dict[str, bool]:
    """Return decisions by question; raise `TypeError` where they are none."""
    if not isinstance(decisions, dict) or not all(isinstance(each, bool) for each in decisions.values()):
        raise TypeError("decisions are true or false, by question")
    return {str(question): answer for question, answer in decisions.items()}


def plain_mean(mean: Mapping[str, np.ndarray], members: Sequence[str]) -> Message:
    """Return the result of a round without a secure sum."""
    return {"kind": MEAN, "survivors": list(members), "mean": encode_answer(Answer(1.0, mean))}


def first_head(study: str) -> bytes:
    """Return the head of the chain before the first step."""
    return digest({"study": study})


def question_digest(head: bytes, task: str, decisions: Mapping[str, bool]) -> bytes:
    """Return the digest of a question: what is asked, and all that came before it."""
    return digest({"course": head, "task": task, "decisions": dict(decisions)})


def next_head(head: bytes, step: Step) -> bytes:
    """Return the head of the chain with one more step."""
    return digest({"question": question_digest(head, step.task, step.decisions), "result": step.result})
