"""Lies of the clock: a search with a time budget asks the server whether there is time left, and believes it.

So a server can end the search earlier or later. It cannot have anything else asked thereby: whatever it decides, the
questions are those of the same search with so many restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hostile_server import FOUR, VICTIM, HostileServer, Result, Sites, always, registries

from feddag import FeddagError
from feddag.federation import site_endpoint
from feddag.federation.refusals import RefusedError
from feddag.federation.wire import encode_task

PARAMETERS = 'seed = 1, noise = "equal"'
TIMED = f'name = "search"\nparameters = {{ restarts = 3, time_budget = 100.0, {PARAMETERS} }}'


FEW_COLUMNS = {site: table[["age", "bmi", "pressure"]] for site, table in registries().items()}
ON, OFF = {"search 2": True}, {"search 2": False}


def untimed(restarts: int) -> str:
    return f'name = "search"\nparameters = {{ restarts = {restarts}, {PARAMETERS} }}'


def questions(folder: Path, method: str, decisions: Mapping[str, bool]) -> list[bytes]:
    """Run a study to its end with decisions by question, and return all that was asked and answered."""
    server = HostileServer(Sites(folder, method, FEW_COLUMNS))
    assert server.join()
    asked: list[bytes] = []
    while True:
        try:
            due = server.due(decisions)
        except RefusedError:  # it asks nothing more
            break
        server.go_on(decisions=decisions)
        asked.append(encode_task(due))
    server.close()
    return asked


def _asked_for_the_time(folder: Path) -> HostileServer:
    """Be honest until the learner wants to know whether there is time left."""
    server = HostileServer(Sites(folder, TIMED))
    assert server.join()
    while True:
        try:
            server.due()
        except RefusedError:
            return server
        server.go_on()


def lies_that_differ(folder: Path) -> Result:
    """Tell sites of different decisions, of none, or of others once a sum is there."""
    server, later = _asked_for_the_time(folder / "one"), _asked_for_the_time(folder / "other")
    more, end = server.due(ON), later.due(OFF)
    recovered = sum(
        found is not None
        for found in (
            server.ask(more),  # no decision at all
            server.ask(end, decisions=ON),  # a question that does not follow from it
        )
    )
    server.ask(more, decisions=ON)
    recovered += server.ask(end, decisions=OFF) is not None  # the clock runs backwards
    mixed = later.open(end)
    mixed.work(FOUR[:3], decisions=OFF)
    mixed._task = more
    mixed.work([VICTIM], decisions=ON)
    with suppress(FeddagError):
        mixed.mask(FOUR)
        mixed.confirm(FOUR)
        recovered += mixed.reveal(FOUR) is not None
    server.refusals += later.refusals
    later.close()
    return server.result(recovered, 4)


def test_a_decision_holds_for_all_sites_and_once_and_for_all(tmp_path):
    result = lies_that_differ(tmp_path)
    assert result.recovered == 0
    assert set(result.refusals) == {"question", "course"}


@pytest.mark.parametrize("more_searches", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_server_that_lies_about_the_time_ends_the_search_earlier_or_later_and_no_more(tmp_path, more_searches):
    decisions = {f"search {number}": number < 2 + more_searches for number in range(2, 6)}
    assert questions(tmp_path / "timed", TIMED, decisions) == questions(
        tmp_path / "untimed", untimed(more_searches), decisions
    )


def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(site_endpoint, "same_question", always(True))
    assert lies_that_differ(tmp_path).recovered
