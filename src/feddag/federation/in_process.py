"""All sites in one process: the engine for research, and the reference for every other engine.

Each site runs the very program it would run on a network. Sites are spread over threads, one per core: the programs
release Python's lock while they compute, and one core per site beats many cores on the small matrices of one site.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays, Ledger, Site, Task, array_bytes, weighted_mean


class InProcess:
    """A federation whose sites are objects of this process."""

    def __init__(self, sites: Sequence[Site], workers: int) -> None:
        self.local_sites = tuple(sites)
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="feddag-site")
        self.sites = tuple(site.name for site in sites)
        self.summed = 0
        self.ledger = Ledger()
        self._decisions: dict[str, bool] = {}

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        """Have all sites work on a task side by side, and return the weighted mean of the participants' answers."""
        answers = list(self._pool.map(lambda site: site.answer(task), self.local_sites))
        received = array_bytes(task.arrays)
        for k, site in enumerate(self.sites):
            sent = array_bytes(answers[k].arrays) if k in task.participants else 0
            self.ledger.record(site, sent=sent, received=received)
        self.summed = len(task.participants)
        return weighted_mean([answers[k] for k in task.participants])

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        """Return the first answer to a question; `snapshot` keeps it."""
        if question not in self._decisions:
            self._decisions[question] = answer()
        return self._decisions[question]

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the sites' state, what was sent and what was decided, as a JSON document and named arrays."""
        arrays: dict[str, np.ndarray] = {}
        for k, site in enumerate(self.local_sites):
            arrays |= prefixed(f"{k}", site.snapshot())
        return {"ledger": vars(self.ledger), "decisions": self._decisions}, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take up what `snapshot` gave."""
        self.ledger = Ledger(**document["ledger"])
        self._decisions = dict(document.get("decisions", {}))
        for k, site in enumerate(self.local_sites):
            site.restore(under(f"{k}", arrays))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
