"""Count the numbers that a study has the sites release, by a federation that passes every task on to another."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from feddag.federation.protocol import Arrays, Federation, Task
from feddag.federation.wire import encode_task


class CountingFederation:
    """A federation that counts the entries of all sums: a sum that comes back bit for bit as before counts once.

    Examples:
        >>> import feddag
        >>> learner = feddag.EvidenceSearch(sharing="all")
        >>> silos = learner.check(feddag.simulate(4, mechanism="gp", sites=3, rows=100, seed=1))
        >>> with learner.in_process(silos) as federation:
        ...     counting = CountingFederation(federation)
        ...     _ = learner.fit_federation(counting, silos[0].columns)
        >>> counting.numbers["search.means"], counting.total < 4 * 300 / 2
        (4, True)
    """

    def __init__(self, federation: Federation) -> None:
        self.sites = federation.sites
        self.local_sites = federation.local_sites
        self.summed = federation.summed
        self.ledger = federation.ledger
        self.numbers: Counter[str] = Counter()
        """The numbers that sums gave, by the name of the task."""
        self._federation = federation
        self._seen: set[bytes] = set()

    @property
    def total(self) -> int:
        """The numbers of all tasks together."""
        return self.numbers.total()

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        """Have the sites work on a task, and count what comes back."""
        mean = self._federation.aggregate(task)
        self.summed = self._federation.summed
        key = answer_key(task, mean)
        if key not in self._seen:
            self._seen.add(key)
            self.numbers[task.name] += sum(array.size for array in mean.values())
        return mean

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        """Pass the question on."""
        return self._federation.decide(question, answer)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what the other federation must remember."""
        return self._federation.snapshot()

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Let the other federation take up what `snapshot` gave."""
        self._federation.restore(document, arrays)
        self.ledger = self._federation.ledger


def answer_key(task: Task, answer: Arrays) -> bytes:
    """Identify an answer to a question; the round in which it was asked does not matter."""
    digest = hashlib.sha256(encode_task(replace(task, round=0)))
    for name in sorted(answer):
        digest.update(name.encode() + b"\0" + answer[name].tobytes())
    return digest.digest()
