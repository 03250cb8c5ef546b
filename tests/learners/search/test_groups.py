"""Two groups of sites with a graph each: found where the data show them, and nobody tells who is in which."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import feddag
from feddag.errors import AssumptionWarning, FeddagError
from feddag.federation.protocol import Task
from feddag.federation.tasks import by_name
from feddag.graphs import is_dag
from feddag.learners.knowledge import Knowledge
from feddag.learners.search import tasks
from feddag.learners.search.groups import (
    GroupFederation,
    Groups,
    GroupTaskSpec,
    confirmed,
    find_groups,
    group_tasks,
    neighbours,
)

CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
TURNED = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]])
SHORTER = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
FREE = Knowledge.of(("x0", "x1", "x2"), (), (), ())


def tables(*graphs: tuple[np.ndarray, int], seed: int = 4, rows: int = 300, mechanism: str = "mim", **more):
    """Draw so many sites of each graph, whose mechanisms are those of their graph."""
    found = {}
    for k, (graph, sites) in enumerate(graphs):
        simulation = feddag.simulate(
            graph=graph, mechanism=mechanism, sites=sites, rows=rows, seed=seed + 100 * k, **more
        )
        found |= {f"site-{len(found) + n:02}": silo.to_frame() for n, silo in enumerate(simulation.silos)}
    return found


_OF_FIT = ("interventions", "progress", "checkpoint", "kinds")


def search(data, **given) -> feddag.EvidenceSearch:
    parameters = {name: each for name, each in given.items() if name not in _OF_FIT}
    fitted = {name: each for name, each in given.items() if name in _OF_FIT}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        return feddag.EvidenceSearch(groups=2, restarts=0, workers=1, **parameters).fit(data, **fitted)


@pytest.fixture(scope="module")
def turned():
    return search(tables((CHAIN, 3), (TURNED, 4)))


def test_both_graphs_are_found_where_an_edge_is_turned(turned):
    assert {(each.sites, *each.graph.edges) for each in turned.group_graphs_} == {
        (3, ("x0", "x1"), ("x1", "x2")),
        (4, ("x0", "x1"), ("x2", "x1")),
    }
    assert {each.tells for each in turned.group_graphs_} == {"x1 -> x2", "x2 -> x1"}
    assert turned.groups_in_words.startswith("The sites fall into two groups with different graphs")
    assert "x1 -> x2" in turned.groups_in_words
    assert not any("groups=2" in str(failed) for failed in turned.failed_checks)


@pytest.mark.parametrize("sharing", ["auto", "graph", "all"])
def test_both_graphs_are_found_where_one_group_lacks_an_edge(sharing):
    learned = search(tables((CHAIN, 4), (SHORTER, 4)), sharing=sharing)
    assert {(each.sites, *each.graph.edges) for each in learned.group_graphs_} == {
        (4, ("x0", "x1"), ("x1", "x2")),
        (4, ("x0", "x1")),
    }
    assert {each.tells for each in learned.group_graphs_} == {"x1 -> x2", "no x1 -> x2"}


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("mechanism", ["gp", "linear"])
def test_sites_with_one_graph_are_one_group_even_if_mechanisms_differ(seed, mechanism):
    learned = search(tables((CHAIN, 3), (CHAIN, 3), seed=seed, mechanism=mechanism))
    assert learned.group_graphs_ == ()
    assert learned.groups_in_words == "The sites do not surely fall into two groups with different graphs."


def test_two_sites_are_no_group():
    learned = search(tables((CHAIN, 5), (TURNED, 2)))
    assert learned.group_graphs_ == ()
    assert not any("groups=2" in str(failed) for failed in learned.failed_checks)


def test_two_groups_need_six_sites_and_one_graph_names_the_remedy():
    with pytest.raises(FeddagError, match="at least 6 sites, 3 in each"):
        search(tables((CHAIN, 5)))
    data = tables((CHAIN, 3), (TURNED, 3), rows=600)
    with pytest.warns(AssumptionWarning, match="learn with groups=2"):
        feddag.EvidenceSearch(restarts=0, workers=1).fit(data)


def test_knowledge_holds_in_both_groups():
    learned = search(tables((CHAIN, 3), (TURNED, 4)), required=[("x1", "x2")])
    assert all(("x1", "x2") in each.graph.edges for each in learned.group_graphs_)


def test_groups_are_kept_with_a_run(turned):
    document, arrays = turned.snapshot()
    again = feddag.EvidenceSearch(**turned.get_params()).restore(document, arrays)
    assert len(again.group_graphs_) == 2
    for one, other in zip(again.group_graphs_, turned.group_graphs_, strict=True):
        assert (one.sites, one.tells, one.graph, one.dag) == (other.sites, other.tells, other.graph, other.dag)
        pd.testing.assert_frame_equal(one.edge_evidence, other.edge_evidence)


class _StopError(Exception):
    pass


@pytest.mark.parametrize("stage", ["order of group 1", "directions of group 2"])
def test_a_search_that_is_stopped_in_a_group_goes_on_there(tmp_path, turned, stage):
    data, file = tables((CHAIN, 3), (TURNED, 4)), tmp_path / "fit.npz"

    def stop(status):
        if status.figures["stage"] == stage:
            raise _StopError

    with pytest.raises(_StopError):
        search(data, progress=stop, checkpoint=file)
    seen = []
    again = search(data, progress=seen.append, checkpoint=file)
    assert [each.graph for each in again.group_graphs_] == [each.graph for each in turned.group_graphs_]
    assert len(again.history_.rounds) == len(turned.history_.rounds)
    assert {each.figures["stage"] for each in seen} <= {each.stage for each in turned.history_.rounds}
    assert not any("group" not in str(each.figures["stage"]) for each in seen)  # the rest is known


def test_a_discrete_variable_may_have_other_causes_in_a_group():
    data = tables((CHAIN, 8), rows=800)
    for k, table in enumerate(data.values()):
        noise = np.random.default_rng(k).logistic(size=len(table))
        cause = table["x1"] / table["x1"].std() if k < 4 else 0.0
        table["x3"] = np.where(2 * cause + noise > 0, "yes", "no")
    learned = search(data, kinds={"x3": "binary"})
    found = [{frozenset(edge) for edge in each.dag.edges} for each in learned.group_graphs_]
    assert sorted(frozenset(("x1", "x3")) in each for each in found) == [False, True]


def test_experiments_do_not_stand_in_the_way():
    data = tables((CHAIN, 4), (TURNED, 3), rows=400)
    first = next(iter(data))
    data[first]["x2"] = np.random.default_rng(1).permutation(data[first]["x2"])  # what it does not cause stays as it is
    learned = search(data, interventions={first: ["x2"]})
    assert sorted(each.sites for each in learned.group_graphs_) == [3, 4]
    assert {("x1", "x2"), ("x2", "x1")} <= {edge for each in learned.group_graphs_ for edge in each.graph.edges}


def _asked(group: int, name: str = tasks.ROWS.name) -> Task:
    spec = GroupTaskSpec.of(by_name(tasks.TASKS))
    groups = Groups(CHAIN.astype(np.int8), TURNED.astype(np.int8), (3, 4))
    arrays = {} if name == tasks.ROWS.name else {"dag": CHAIN.astype(np.uint8)}
    return spec.wrap(Task(name, 7, {}, arrays, tuple(range(groups.sizes[group]))), groups, group, 7)


@pytest.mark.parametrize("name", [tasks.ROWS.name, tasks.CHECKS.name])
def test_a_site_outside_the_group_answers_zeros_of_no_weight_in_the_same_form(name):
    learner = feddag.EvidenceSearch(groups=2, workers=1)
    sites = [learner.site(silo, k) for k, silo in enumerate(learner.check(tables((CHAIN, 3), (TURNED, 4))))]
    answers = [[site.answer(_asked(group, name)) for site in sites] for group in (0, 1)]
    weights = [[each.weight > 0 for each in of_group] for of_group in answers]
    assert weights == [[True] * 3 + [False] * 4, [False] * 3 + [True] * 4]
    for pair in zip(*answers, strict=True):
        outside, inside = sorted(pair, key=lambda each: each.weight)
        assert not any(array.any() for array in outside.arrays.values())
        forms = [{key: (array.shape, array.dtype) for key, array in each.arrays.items()} for each in (inside, outside)]
        assert forms[0] == forms[1]
        assert not outside.notes
    if name == tasks.ROWS.name:
        assert answers[0][0].notes == (
            "the sites fall into two groups with different graphs: this site is in the group of 3 sites whose rows "
            "speak for x1 -> x2, and those of the 4 others for x2 -> x1",
        )


def _votes(gains: np.ndarray) -> dict[str, np.ndarray]:
    """What sites answer to graphs that their rows speak for by so much log-evidence, as the site bounds it."""
    told = np.clip(gains, -np.log(19 * 6), np.log(19 * 6))
    means = {"for_other": told, "for_common": -told}
    return {"votes": (gains > 0).mean(axis=0)} | {
        name: (np.logaddexp(0, each) - np.log(2)).mean(axis=0) for name, each in means.items()
    }


def _found(gains: np.ndarray, fewest: int = 3) -> Groups | None:
    return find_groups(CHAIN.astype(np.int8), _votes(gains), len(gains), fewest, FREE)


def test_groups_are_found_only_if_enough_sites_are_sure_on_both_sides():
    count = len(neighbours(CHAIN.astype(np.int8)))
    gains = np.full((8, count), -50.0)
    assert _found(gains) is None
    gains[:3, 1] = 50.0
    groups = _found(gains)
    assert groups is not None
    assert groups.sizes == (5, 3)
    assert _found(gains, fewest=4) is None
    assert _found(-gains).sizes == (3, 5)  # type: ignore[union-attr]
    gains[1:3, 1] = 0.1  # one site alone makes nothing sure
    gains[0, 1] = 1e6
    assert _found(gains) is None
    assert _found(np.random.default_rng(1).normal(0, 1.5, (8, count))) is None


def test_chance_seldom_makes_groups():
    """Evidence for a graph that is wrong is as high as log k with a probability of 1 / k at most."""
    rng = np.random.default_rng(1)
    count = len(neighbours(CHAIN.astype(np.int8)))
    spread = rng.uniform(0.5, 4, (2000, 1, count))  # a normal log-ratio of variance s² has a mean of -s²/2
    gains = rng.normal(-(spread**2) / 2, spread, (2000, 8, count))
    assert np.mean([_found(each) is not None for each in gains]) < 0.02


def test_groups_whose_own_searches_agree_are_none():
    open_ = CHAIN | CHAIN.T
    assert confirmed([CHAIN, TURNED], [CHAIN, TURNED])
    assert confirmed([SHORTER, TURNED], [CHAIN, TURNED])
    assert confirmed([open_, SHORTER], [CHAIN, SHORTER])
    assert not confirmed([open_, open_], [CHAIN, TURNED])
    assert not confirmed([SHORTER, SHORTER], [CHAIN, TURNED])


def test_neighbours_differ_by_one_edge():
    found = neighbours(CHAIN.astype(np.int8))
    assert all(map(is_dag, found))
    assert len({each.tobytes() for each in found}) == len(found) == 5  # two edges left out or turned, one added
    assert all(np.triu((each != CHAIN) | (each != CHAIN).T).sum() == 1 for each in found)


def test_a_question_for_a_group_is_declared_and_checked():
    specs = group_tasks(3, 7, tasks.search_tasks(3, compare=True))
    spec = specs["search.in-group"]
    assert isinstance(spec, GroupTaskSpec)
    task = _asked(1, tasks.CHECKS.name)
    spec.check_task("site", task, 7)
    assert spec.names(task) == ["search.in-group", "search.checks"]
    assert spec.site_split(task).sizes == (3, 4)
    assert spec.site_split(task) == spec.site_split(_asked(0))
    far = CHAIN[::-1, ::-1].astype(np.uint8)
    for wrong in (
        replace(task, numbers={**task.numbers, "size": 2.0}),
        replace(task, numbers={**task.numbers, "size": 5.0}),
        replace(task, numbers={**task.numbers, "group": 0.5}),
        replace(task, arrays={**task.arrays, "other": far}),
        replace(task, arrays={**task.arrays, "other": task.arrays["common"]}),
        replace(task, arrays={**task.arrays, "search_checks/dag": np.eye(3, dtype=np.uint8)}),
        replace(task, arrays={**task.arrays, "search_checks/more": far}),
        replace(task, numbers={name: each for name, each in task.numbers.items() if name != "search_checks"}),
        replace(task, participants=(0, 1, 2)),
    ):
        with pytest.raises(FeddagError):
            spec.check_task("site", wrong, 7)
    assert not any("votes" in name for name in spec.inner)  # no groups within groups


def test_replicates_and_trials_look_for_no_groups():
    """Other rows put other sites into a group, and sums of both would tell about the sites between."""
    copy = feddag.EvidenceSearch(groups=2).with_sites(8)
    assert copy.groups == 1
    assert "search.in-group" not in copy.tasks(("a", "b"), 8)


def test_a_group_is_a_federation_of_its_size(turned):
    with turned.in_process(turned.check(tables((CHAIN, 3), (TURNED, 4)))) as federation:
        groups = Groups(CHAIN.astype(np.int8), TURNED.astype(np.int8), (3, 4))
        rows = [tasks.ROWS.ask(GroupFederation(federation, groups, k))["rows"] for k in (0, 1)]
    assert rows == [300, 300]
