"""A learner that stands still at each question until somebody else has the answer.

It runs in a thread of its own, so that any learner can be followed, and many can take turns, without a line of code for
it in any of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.protocol import Arrays, Federation, Ledger, Site, Task


@dataclass(frozen=True)
class Decide:
    """The learner asks what no sum decides, such as whether there is time left."""

    question: str
    answer: Callable[[], bool]
    """What the learner itself would answer."""


@dataclass(frozen=True)
class Mean:
    """What a learner gets for a task."""

    arrays: dict[str, np.ndarray]
    summed: int
    """How many sites are in it."""


@dataclass(frozen=True)
class End:
    """The learner has ended with a result, or failed."""

    result: Any = None
    error: BaseException | None = None


Question = Task | Decide | End


class _EndedError(BaseException):
    """Unwinds the learner, past whatever it catches."""

    def __init__(self) -> None:
        super().__init__("nobody answers the learner any more")


class AskingLearner:
    """A learner in a thread of its own. It begins at the first call of `question`."""

    def __init__(self, sites: tuple[str, ...], learn: Callable[[Federation], Any], minimum_sites: int = 1) -> None:
        self._questions: SimpleQueue[Question] = SimpleQueue()
        self._answers: SimpleQueue[Mean | bool | None] = SimpleQueue()
        self._federation = _AskingFederation(sites, self._ask, minimum_sites)
        self._learn = learn
        self._pending: Question | None = None
        self._thread: threading.Thread | None = None

    def question(self) -> Question:
        """Wait for what the learner asks now; without an answer in between, return the same again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="feddag-learner", daemon=True)
            self._thread.start()
        if self._pending is None:
            self._pending = self._questions.get()
        return self._pending

    def answer(self, answer: Mean | bool) -> None:
        """Answer the question, and let the learner go on."""
        self._pending = None
        self._answers.put(answer)

    def close(self) -> None:
        """Let the learner end at its question."""
        self._answers.put(None)

    def _ask(self, question: Task | Decide) -> Any:
        self._questions.put(question)
        answer = self._answers.get()
        if answer is None:
            raise _EndedError
        return answer

    def _run(self) -> None:
        try:
            self._questions.put(End(self._learn(self._federation)))
        except (Exception, _EndedError) as error:
            self._questions.put(End(error=error))


class _AskingFederation:
    """A federation whose sums somebody else makes. Satisfies `feddag.federation.Federation`."""

    def __init__(self, sites: tuple[str, ...], ask: Callable[[Task | Decide], Any], minimum_sites: int) -> None:
        self.sites = sites
        self.minimum_sites = minimum_sites
        self.local_sites: tuple[Site, ...] = ()
        self.summed = 0
        self.ledger = Ledger()
        self._ask = ask

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        mean: Mean = self._ask(task)
        self.summed = mean.summed
        return dict(mean.arrays)

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        return self._ask(Decide(question, answer))

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {}, {}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        raise FeddagError("A learner whose sums somebody else makes is not resumed from a checkpoint.")
