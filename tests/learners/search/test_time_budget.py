"""A time budget is asked of the clock once: a search that is resumed goes on as it had decided."""

from __future__ import annotations

import numpy as np
import pytest

from feddag import EvidenceSearch, simulate
from feddag.learners.checkpointing import FitContext
from feddag.learners.search.coordinator import SearchCoordinator

SIMULATION = simulate(5, heterogeneous=True, sites=3, rows=120, seed=5)
RESTARTS = 6


@pytest.fixture
def clock(monkeypatch):
    """The seconds of every fit, which only a test lets pass."""
    time = {"now": 0.0}
    monkeypatch.setattr(FitContext, "seconds", property(lambda _: time["now"]))
    return time


@pytest.fixture
def searches(monkeypatch):
    """The number of searches of each fit."""
    counts: list[int] = []
    run = SearchCoordinator.run

    def counted(self, *arguments):
        best, found = run(self, *arguments)
        counts.append(len(found))
        return best, found

    monkeypatch.setattr(SearchCoordinator, "run", counted)
    return counts


class StopError(Exception):
    pass


def stop_after(rounds):
    told = 0

    def stop(status):
        nonlocal told
        told += 1
        if told == rounds:
            raise StopError

    return stop


def test_a_fit_that_is_resumed_after_its_time_makes_the_searches_it_had_decided_on(tmp_path, clock, searches):
    undisturbed = EvidenceSearch(restarts=RESTARTS, seed=1).fit(SIMULATION)
    rounds = len(undisturbed.history_.rounds)
    with pytest.raises(StopError):
        EvidenceSearch(restarts=RESTARTS, time_budget=1.0, seed=1).fit(
            SIMULATION, checkpoint=tmp_path / "checkpoint.npz", progress=stop_after(rounds - 1)
        )
    clock["now"] = 100.0
    resumed = EvidenceSearch(restarts=RESTARTS, time_budget=1.0, seed=1).fit(
        SIMULATION, checkpoint=tmp_path / "checkpoint.npz"
    )
    assert searches[-1] == searches[0] == RESTARTS + 1
    np.testing.assert_array_equal(resumed.edge_frequencies_, undisturbed.edge_frequencies_)
    np.testing.assert_array_equal(resumed.adjacency_, undisturbed.adjacency_)


def test_what_was_not_decided_before_is_decided_by_the_clock(tmp_path, clock, searches):
    with pytest.raises(StopError):
        EvidenceSearch(restarts=RESTARTS, time_budget=1.0, seed=1).fit(
            SIMULATION, checkpoint=tmp_path / "checkpoint.npz", progress=stop_after(1)
        )
    clock["now"] = 100.0
    EvidenceSearch(restarts=RESTARTS, time_budget=1.0, seed=1).fit(SIMULATION, checkpoint=tmp_path / "checkpoint.npz")
    assert searches == [1]
