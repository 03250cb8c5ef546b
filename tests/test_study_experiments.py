"""What a study says about experiments: at whole sites, by a column, or on a mechanism."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from feddag.errors import FeddagError
from feddag.study import Study

MINIMAL = """
name = "s"
[variables]
a = "continuous"
b = "continuous"
[method]
name = "search"
"""
SITES = MINIMAL + '[sites.one]\n[sites.two]\nintervened = ["b"]\n[sites.three]\ntargets = "condition"\n'


def table(**more):
    return pd.DataFrame(np.random.default_rng(1).normal(size=(12, 2)), columns=["a", "b"]).assign(**more)


def test_sites_know_their_targets():
    study = Study.parse(SITES)
    cells = ["a;b", "a", " b ", "", None, *[None] * 7]
    tables = {"one": table(), "two": table(), "three": table(condition=cells)}
    one, two, three = study.silos(tables)
    assert not one.targets.any()
    assert two.targets.tolist() == [[False, True]] * 12
    assert three.targets[:5].tolist() == [[True, True], [True, False], [False, True], [False] * 2, [False] * 2]
    assert three.columns == ("a", "b")
    np.testing.assert_array_equal(study.silo("three", tables["three"]).targets, three.targets)


def test_sites_know_which_mechanisms_were_changed():
    study = Study.parse(SITES.replace("[sites.one]", '[sites.one]\nchanged = ["b"]'))
    tables = {"one": table(), "two": table(), "three": table(condition=[None] * 12)}
    one, two, _ = study.silos(tables)
    assert one.changed == ("b",)
    assert two.changed == ()
    assert not one.targets.any()
    assert one.unlike_others.tolist() == [[False, True]] * 12
    assert study.silos(tables).pooled("all")[0].targets[:12].tolist() == [[False, True]] * 12
    assert Study.of(study.document()) == study
    assert study.digest != Study.parse(SITES).digest


def test_rows_that_are_dropped_take_their_targets_along():
    study = Study.parse(SITES + '[data]\nmissing = "drop"\n')
    dropped = table(condition=["a", "b", *[None] * 10])
    dropped.loc[0, "a"] = np.nan
    assert study.silo("three", dropped).targets[0].tolist() == [False, True]


def test_the_digest_tells_experiments_and_the_document_keeps_them():
    study = Study.parse(SITES)
    assert Study.of(study.document()) == study
    assert study.digest != Study.parse(SITES.replace('["b"]', '["a"]')).digest
    assert "intervened" not in study.document()["sites"]["one"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sites.one]\nintervened = ["c"]\n', "sites.one.intervened has 'c', which is not a variable"),
        ('[sites.one]\ntargets = "a"\n', "sites.one.targets is 'a', which is the column of a variable"),
        ('[sites.one]\nintervened = ["a"]\n', "'a' is in sites.NAME.intervened of every site"),
        ('[sites.one]\nchanged = ["c"]\n', "sites.one.changed has 'c', which is not a variable"),
        ('[sites.one]\nchanged = ["a"]\n', "'a' is in sites.NAME.changed of every site"),
        (
            '[sites.one]\nintervened = ["a"]\nchanged = ["a"]\n[sites.two]\n',
            "sites.one: 'a' is in intervened and in changed",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(text, message):
    with pytest.raises(FeddagError, match=re.escape(message)):
        Study.parse(MINIMAL + text)


def test_a_target_that_is_no_variable_is_refused_by_row():
    with pytest.raises(FeddagError, match="Site 'three', column 'condition', row 2: the target 'c' is not a variable"):
        Study.parse(SITES).silo("three", table(condition=["", "c", *[""] * 10]))


def test_a_method_that_takes_no_experiments_is_refused():
    with pytest.raises(FeddagError, match="takes no experiments"):
        Study.parse(SITES.replace('"search"', '"notears"')).learner()
