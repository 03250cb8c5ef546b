"""A refusal as an oracle: if a site says that its own numbers are too large to be summed, that is a bit about one site.

By bisection on the magnitude of what it asks, a server had a site's row count, means and deviations to nine decimals.
So what a site says must not depend on its rows: the same requests get the same replies, whatever the table.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hostile_server import FOUR, SEARCH, VICTIM, HostileServer, Result, Sites, registries

from feddag import FeddagError
from feddag.federation.secure import fixed_point

MAGNITUDES = np.geomspace(1e-9, 1e3, 346)
ROWS = (150, 150, 150, 60)


def another_victim() -> dict[str, pd.DataFrame]:
    """Draw the same tables with another victim: of more rows, and of far larger values."""
    tables = registries(ROWS)
    return tables | {VICTIM: 1e4 * registries([90], [VICTIM], seed=9)[VICTIM]}


def shape_of(reply: Mapping[str, Any]) -> Any:
    """Return what is not secret of a reply: its words, and how long each part is."""
    match reply:
        case dict():
            return {name: shape_of(each) for name, each in reply.items()}
        case list():
            return [shape_of(each) for each in reply]
        case bytes():
            return len(reply)
        case _:
            return reply


def replies_to_magnitudes(
    folder: Path, tables: Mapping[str, pd.DataFrame], magnitudes: Sequence[float]
) -> tuple[HostileServer, list[Any]]:
    """Ask for scales of all magnitudes, whatever is replied."""
    server = HostileServer(Sites(folder, SEARCH, tables))
    assert server.join()
    due = server.go_on_until(lambda task: "scale" in task.arrays)
    start = len(server.replies)
    for magnitude in magnitudes:
        arrays = {**due.arrays, "origin": np.zeros(4), "scale": np.full(4, magnitude)}
        server.ask(replace(due, arrays=arrays))
    return server, [(each.site, each.request, each.content) for each in server.replies[start:]]


def differing_replies(folder: Path, magnitudes: Sequence[float] = MAGNITUDES) -> Result:
    """Compare two worlds in which one site has another table; count the replies that tell them apart."""
    one, here = replies_to_magnitudes(folder / "one", registries(ROWS), magnitudes)
    other, there = replies_to_magnitudes(folder / "other", another_victim(), magnitudes)
    differing = sum(each != that for each, that in itertools.zip_longest(here, there))
    one.refusals += other.refusals
    other.close()
    return one.result(differing, len(magnitudes))


def overflowing_replies(folder: Path) -> Result:
    """Compare two worlds in one of which a site's numbers do not fit, in a question that the method itself asks."""
    found, refusals = [], Counter[str]()
    for name, factor in (("fitting", 1.0), ("too large", 1e30)):
        tables = registries(ROWS)
        server = HostileServer(Sites(folder / name, SEARCH, tables | {VICTIM: factor * tables[VICTIM]}))
        assert server.join()
        server.ask()
        server.believe(server.released[-1].sum)
        server.ask()
        found.append([(each.site, each.request, _without_keys(shape_of(each.content))) for each in server.replies])
        refusals += server.refusals
        server.close()
    return Result(1, sum(each != that for each, that in itertools.zip_longest(*found)), refusals)


def _without_keys(reply: Any) -> Any:
    """Leave out the digest of the site's audit log, which holds the time of day."""
    if isinstance(reply, dict):
        return {name: _without_keys(each) for name, each in reply.items() if name != "audit"}
    return reply


SOME = MAGNITUDES[::6]


@pytest.mark.parametrize(
    "attack", [partial(differing_replies, magnitudes=SOME), overflowing_replies], ids=["magnitudes", "overflow"]
)
def test_what_the_server_hears_is_the_same_whatever_the_table(tmp_path, attack):
    result = attack(tmp_path)
    assert result.recovered == 0
    assert set(result.refusals) <= {"question", "declined"}


def test_after_fifty_refusals_a_site_says_nothing_more(tmp_path):
    server, replies = replies_to_magnitudes(tmp_path, registries(ROWS), SOME)
    first = [reply["refusal"] for site, _, reply in replies if site == FOUR[0]]
    assert first == ["question"] * 50 + ["declined"] * (len(SOME) - 50)
    assert server.join() is False  # not in a new session either
    server.sites.start(VICTIM)
    assert server.call(VICTIM, "join", {"study": server.terms.study}) == {"refusal": "declined"}
    server.close()


def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch):
    encode = fixed_point._encode_within

    def refusing(values, largest):
        words, clamped = encode(values, largest)
        if clamped:
            raise FeddagError(f"{clamped} numbers do not fit")
        return words, clamped

    monkeypatch.setattr(fixed_point, "_encode_within", refusing)
    assert overflowing_replies(tmp_path).recovered
