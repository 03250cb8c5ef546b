"""The one primitive of a federation: sites work on a task, and a weighted sum of their answers comes back.

Learners are written against these types and never learn which engine carries them, nor one site's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from feddag.errors import FeddagError

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Task:
    """Work for every site: what it is called, the numbers and arrays it comes with, and whose answers count."""

    name: str
    round: int
    numbers: Mapping[str, float]
    arrays: Arrays
    participants: tuple[int, ...]
    """Positions of the sites whose answers are summed; the others work too, and send nothing."""
    complete: bool = False
    """Whether the sum means nothing without each of them: then an engine waits for a site that is out of reach."""


@dataclass(frozen=True)
class Answer:
    """What a site has to say: arrays, and the weight with which they enter the sum; all 0 if it is not about it."""

    weight: float
    arrays: Arrays
    notes: tuple[str, ...] = ()
    """What the site's own operator should know. It never leaves the site."""


@runtime_checkable
class Site(Protocol):
    """The site's side: it owns the data and the state, and answers tasks."""

    @property
    def name(self) -> str:
        """The site's name, as the study has it."""
        ...

    def answer(self, task: Task) -> Answer:
        """Work on a task."""
        ...

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the site's state, such that `restore` and the same tasks again give the same answers."""
        ...

    def restore(self, state: Arrays) -> None:
        """Take up what `snapshot` gave."""
        ...


class Stateless:
    """The part of a `Site` that keeps nothing between tasks."""

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return nothing."""
        return {}

    def restore(self, state: Arrays) -> None:
        """Take up nothing."""
        del state


def unknown_task(site: str, task: Task, known: Iterable[str]) -> FeddagError:
    """Return the error of a site that gets a task which is none of its learner's."""
    return FeddagError(f"Site {site!r} knows the tasks {', '.join(known)}, not {task.name!r}. Ask for one of these.")


@dataclass
class Ledger:
    """How many bytes of numbers each site has sent and received."""

    sent: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)

    def record(self, site: str, *, sent: int, received: int) -> None:
        """Add the bytes of one message each way."""
        self.sent[site] = self.sent.get(site, 0) + sent
        self.received[site] = self.received.get(site, 0) + received

    def so_far(self) -> dict[str, int]:
        """Return the bytes of all sites together; empty with one site, which sends to nobody."""
        if len(self.sent) < 2:
            return {}
        return {"bytes_sent": sum(self.sent.values()), "bytes_received": sum(self.received.values())}


@runtime_checkable
class Federation(Protocol):
    """The server's side: all it can do is have a task done and see the weighted mean of the answers."""

    sites: tuple[str, ...]
    local_sites: tuple[Site, ...]
    """The sites themselves, where they are objects of this process; on a network there are none."""
    summed: int
    """How many sites entered the last sum: fewer than asked where some were out of reach."""
    ledger: Ledger

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        """Have the sites work on a task, and return the weighted mean of their answers."""
        ...

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        """Answer a question that sums do not decide, such as whether there is time left, once and for all.

        A learner that is resumed asks it again and gets the first answer, so that it asks the sites for the same.
        """
        ...

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what the engine must remember of the run, as a JSON document and named arrays."""
        ...

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take up what `snapshot` gave."""
        ...


def weighted_mean(answers: Sequence[Answer]) -> dict[str, np.ndarray]:
    """`Σ wₖ xₖ / Σ wₖ`, summed in the given order in double precision so that every engine gives the same."""
    total = sum(answer.weight for answer in answers)
    if total <= 0:
        raise FeddagError(f"The weights of the sites add up to {total:g}. At least one must have rows.")
    means = {}
    for name, first in answers[0].arrays.items():
        weighted = np.zeros(first.shape)
        for answer in answers:
            weighted += answer.weight * answer.arrays[name].astype(np.float64)
        means[name] = (weighted / total).astype(first.dtype)
    return means


def array_bytes(arrays: Arrays) -> int:
    """Count the bytes of arrays."""
    return sum(array.nbytes for array in arrays.values())
