from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import feddag
from feddag.errors import FeddagError
from feddag.federation.protocol import Task
from feddag.learners.search import tasks
from feddag.learners.search.interventions import SiteWithExperiments
from feddag.learners.search.sites import OwnMechanisms

TARGETS = {"b": ["x0"], "c": ["x1"], "d": ["x2"]}


def _tables(rows=200, constant=False):
    """A chain x0 -> x1 -> x2 of normal variables, whose directions observations cannot tell."""
    rng, tables = np.random.default_rng(1), {}
    for site in "abcd":
        values = np.zeros((rows, 3))
        for node in range(3):
            if f"x{node}" in TARGETS.get(site, ()):
                values[:, node] = 2.0 if constant else rng.normal(1, 1.5, rows)
            else:
                values[:, node] = rng.normal(size=rows) + (1.1 * values[:, node - 1] if node else 0)
        tables[site] = pd.DataFrame(values, columns=["x0", "x1", "x2"])
    return tables


@pytest.mark.parametrize("sharing", ["graph", "all"])
def test_experiments_tell_directions_that_observations_leave_open(sharing):
    learner = feddag.EvidenceSearch(sharing, restarts=0, workers=1)
    assert learner.fit(_tables(), interventions=TARGETS).graph_.edges == [("x0", "x1"), ("x1", "x2")]
    observed = feddag.EvidenceSearch(restarts=0, workers=1).fit({"a": _tables(800)["a"]})
    assert not observed.graph_.edges
    assert len(observed.graph_.undirected_edges) == 2


def test_a_column_may_name_the_targets_of_each_row():
    parts = [table.assign(condition=";".join(TARGETS.get(site, ())) or None) for site, table in _tables().items()]
    table = pd.concat(parts, ignore_index=True)
    learned = feddag.EvidenceSearch(restarts=0, workers=1).fit({"lab": table}, interventions={"lab": "condition"})
    assert learned.graph_.edges == [("x0", "x1"), ("x1", "x2")]
    assert learned.feature_names_in_.tolist() == ["x0", "x1", "x2"]


def test_a_variable_may_be_set_to_one_value():
    learned = feddag.EvidenceSearch(restarts=0, workers=1).fit(_tables(constant=True), interventions=TARGETS)
    assert np.isfinite(learned.score_)
    assert learned.dag_.adjacency.sum() == 2


def test_discrete_variables_are_scored_on_their_own_rows():
    tables = {site: table.assign(x2=table.x2 > 0) for site, table in _tables().items()}
    learned = feddag.EvidenceSearch(restarts=0, workers=1).fit(tables, interventions=TARGETS)
    assert {frozenset(edge) for edge in learned.dag_.edges} == {frozenset(("x0", "x1")), frozenset(("x1", "x2"))}


def _site(targets, rows=60):
    values = np.random.default_rng(2).normal(size=(rows, 3))
    silo = feddag.Silo("a", ("x0", "x1", "x2"), values, targets=targets)
    return silo, SiteWithExperiments(silo, targets, lambda part: OwnMechanisms(part, equal_noise=False))


def _ask(site, name, **more):
    families = {"children": np.array([0, 1, 2]), "parents": np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.uint8)}
    arrays = families | {"reference": np.zeros((0, 3), np.uint8)} | more
    return site.answer(Task(name, 1, {}, arrays, (0,)))


def test_a_score_is_that_of_the_rows_in_which_the_child_was_not_set():
    targets = np.zeros((60, 3), dtype=bool)
    targets[:20, 1] = targets[:57, 2] = True
    silo, site = _site(targets)
    found = _ask(site, tasks.SCORES.name)
    whole = OwnMechanisms(silo, equal_noise=False)
    part = OwnMechanisms(silo.with_rows(np.arange(20, 60)), equal_noise=False)
    scores = [_ask(each, tasks.SCORES.name).arrays["scores"] for each in (whole, part)]
    assert found.weight == 60
    np.testing.assert_allclose(found.arrays["scores"], [scores[0][0], scores[1][1] * 40 / 60, 0])


def test_without_targets_answers_are_those_of_any_site():
    silo, site = _site(np.zeros((60, 3), dtype=bool))
    terms = np.array([[1, -1, 0]], np.int8)
    found, expected = (
        _ask(each, tasks.COMPARISONS.name, terms=terms).arrays
        for each in (site, OwnMechanisms(silo, equal_noise=False))
    )
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values)


def test_a_site_that_differs_by_design_is_left_out_of_how_sites_vary():
    targets = np.zeros((60, 3), dtype=bool)
    targets[:, 1] = True
    _, site = _site(targets)
    terms = np.array([[1, 0, -1], [1, -1, 0]], np.int8)
    found = _ask(site, tasks.COMPARISONS.name, terms=terms).arrays
    assert found["alike_rows"].tolist() == [60, 0]
    assert found["site_second"][1] == 0


@pytest.mark.parametrize(
    ("interventions", "message"),
    [
        ({site: ["x1"] for site in "abcd"}, "Column 'x1': experiments set it in all rows"),
        ({"e": ["x1"]}, "'e', which is no site"),
        ({"a": ["y"]}, "Site 'a': the target 'y' is no variable"),
        ({"a": "condition"}, "Site 'a' has no column 'condition'"),
        ({"a": 3}, "interventions of site 'a' must be"),
    ],
)
def test_experiments_that_make_no_sense_are_refused(interventions, message):
    with pytest.raises(FeddagError, match=message):
        feddag.EvidenceSearch().fit(_tables(), interventions=interventions)


def test_methods_that_take_no_experiments_refuse_them():
    with pytest.raises(FeddagError, match=r"NOTEARS takes no experiments.*Choose the method feddag or search"):
        feddag.make_learner("notears").fit(_tables(), interventions=TARGETS)
    with pytest.raises(FeddagError, match="noise='equal'"):
        feddag.EvidenceSearch(noise="equal").fit(_tables(), interventions=TARGETS)


def test_experiments_tell_directions_of_discrete_variables():
    rng, tables = np.random.default_rng(3), {}
    for site in "abcd":
        cause = rng.random(400) < 0.5
        effect = rng.random(400) < (0.5 if site == "d" else np.where(cause, 0.8, 0.2))
        tables[site] = pd.DataFrame({"cause": cause, "effect": effect})
    learner = feddag.EvidenceSearch(restarts=0, workers=1)
    assert not learner.fit(tables).graph_.edges
    learned = learner.fit(tables, interventions={"b": ["cause"], "d": ["effect"]})
    assert learned.graph_.edges == [("cause", "effect")]
