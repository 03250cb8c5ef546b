from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import feddag
from feddag.errors import FeddagError
from feddag.federation.protocol import Task
from feddag.learners.search import tasks
from feddag.learners.search.interventions import SiteWithExperiments
from feddag.learners.search.sites import DifferingMechanisms, OwnMechanisms

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


@pytest.mark.parametrize("sharing", ["auto", "graph", "all"])
def test_experiments_tell_directions_that_observations_leave_open(sharing):
    learner = feddag.EvidenceSearch(sharing, restarts=0, workers=1)
    assert learner.fit(_tables(), interventions=TARGETS).graph_.edges == [("x0", "x1"), ("x1", "x2")]
    observed = feddag.EvidenceSearch(restarts=0, workers=1).fit({"a": _tables(800)["a"]})
    assert not observed.graph_.edges
    assert len(observed.graph_.undirected_edges) == 2


def test_what_tells_a_direction_is_said_in_words():
    learned = feddag.EvidenceSearch(restarts=0, workers=1).fit(_tables(), interventions=TARGETS)
    assert all("interventions" in words for words in learned.edge_evidence_.told_by)
    observed = feddag.EvidenceSearch(restarts=0, workers=1).fit({"a": _tables(800)["a"]})
    assert observed.edge_evidence_.told_by.isna().all()
    known = feddag.EvidenceSearch(restarts=0, workers=1, required=[("x0", "x1")]).fit({"a": _tables(800)["a"]})
    assert known.edge_evidence_.told_by[0] == "knowledge"


@pytest.mark.parametrize("seed", [4, 7])
def test_an_effect_that_follows_where_its_cause_is_set_is_due_to_no_hidden_cause(seed):
    lines = {"mechanism": "linear", "edges_per_node": 1, "sites": 5, "rows": 200}
    simulation = feddag.simulate(5, **lines, interventions=1, seed=seed)
    assert set(feddag.EvidenceSearch(restarts=0, workers=1).fit(simulation).graph_.edges) == set(simulation.truth.edges)


def test_what_no_experiment_moves_may_still_be_due_to_a_hidden_cause():
    rng, tables, targets = np.random.default_rng(1), {}, {"s2": ["a"], "s3": ["a"], "s4": ["b"], "s5": ["b"]}
    for site in (f"s{k}" for k in range(6)):
        hidden = rng.normal(size=400)
        values = {name: hidden + 0.7 * rng.normal(size=400) for name in "ab"}
        values |= {name: 2 * rng.normal(size=400) for name in targets.get(site, ())}
        tables[site] = pd.DataFrame(values)
    evidence = feddag.EvidenceSearch(restarts=0, workers=1).fit(tables, interventions=targets).edge_evidence_
    (edge,) = evidence.to_dict("records")
    assert not edge["directed"]
    assert edge["confounding"] != "ruled out"


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


_FRAME = {"origin": np.zeros(3), "scale": np.ones(3)}
_LINES = {
    "intercepts": np.full(3, 0.1),
    "log_variances": np.zeros(3),
    "slopes": np.array([[0, 0.3, 0], [0, 0, -0.2], [0, 0, 0]]),
}
_COMPARED = (
    (tasks.COMMON_SCORES, {}),
    (tasks.COVARIANCES, {}),
    (tasks.PULLS, _LINES),
    (tasks.AGREEMENT, _LINES),
    (tasks.DEVIATIONS, _LINES),
    (
        tasks.SITE_DIFFERENCES,
        _LINES | {"accounts": np.full((3, 2), 0.3), "terms": np.array([[1, -1, 0], [0, 1, 1]], np.int8)},
    ),
)


def _comparing(targets, rows=60, changed=()):
    silo, _ = _site(targets, rows)
    silo = replace(silo, changed=changed)
    return silo, SiteWithExperiments(silo, targets, lambda part: DifferingMechanisms(part, common=False))


@pytest.mark.parametrize(("task", "more"), _COMPARED)
def test_without_targets_sites_compare_as_any_do(task, more):
    silo, site = _comparing(np.zeros((60, 3), dtype=bool))
    expected = _ask(DifferingMechanisms(silo, common=False), task.name, **_FRAME, **more)
    found = _ask(site, task.name, **_FRAME, **more)
    assert found.weight == expected.weight
    for name, values in expected.arrays.items():
        np.testing.assert_allclose(found.arrays[name], values, atol=1e-12)


def test_sites_compare_the_rows_in_which_nobody_set_a_variable():
    targets = np.zeros((60, 3), dtype=bool)
    targets[:20, 1] = targets[:57, 2] = True
    silo, site = _comparing(targets)
    whole = DifferingMechanisms(silo, common=False)
    part = DifferingMechanisms(silo.with_rows(np.arange(20, 60)), common=False)
    for task in (tasks.COMMON_SCORES, tasks.AGREEMENT, tasks.PULLS):
        found, of_whole, of_part = (_ask(each, task.name, **_FRAME, **_LINES).arrays for each in (site, whole, part))
        for name in found:
            expected = np.stack([of_whole[name][0], of_part[name][1] * 40 / 60, 0 * of_whole[name][0]])
            np.testing.assert_allclose(found[name], expected[: len(found[name])])


def test_a_mechanism_that_was_changed_pulls_no_common_line_and_costs_nothing():
    _, site = _comparing(np.zeros((60, 3), dtype=bool), changed=("x0",))
    for task in (tasks.AGREEMENT, tasks.PULLS):
        for name, values in _ask(site, task.name, **_FRAME, **_LINES).arrays.items():
            assert not values[0].any(), name
            assert values[1].any(), name
    far = _LINES | {"intercepts": np.full(3, 50.0)}
    assert _ask(site, tasks.DEVIATIONS.name, **_FRAME, **far).arrays["differing"].tolist() == [0, 1, 1]


def _with_a_change(of="cause", rows=200):
    """A pair of straight lines with normal noise, one of which is made in another way at one site of five."""
    rng, tables = np.random.default_rng(4), {}
    for site in "abcde":
        cause = rng.normal(size=rows)
        if (site, of) == ("e", "cause"):
            cause = 1 + 2 * cause
        slope = -0.8 if (site, of) == ("e", "effect") else 0.8
        tables[site] = pd.DataFrame({"cause": cause, "effect": slope * cause + rng.normal(size=rows)})
    return tables


@pytest.mark.parametrize("changed", ["cause", "effect"])
def test_a_mechanism_that_is_declared_to_be_changed_tells_a_direction(changed):
    learner, tables = feddag.EvidenceSearch(restarts=0, workers=1), _with_a_change(of=changed)
    assert not learner.fit(tables).graph_.edges
    learned = learner.fit(tables, interventions={"e": {"changed": [changed]}})
    assert learned.graph_.edges == [("cause", "effect")]
    assert learned.edge_evidence_.told_by.tolist() == ["interventions"]


def test_a_mechanism_declared_to_be_changed_everywhere_is_every_sites_own():
    tables = _with_a_change(rows=60)
    everywhere = {site: {"changed": ["cause", "effect"]} for site in tables}
    learned = feddag.EvidenceSearch(restarts=0, workers=1).fit(tables, interventions=everywhere)
    own = feddag.EvidenceSearch("graph", restarts=0, workers=1).fit(tables)
    assert np.isfinite(learned.score_)
    assert learned.graph_.adjacency.tolist() == own.graph_.adjacency.tolist()


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
        ({"e": ["x1"]}, "'e', which is not a site"),
        ({"a": ["y"]}, "Site 'a': the target 'y' is not a variable"),
        ({"a": "condition"}, "Site 'a' has no column 'condition'"),
        ({"a": 3}, "interventions of site 'a' must be"),
        ({"a": {"change": ["x1"]}}, "interventions of site 'a' has 'change'. The keys are"),
        ({"a": {"changed": "x1"}}, "changed of site 'a' must be a list of variables. Got 'x1'"),
        ({"a": {"targets": ["x1"]}}, "targets of site 'a' must be the name of the column"),
        (
            {"a": {"changed": ["y"]}},
            "Site 'a': 'y', whose mechanism an experiment is to have changed, is not a variable",
        ),
        ({"a": {"changed": ["x1"], "intervened": ["x1"]}}, "Site 'a': 'x1' is in intervened and in changed"),
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
    with pytest.raises(FeddagError, match="NOTEARS takes no experiments"):
        feddag.make_learner("notears").fit(_tables(), interventions={"a": {"changed": ["x1"]}})


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
