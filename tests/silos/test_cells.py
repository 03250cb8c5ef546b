"""Levels that few rows have are found, and merged so that none is left."""

from __future__ import annotations

import tomllib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddag.silos import Silo
from feddag.silos.cells import (
    count_levels,
    fewest_rows,
    merge_text,
    propose_merge,
    rare_levels,
    toml_key,
    unlike_the_others,
)
from feddag.silos.variable_types import CONTINUOUS, Kind, Variable

LEVELS = ("none", "some", "much", "very much", "other")
counted = st.lists(st.integers(0, 12), min_size=len(LEVELS), max_size=len(LEVELS)).filter(any)


def variable(kind, merge=None):
    return Variable("pain", Kind(kind, LEVELS), merge=merge or {})


def test_rows_are_counted_by_level_and_by_what_is_unlike_the_others():
    values = np.array([[0, 2.5], [0, 0.0], [2, 0.0], [0, 0.0]])
    silo = Silo("here", ("ward", "flag"), values, (Kind("categorical", ("a", "b", "c")), CONTINUOUS))
    assert count_levels(silo) == {"ward": {"a": 3, "b": 0, "c": 1}}
    assert rare_levels(count_levels(silo)["ward"], 3) == {"c": 1}
    assert unlike_the_others(silo) == {"flag": 1}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=40))
def test_the_smallest_combination_is_that_of_the_rows_which_share_it(rows):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    assert fewest_rows(columns) == min(Counter(rows).values())


@given(counted, st.sampled_from(["categorical", "ordinal"]), st.integers(1, 9))
def test_merged_levels_are_not_rare_and_no_row_is_lost(counts, kind, minimum):
    rows = dict(zip(LEVELS, counts, strict=True))
    merge = propose_merge(variable(kind), rows, minimum)
    present = [level for level in LEVELS if rows[level]]
    if merge is None:  # one group would be left of those that any row has
        assert len(present) < 2 or any(0 < each < minimum for each in counts)
        return
    merged = {level for group in merge.values() for level in group}
    groups = [*merge.values(), *((level,) for level in LEVELS if level not in merged)]
    assert sorted(level for group in groups for level in group) == sorted(LEVELS)
    sizes = [sum(rows[level] for level in group) for group in groups]
    assert not any(0 < size < minimum for size in sizes)
    assert sum(size > 0 for size in sizes) >= min(2, len(present))
    assert not set(merge) & (set(LEVELS) - merged)
    for group in merge.values() if kind == "ordinal" else ():
        places = sorted(map(LEVELS.index, group))
        assert places == list(range(places[0], places[-1] + 1))


def test_what_is_not_rare_stays_and_two_levels_cannot_be_merged():
    assert propose_merge(variable("categorical"), dict.fromkeys(LEVELS, 9), 5) == {}
    assert propose_merge(Variable("f", Kind("binary", (0, 1))), {0: 90, 1: 2}, 5) is None


def test_levels_that_are_merged_already_stay_merged():
    kind = Kind("categorical", ("a", "rest", "b", "c"))
    merged = Variable("ward", kind, merge={"rest": ("x", "y")})
    rows = {"a": 50, "rest": 3, "b": 40, "c": 4}
    assert propose_merge(merged, rows, 5) == {"other": ("x", "y", "c")}
    assert propose_merge(merged, rows | {"rest": 30, "c": 1, "b": 6}, 5) == {"rest": ("x", "y"), "other": ("b", "c")}


@pytest.mark.parametrize("name", ["other", "much to very much", 'a "b"'])
def test_a_merge_is_written_as_a_study_reads_it(name):
    assert tomllib.loads(merge_text({name: ("é", 1)})) == {"merge": {name: ["é", 1]}}
    assert tomllib.loads(f"{toml_key(name)} = 1") == {name: 1}
