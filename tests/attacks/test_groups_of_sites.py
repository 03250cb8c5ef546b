"""Groups of sites: have another site in a group than before, and subtract the sums.

A server that words a group's question with another graph moves sites from one group to the other. The sums of two
groups that differ by one site tell about this site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile_server import HostileServer, Result, Sites, always

import feddag
from feddag.deployment.study_tasks import study_tasks
from feddag.federation import rosters, site_endpoint
from feddag.federation.protocol import Task

METHOD = 'name = "search"\nparameters = {{ sharing = "graph", restarts = 0, groups = 2, seed = {seed} }}'


def _tables(rows: int = 200):
    tables = {}
    for k, graph in enumerate(([[0, 1], [0, 0]], [[0, 0], [1, 0]])):
        simulation = feddag.simulate(graph=np.array(graph), mechanism="mim", sites=3, rows=rows, seed=4 + k)
        tables |= {f"site-{3 * k + n}": silo.to_frame() for n, silo in enumerate(simulation.silos)}
    return tables


def _with_graphs(task: Task, common: list[list[int]], other: list[list[int]]) -> Task:
    graphs = {"common": np.array(common, np.uint8), "other": np.array(other, np.uint8)}
    return replace(task, arrays={**task.arrays, **graphs})


EMPTY, FORTH, BACK = [[0, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]


def _crafted(due: Task) -> Iterable[Task]:
    """Other pairs of graphs than the study's, so that other sites are in the group, each as its declaration allows."""
    asked = [due.arrays[name].tolist() for name in ("common", "other")]
    for graphs in ([EMPTY, FORTH], [EMPTY, BACK], [FORTH, EMPTY], [FORTH, BACK], [BACK, FORTH]):
        if graphs != asked:
            yield _with_graphs(due, *graphs)


def move_sites(folder: Path) -> Result:
    """Be honest until a group has been summed; then ask for groups by other graphs."""
    server = HostileServer(Sites(folder, METHOD.format(seed=1), _tables()))
    assert server.join()
    server.go_on_until(_of_group)
    server.go_on()
    due = server.due()
    tried = list(_crafted(due))
    spec = study_tasks(server.sites.study)[due.name]
    for task in tried:
        spec.check_task("server", task, len(server.sites.names))
    return server.result(sum(server.ask(task) is not None for task in tried), len(tried))


def _of_group(task: Task) -> bool:
    return task.name == "search.in-group"


def second_study(folder: Path) -> Result:
    """Have a second study on the same tables find groups of its own, honest otherwise."""
    recovered = 0
    for seed in (1, 2):
        sites = Sites(folder, METHOD.format(seed=seed), _tables(), name=f"study-{seed}", kit=f"kit-{seed}")
        server = HostileServer(sites)
        assert server.join()
        server.go_on_until(_of_group)
        recovered += server.ask() is not None
        result = server.result(recovered - 1, seed - 1)
    return result


ATTACKS: tuple[tuple[Callable[[Path], Result], str], ...] = ((move_sites, "question"), (second_study, "roster"))


@pytest.mark.parametrize(("attack", "reason"), ATTACKS, ids=lambda each: getattr(each, "__name__", each))
def test_no_sums_of_groups_that_differ_by_a_site(tmp_path, attack, reason):
    result = attack(tmp_path)
    assert result.tries
    assert result.recovered == 0
    assert set(result.refusals) == {reason}


def test_a_site_that_would_answer_any_question_stays_in_one_group(tmp_path, monkeypatch):
    monkeypatch.setattr(site_endpoint, "same_question", always(True))
    result = move_sites(tmp_path)
    assert result.recovered == 0
    assert set(result.refusals) == {"roster"}


def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(rosters, "_check_splits", always(None))
    assert second_study(tmp_path).recovered
