"""What asks for scores bit by bit, and goes on once they are known.

It is written as a generator, which yields what it wants to know. Many of them then go side by side, so that a round of
the federation carries what all of them want.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from itertools import chain
from typing import TypeAlias, TypeVar

from feddag.learners.search.scores import Family

Wanted = list[list[Family]]
"""Of each question the family whose neighbourhood it must know, and then those that it will probably ask for next."""
Key = TypeVar("Key")
Result = TypeVar("Result")
Asking: TypeAlias = Generator[Wanted, None, Result]


def together(asking: Mapping[Key, Asking[Result]]) -> Asking[dict[Key, Result]]:
    """What each finds: all go on side by side, a round at a time."""
    found: dict[Key, Result] = {}
    while asking:
        wanted = {}
        for key, each in asking.items():
            try:
                wanted[key] = next(each)
            except StopIteration as finished:
                found[key] = finished.value
        if wanted:
            yield list(chain.from_iterable(wanted.values()))
        asking = {key: asking[key] for key in wanted}
    return found


def answered(asking: Asking[Result], ask: Callable[[Wanted], None]) -> Result:
    """What it finds, once all that it wants to know is asked for."""
    while True:
        try:
            wanted = next(asking)
        except StopIteration as finished:
            return finished.value
        ask(wanted)
