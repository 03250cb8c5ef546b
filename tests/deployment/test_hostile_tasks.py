"""What a site refuses to be asked: every number out of its range, whatever the study's method."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from feddag import FeddagError, simulate
from feddag.deployment.server import learn
from feddag.deployment.site import StudyTable
from feddag.deployment.study_tasks import known_tasks, study_tasks
from feddag.federation import InProcess, Task
from feddag.federation.tasks import find_task
from feddag.learners.factory import make_learner
from feddag.learners.federated import FederatedLearner
from feddag.learners.registry import METHODS
from feddag.study import Study

SIMULATION = simulate(4, mechanism="linear", sites=4, rows=75, seed=1)
NAMES = [silo.name for silo in SIMULATION.silos]
FEDDAG = (
    'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 1, it_fl = 500, participation = 3 }'
)
GRAPH_SHARED = 'name = "feddag"\nparameters = { it_max = 1, it_inner = 2, it_fl = 1, hidden_layers = 1 }'
SEARCH = 'name = "search"\nparameters = { restarts = 0, sharing = "graph" }'
COMMON_SEARCH = 'name = "search"\nparameters = { restarts = 0, sharing = "auto" }'
EQUAL_SEARCH = 'name = "search"\nparameters = { restarts = 0, noise = "equal" }'
ADMM = 'name = "notears-admm"\nparameters = { it_max = 3 }'
NOTEARS = 'name = "notears"'
VOTING = 'name = "notears"\nregime = "voting"'


def study_of(method, scale="none"):
    variables = "\n".join(f'{name} = "continuous"' for name in SIMULATION.silos[0].columns)
    sites = "\n".join(f"[sites.{name}]" for name in NAMES)
    return Study.parse(
        f'name = "test"\n[variables]\n{variables}\n[method]\n{method}\n[data]\nscale = "{scale}"\n{sites}\n'
    )


def check(site, task, tasks, sites):
    find_task(site, task, tasks).check_task(site, task, sites)


class Recorded:
    """A federation that keeps every task that a study asks for; its sites are out of sight, as on a network."""

    local_sites = ()

    def __init__(self, study):
        tables = [StudyTable(study, study.silo(silo.name, silo.to_frame())) for silo in SIMULATION.silos]
        self._inner = InProcess(tables, 1)
        self.sites, self.ledger = self._inner.sites, self._inner.ledger
        self.tasks: list[Task] = []

    @property
    def summed(self):
        return self._inner.summed

    def aggregate(self, task):
        self.tasks.append(task)
        return self._inner.aggregate(task)

    def decide(self, question, answer):
        return self._inner.decide(question, answer)

    def snapshot(self):
        return self._inner.snapshot()

    def restore(self, document, arrays):
        self._inner.restore(document, arrays)

    def close(self):
        self._inner.close()


_asked: dict[tuple[str, str], dict[str, Task]] = {}


def asked(method, scale="none"):
    """The last task of each name that a study asks for in earnest."""
    if (method, scale) not in _asked:
        study = study_of(method, scale)
        with closing(Recorded(study)) as federation:
            learn(study, federation, lambda status: None)
        tasks = study_tasks(study)
        for task in federation.tasks:
            check("site-01", task, tasks, len(NAMES))
        _asked[method, scale] = {task.name: task for task in federation.tasks}
    return _asked[method, scale]


@pytest.mark.parametrize(
    "method",
    [FEDDAG, GRAPH_SHARED, SEARCH, COMMON_SEARCH, EQUAL_SEARCH, ADMM, NOTEARS, VOTING],
    ids=lambda text: text[8:40],
)
@pytest.mark.parametrize("scale", ["none", "federated"])
def test_all_that_a_study_asks_for_in_earnest_is_accepted(method, scale):
    assert asked(method, scale)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_that_runs_on_a_network_declares_its_tasks(method):
    regimes = [regime for regime in ("federated", "voting") if regime in METHODS[method].regimes]
    declared = {"ranges": (-8.0, 8.0)} if method == "private-search" else {}  # its bounds follow from them
    learners = [make_learner(method, regime, **declared) for regime in regimes]
    for learner in learners:
        if isinstance(learner, FederatedLearner):  # others draw graphs without any data
            tasks = learner.tasks(SIMULATION.silos[0].columns, len(NAMES))
            assert tasks
            assert tasks.keys() <= {spec.name for spec in learner.task_specs} <= known_tasks().keys()


def number(name, value):
    return lambda task: replace(task, numbers={**task.numbers, name: value})


def array(name, change):
    def changed(task):
        copy = task.arrays[name].copy()
        found = change(copy)
        return replace(task, arrays={**task.arrays, name: copy if found is None else found})

    return changed


def put(name, value, *place):
    """The value in one place of an array, the last one unless a place is named."""

    def change(copy):
        copy[place or (-1,) * copy.ndim] = value

    return array(name, change)


HOSTILE = {
    "no steps": (FEDDAG, "feddag.solve", number("steps", 0.0), "steps must be whole between 1 and 500. Got 0"),
    "steps without end": (FEDDAG, "feddag.solve", number("steps", 1e9), "steps must be whole between 1 and 500"),
    "half a step": (FEDDAG, "feddag.solve", number("steps", 1.5), "steps must be whole between 1 and 500. Got 1.5"),
    "a negative penalty": (FEDDAG, "feddag.solve", number("rho", -1.0), r"rho must be between .* Got -1 "),
    "a penalty beyond the study's": (FEDDAG, "feddag.solve", number("rho", 1e15), "and 1e.14. Got 1e.15"),
    "a negative multiplier": (FEDDAG, "feddag.solve", number("alpha", -1e-3), "alpha must be between 0 and"),
    "a multiplier without end": (FEDDAG, "feddag.solve", number("alpha", 1e300), "alpha must be between"),
    "a negative acyclicity": (FEDDAG, "feddag.solve", number("h", -1.0), "h must be between 0 and"),
    "a further number": (
        FEDDAG,
        "feddag.solve",
        number("learning_rate", 1.0),
        "its numbers must be alpha, h, rho, steps",
    ),
    "weights beyond reason": (FEDDAG, "feddag.solve", put("graph", 1e12), "all of graph must be between .* Got 1e.12"),
    "a graph of other variables": (
        FEDDAG,
        "feddag.solve",
        array("graph", lambda graph: np.zeros((5, 5), graph.dtype)),
        r"the shape of graph must be \[4, 4\]. Got \(5, 5\)",
    ),
    "numbers of another type": (
        FEDDAG,
        "feddag.solve",
        array("graph", lambda graph: graph.astype(np.float64)),
        "the type of graph must be float32. Got float64",
    ),
    "logits beyond reason": (GRAPH_SHARED, "feddag.solve", put("graph", -1e12), "all of graph must be between"),
    "a further array": (
        GRAPH_SHARED,
        "feddag.solve",
        lambda task: replace(task, arrays={**task.arrays, "more": np.zeros(1)}),
        "its arrays must be graph. Got graph, more",
    ),
    "fewer participants than agreed": (
        FEDDAG,
        "feddag.solve",
        lambda task: replace(task, participants=(0,)),
        "the number of participants must be 3. Got 1",
    ),
    "participants that are no sites": (
        FEDDAG,
        "feddag.solve",
        lambda task: replace(task, participants=(0, 1, 9)),
        "participants must be among 0 to 3",
    ),
    "a single site of a search": (
        SEARCH,
        "search.scores",
        lambda task: replace(task, participants=(0,)),
        "the number of participants must be 4. Got 1",
    ),
    "a child that is no variable": (
        SEARCH,
        "search.scores",
        put("children", 4),
        "all of children must be whole between 0 and 3",
    ),
    "a child below all": (
        SEARCH,
        "search.scores",
        put("children", -1),
        "all of children must be whole between 0 and 3. Got -1",
    ),
    "half a parent": (
        SEARCH,
        "search.scores",
        put("parents", 2),
        "all of parents must be whole between 0 and 1. Got 2",
    ),
    "more families than there are": (
        SEARCH,
        "search.neighbourhoods",
        lambda task: replace(
            task,
            arrays={**task.arrays, "children": np.zeros(33, np.int64), "parents": np.zeros((33, 4), np.uint8)},
        ),
        "the length of its family axis must be at most 32",
    ),
    "a family that is its own parent": (
        SEARCH,
        "search.scores",
        lambda task: replace(
            task, arrays={**task.arrays, "children": np.array([1]), "parents": np.array([[0, 1, 0, 0]], np.uint8)}
        ),
        "families whose child is none of the parents",
    ),
    "a family twice": (
        SEARCH,
        "search.scores",
        lambda task: replace(
            task,
            arrays={**task.arrays, "children": np.array([1, 1]), "parents": np.array([[1, 0, 0, 0]] * 2, np.uint8)},
        ),
        "families of which none is there twice",
    ),
    "a family for each child only": (
        SEARCH,
        "search.scores",
        array("children", lambda children: children[:-1]),
        r"the shape of parents must be",
    ),
    "a reference with a cycle": (
        EQUAL_SEARCH,
        "search.scores",
        array("reference", lambda graph: np.triu(np.ones_like(graph), 1) | np.eye(4, k=-1, dtype=np.uint8)),
        "a reference graph without cycles",
    ),
    "terms that weigh a family much": (
        SEARCH,
        "search.comparisons",
        put("terms", 100),
        "all of terms must be whole between -1 and 1",
    ),
    "the dependence of a variable on itself": (
        SEARCH,
        "search.dependences",
        lambda task: replace(task, arrays={**task.arrays, "others": task.arrays["children"]}),
        "pairs of two variables, none of them given",
    ),
    "a graph to check that has a cycle": (
        SEARCH,
        "search.checks",
        array("dag", lambda graph: np.triu(np.ones_like(graph), 1) | np.eye(4, k=-1, dtype=np.uint8)),
        "a graph without cycles",
    ),
    "columns more than precise": (
        SEARCH,
        "search.imprecision",
        put("precise", 2),
        "all of precise must be whole between 0 and 1",
    ),
    "no scale": (COMMON_SEARCH, "search.covariances", put("scale", 0.0), "all of scale must be between 1e-150"),
    "an origin beyond reason": (COMMON_SEARCH, "search.covariances", put("origin", 1e200), "all of origin must be"),
    "lines beyond reason": (COMMON_SEARCH, "search.pulls", put("slopes", 1e12), "all of slopes must be between"),
    "no force": (ADMM, "admm.fit", number("rho", 0.0), "rho must be between 0.001 and"),
    "no rows to agree on": (ADMM, "admm.fit", number("rows", 0.0), "rows must be whole between 1 and"),
    "equations beyond reason": (ADMM, "admm.fit", put("W", 1e12), "all of W must be between"),
    "a mean beyond reason": (NOTEARS, "moments.products", put("mean", 1e200), "all of mean must be between"),
    "an array for a vote": (
        VOTING,
        "regimes.vote",
        lambda task: replace(task, arrays={"graph": np.zeros((4, 4))}),
        "its arrays must be none. Got graph",
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_value_is_refused(hostile):
    method, name, change, told = HOSTILE[hostile]
    task = change(asked(method)[name])
    with pytest.raises(FeddagError, match=rf"Site 'site-01' refuses {name}: .*{told}"):
        check("site-01", task, study_tasks(study_of(method)), len(NAMES))


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("scale.set", put("deviation", 0.0), "all of deviation must be between"),
        ("scale.set", put("deviation", -1.0), "all of deviation must be between"),
        ("scale.squares", put("mean", 1e200), "all of mean must be between"),
    ],
)
def test_hostile_units_are_refused(name, change, told):
    task = change(asked(NOTEARS, "federated")[name])
    with pytest.raises(FeddagError, match=told):
        check("site-01", task, study_tasks(study_of(NOTEARS, "federated")), len(NAMES))


@pytest.mark.parametrize(
    ("method", "name"), [(NOTEARS, "feddag.solve"), (VOTING, "moments.sums"), (SEARCH, "search.pulls")]
)
def test_a_task_of_another_method_is_no_task_of_the_study(method, name):
    with pytest.raises(FeddagError, match=rf"knows the tasks .*, not '{name}'"):
        check("site-01", Task(name, 0, {}, {}, (0, 1, 2, 3)), study_tasks(study_of(method)), len(NAMES))
