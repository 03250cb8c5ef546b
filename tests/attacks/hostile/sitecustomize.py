"""Makes the server's own process hostile, as FEDDAG_HOSTILE says; what it gets by that it writes to FEDDAG_LOOT."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from feddag.errors import FeddagError
from feddag.federation import server_endpoint
from feddag.federation.calls import Traffic
from feddag.federation.server_endpoint import ServerEndpoint
from feddag.federation.steps import question_digest

_honest_task, _honest_round = server_endpoint.encode_task, ServerEndpoint._asked


def _with_a_window(task):
    """Ask for sums in so small a frame that they are about single rows."""
    if "scale" in task.arrays:
        task = replace(task, arrays={**task.arrays, "scale": np.full_like(task.arrays["scale"], 1e-3)})
    return _honest_task(task)


def _window_round(self, task, message, digest):
    entry = _honest_round(self, task, message, digest)
    if "scale" in task.arrays:
        _boast("a window on rows")
    return entry


def _round_and_a_difference(self, task, message, digest):
    """Get a sum, and then that of all members but one, whatever an honest server would hold against it."""
    entry = _honest_round(self, task, message, digest)
    members = list(entry.step.members)[:-1]
    self._need_settled = lambda *_: None
    self._may_be_summed = lambda *_: True
    with suppress(FeddagError):
        question = question_digest(self._head, digest, self._decided)
        again = self._secure.open(self._round, 99, members, question)
        self._secure_sum(again, members, self._contents(message), len(members), Traffic())
        _boast("a second sum of other members")
    return entry


def _boast(loot: str) -> None:
    Path(os.environ["FEDDAG_LOOT"]).write_text(loot, encoding="utf-8")


match os.environ["FEDDAG_HOSTILE"]:
    case "window":
        server_endpoint.encode_task = _with_a_window
        ServerEndpoint._asked = _window_round
    case "difference":
        ServerEndpoint._asked = _round_and_a_difference
