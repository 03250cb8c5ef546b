"""Crafted questions: what else a task brings that a server might choose.

Comparisons that single out a family, weights that make a local solution tell of the data, graphs
that were never learned: each within the bounds of its declaration, and none of them what the study's method asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile_server import NOTEARS, SEARCH, HostileServer, Result, Sites, always, registries

from feddag.deployment.study_tasks import study_tasks
from feddag.federation import site_endpoint
from feddag.federation.protocol import Task

FEDDAG = 'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 3, it_fl = 20, seed = 1 }'
ASSESSED = f"{NOTEARS}\n[trust]\nassess = true\n"


def crafted(
    folder: Path, method: str, reached: Callable[[Task], bool], craft: Callable[[Task], Iterable[Task]]
) -> Result:
    """Be honest until a task is due; then ask for others in its place, which its declaration allows."""
    server = HostileServer(Sites(folder, method, registries((150, 150, 150, 60))))
    assert server.join()
    due = server.go_on_until(reached)
    tried = list(craft(due))
    declared = study_tasks(server.sites.study)[due.name]
    for task in tried:
        declared.check_task("server", task, len(server.sites.names))
    recovered = sum(server.ask(task) is not None for task in tried)
    if not recovered:
        assert server.go_on()  # the method's own question is answered still
    return server.result(recovered, len(tried))


def _with(task: Task, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Task:
    array = task.arrays[name]
    return replace(task, arrays={**task.arrays, name: np.asarray(change(array.copy()), array.dtype)})


def comparisons(folder: Path) -> Result:
    """Choose which graphs sites compare on their rows, and what stands on which side."""
    return crafted(
        folder,
        SEARCH,
        lambda task: task.name == "search.comparisons",
        lambda due: [
            _with(due, "terms", np.negative),
            _with(due, "terms", np.zeros_like),
            _with(due, "terms", lambda array: np.eye(*array.shape)),
            _with(due, "reference", lambda array: np.eye(array.shape[1], k=1)),
            replace(due, arrays={**due.arrays, **_first_family(due)}),
        ],
    )


def _first_family(task: Task) -> dict[str, np.ndarray]:
    return {
        "children": task.arrays["children"][:1],
        "parents": task.arrays["parents"][:1],
        "terms": task.arrays["terms"][:, :1],
    }


def trap_weights(folder: Path) -> Result:
    """Choose the model that sites set out from, and how far and how hard they are pulled."""
    return crafted(
        folder,
        FEDDAG,
        lambda task: task.round == 1,
        lambda due: [
            _with(due, "graph", lambda array: array + 1e4),
            _with(due, "graph", lambda array: np.where(np.arange(array.size).reshape(array.shape) == 1, 1e6, array)),
            _with(due, "graph", np.zeros_like),
            replace(due, numbers={**due.numbers, "steps": 1.0}),
            replace(due, numbers={**due.numbers, "rho": due.numbers["rho"] * 10}),
            replace(due, numbers={**due.numbers, "h": due.numbers["h"] + 1.0}),
        ],
    )


def graphs_never_learned(folder: Path) -> Result:
    """Have graphs of the server's choosing held against rows that sites have laid aside."""
    return crafted(
        folder,
        ASSESSED,
        lambda task: task.name == "trust.held-out",
        lambda due: [
            _with(due, "graphs", np.zeros_like),
            _with(due, "graphs", lambda array: array[:, ::-1, ::-1]),
            _with(due, "terms", lambda array: np.roll(array, 1)),
        ],
    )


ATTACKS = (comparisons, trap_weights, graphs_never_learned)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_question_that_the_method_does_not_ask_is_not_answered(tmp_path, attack):
    result = attack(tmp_path)
    assert result.recovered == 0
    assert result.refusals == {"question": 4 * result.tries}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch, attack):
    monkeypatch.setattr(site_endpoint, "same_question", always(True))
    assert attack(tmp_path).recovered
