"""Searches that run side by side, so that one round of the federation carries the requests of all of them.

A step of a search is a generator, here called a routine: it yields the families whose scores it needs, goes on once
they are known, and returns its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from itertools import chain
from typing import TypeAlias, TypeVar

from feddag.learners.search.scores import Family

Request = list[list[Family]]
"""For each question the family whose neighbourhood it needs, and then those that it will probably need next."""
Key = TypeVar("Key")
Result = TypeVar("Result")
Routine: TypeAlias = Generator[Request, None, Result]


def run_in_lockstep(routines: Mapping[Key, Routine[Result]]) -> Routine[dict[Key, Result]]:
    """Run all routines side by side, a round at a time, and return the result of each."""
    results: dict[Key, Result] = {}
    while routines:
        requests = {}
        for key, routine in routines.items():
            try:
                requests[key] = next(routine)
            except StopIteration as finished:
                results[key] = finished.value
        if requests:
            yield list(chain.from_iterable(requests.values()))
        routines = {key: routines[key] for key in requests}
    return results


def run(routine: Routine[Result], ask: Callable[[Request], None]) -> Result:
    """Run a routine to its end, and have `ask` fetch what it needs."""
    while True:
        try:
            request = next(routine)
        except StopIteration as finished:
            return finished.value
        ask(request)
