"""No combination of the sums that a table has entered is about too few sites, over all studies and restarts."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from feddag.errors import FeddagError
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.rosters import RosterLedger, fewest_sites

SITES = "abcde"
ROSTERS = st.lists(st.sets(st.sampled_from(SITES), min_size=1), min_size=1, max_size=4)
COMBINATIONS = {n: np.array(list(itertools.product(range(-3, 4), repeat=n))) for n in range(1, 5)}
"""Coefficients of sums: a smallest combination of four rows of zeros and ones has whole ones up to 3."""


def by_trying(rosters: list[set[str]]) -> int:
    """The fewest sites of any combination that does not vanish."""
    matrix = np.array([[site in roster for site in SITES] for roster in rosters], dtype=int)
    about = np.count_nonzero(COMBINATIONS[len(rosters)] @ matrix, axis=1)
    return int(about[about > 0].min())


@settings(max_examples=300)
@given(ROSTERS)
@example([set("abcd"), set("abc")])
@example([set("abc"), set("cde"), set("abde")])  # twice c alone
@example([set("ab"), set("bc"), set("ac")])
@example([set("ab"), set("bc"), set("cd"), set("ad")])
def test_the_fewest_sites_are_those_that_trying_all_combinations_finds(rosters: list[set[str]]):
    assert fewest_sites(rosters) == by_trying(rosters)
    assert fewest_sites(rosters, SITES) == by_trying(rosters)
    for most in range(1, 4):
        assert min(fewest_sites(rosters, most=most), most + 1) == min(by_trying(rosters), most + 1)


@settings(max_examples=50)
@given(ROSTERS, st.randoms())
def test_order_and_repetition_of_sums_tell_nothing_more(rosters: list[set[str]], random):
    more = [*rosters, *rosters]
    random.shuffle(more)
    assert fewest_sites(more) == fewest_sites(rosters)


def test_sums_that_share_no_site_can_be_compared_without_harm():
    assert fewest_sites([set("abc"), set("de"), {"f", "g", "h"}]) == 2


def test_many_sites_are_compared_as_well():
    """A site must not stand still over this, and trying all sets of up to nine of sixty sites would take years."""
    sites = [f"site-{place}" for place in range(60)]
    assert fewest_sites([sites, sites[:51]], most=9) == 9
    assert fewest_sites([sites, sites[:50], sites[3:]], most=9) == 3
    assert fewest_sites([sites, sites[:50]], most=9) == 10


# The ledger of a table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rosters.json"


def enter(path: Path, answer: str, members: str, fewest: int = 3, others=()) -> None:
    """A study that begins, enters one sum, and ends."""
    RosterLedger(path).enter("a", answer, list(members), fewest, others)


def refused(path: Path, answer: str, members: str, fewest: int = 3, others=()) -> str:
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(RefusedError) as caught:
        enter(path, answer, members, fewest, others)
    assert caught.value.reason is Refusal.ROSTER
    assert (path.read_bytes() if path.exists() else None) == before  # a refused sum leaves no trace
    return str(caught.value)


def test_one_answer_enters_one_sum_for_ever(path: Path):
    enter(path, "first", "abcd")
    enter(path, "first", "dcba")  # the same sum again, as after a lost message
    assert "has entered a sum of a, b, c, d, and shall enter one of a, b, c, d, e" in refused(path, "first", "abcde")
    assert refused(path, "first", "abc", fewest=1)  # not even where any sums may be compared


def test_other_answers_enter_no_sum_that_could_be_compared_with_earlier_ones(path: Path):
    enter(path, "first", "abcd")
    enter(path, "second", "abcd")
    told = refused(path, "third", "abc")
    assert "they would tell about 1 site alone, and 3 are the fewest" in told
    assert "a, b, c, d" in told
    assert "about 2 sites alone" in refused(path, "third", "abcdef")
    enter(path, "third", "abcdefg")


def test_sums_of_three_studies_that_tell_about_one_site_only_together_are_refused(path: Path):
    enter(path, "first", "abc", fewest=2)
    enter(path, "second", "cde", fewest=2)
    assert refused(path, "third", "abde", fewest=2)  # the first and the second, without this: twice c


def test_a_sum_of_fewer_sites_than_allowed_is_refused(path: Path):
    assert refused(path, "first", "ab")
    enter(path, "first", "ab", fewest=2)


def test_sums_that_the_table_was_not_in_count_as_well(path: Path):
    assert refused(path, "first", "abcd", others=[("b", "c", "d")])
    enter(path, "first", "abcd", others=[("a", "b", "c", "d")])


def test_studies_at_the_same_time_see_each_other_s_sums(path: Path):
    one, other = RosterLedger(path), RosterLedger(path)
    one.enter("a", "first", "abcd", 3)
    with pytest.raises(RefusedError):
        other.enter("a", "second", "abc", 3)
    with pytest.raises(RefusedError, match="One answer enters one sum"):
        other.enter("a", "first", "abcdefg", 3)
    other.enter("a", "second", "abcdefg", 3)
    assert RosterLedger(path).rosters == [list("abcd"), list("abcdefg")]


def test_a_sum_that_could_not_be_written_down_is_not_entered(path: Path, monkeypatch):
    def full(descriptor):
        raise OSError("No space left on device")

    for answer, members in (("first", "abcd"), ("second", "abcdefg")):
        ledger = RosterLedger(path)
        before = path.read_bytes() if path.exists() else None
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", full)
            for _ in range(2):  # nor the second time, as if it were known
                with pytest.raises(OSError, match="No space"):
                    ledger.enter("a", answer, members, 3)
        assert (path.read_bytes() if path.exists() else None) == before
        assert not list(path.parent.glob("*.tmp"))
        ledger.enter("a", answer, members, 3)
        assert sorted(members) in RosterLedger(path).rosters


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"rosters": []}',
        '{"rosters": 3, "answers": {}}',
        '{"rosters": [["a"]], "answers": {"x": "first"}}',
        '{"rosters": [["a"]], "answers": {"x": 1}}',
        '{"rosters": [["a"]], "answers": {"x": -1}}',
        "\xff",
    ],
)
def test_a_ledger_that_cannot_be_read_is_refused_and_left_as_it_is(path: Path, content: str):
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(FeddagError, match=r"rosters.json does not say which sums .* Restore it from a copy"):
        RosterLedger(path)
    assert path.read_bytes() == content.encode("latin-1")


def test_a_ledger_that_is_damaged_while_a_study_runs_is_refused(path: Path):
    ledger = RosterLedger(path)
    ledger.enter("a", "first", "abcd", 3)
    path.write_text(json.dumps({"rosters": []}))
    with pytest.raises(FeddagError, match="Restore it"):
        ledger.enter("a", "second", "abcd", 3)
