"""Two groups of sites with a graph each: who is in which, and how the sums of one group alone are made.

The server never learns which sites are in which group. It names two graphs: the common one, and one that differs from
it by one edge. A site is in the second group if its own rows speak for the second graph. So groups are settled by the
rows and these two graphs, and every sum is about one group, the other, or all sites. To a question for the group that
it is not in, a site answers zeros of no weight, after the same work, so that neither sum nor clock tells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int8

from feddag.errors import FeddagError
from feddag.federation import Federation
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Answer, Arrays, Site, Stateless, Task
from feddag.federation.rosters import Split
from feddag.federation.side_by_side import code_of
from feddag.federation.tasks import Bounds, Output, TaskSpec, by_name
from feddag.graphs import CausalGraph, is_dag
from feddag.learners.base import graph_arrays, graph_from_arrays
from feddag.learners.bitsets import parents_of
from feddag.learners.knowledge import Knowledge
from feddag.learners.search import tasks
from feddag.learners.search.directions import EdgeEvidence
from feddag.learners.search.graph_fit import ODDS, Judge
from feddag.learners.search.scores import Family, families_of

FEWEST = 3
"""The fewest sites of a group."""
_GRAPHS = ("common", "other")
_IN_GROUP, _OF_A_GROUP = "search.in-group", "What a task of the search tells, of one of two groups of sites"


class Groups(NamedTuple):
    """Sites that fall into two groups."""

    common: Int8[np.ndarray, "node node"]
    """The graph of all sites together, for which the rows of the first group speak."""
    other: Int8[np.ndarray, "node node"]
    """The graph that differs from it by one edge, for which those of the second group do."""
    sizes: tuple[int, int]


@dataclass(frozen=True)
class GroupGraph:
    """What the search has found in one of two groups of sites with different graphs."""

    sites: int
    """The number of sites of the group."""
    tells: str
    """The edge for which the group's rows speak, and the other's do not, or the other way round."""
    graph: CausalGraph
    """As `graph_` of `EvidenceSearch`; `dag` and `edge_evidence` as `dag_` and `edge_evidence_`."""
    dag: CausalGraph
    edge_evidence: pd.DataFrame

    def heading(self, number: int) -> str:
        """Name the group by its size, and by what tells it from the other."""
        return f"Group {number}: {self.sites} sites, by their rows {self.tells}"

    def document(self) -> dict[str, Any]:
        """Return what is no array."""
        return {"sites": self.sites, "tells": self.tells, "edge_evidence": self.edge_evidence.to_dict("records")}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return both graphs."""
        scores = {"scores": np.asarray(self.dag.scores), "dag": self.dag.adjacency}
        return scores | prefixed("graph", graph_arrays(self.graph))

    @classmethod
    def of(cls, document: Mapping[str, Any], arrays: Arrays, columns: Sequence[str]) -> GroupGraph:
        """Take up what `document` and `arrays` returned."""
        graph = graph_from_arrays(under("graph", arrays), columns, arrays["scores"])
        dag = CausalGraph(arrays["dag"], columns, arrays["scores"])
        table = pd.DataFrame(document["edge_evidence"], columns=list(EdgeEvidence._fields))
        return cls(document["sites"], document["tells"], graph, dag, table)


def neighbours(dag: Int8[np.ndarray, "node node"]) -> list[Int8[np.ndarray, "node node"]]:
    """List the DAGs that differ from a DAG by one edge: first those with one turned, then left out, then added."""
    turned, left_out, added = [], [], []
    for i, j in np.argwhere(dag):
        without = dag.copy()
        without[i, j] = 0
        left_out.append(without)
        other = without.copy()
        other[j, i] = 1
        turned.append(other)
    for i, j in np.argwhere((dag | dag.T | np.eye(len(dag), dtype=np.int8)) == 0):
        other = dag.copy()
        other[i, j] = 1
        added.append(other)
    return [other for other in (*turned, *left_out, *added) if is_dag(other)]


def words_of(groups: Groups, columns: Sequence[str]) -> tuple[str, str]:
    """Say of each group in what its graph differs from the other's, as far as that makes the groups."""
    found = []
    for graph, against in ((groups.common, groups.other), (groups.other, groups.common)):
        edges = np.argwhere((graph == 1) & (against == 0))
        lost = np.argwhere((graph == 0) & (against == 1))
        sign, (i, j) = ("", edges[0]) if len(edges) else ("no ", lost[0])
        found.append(f"{sign}{columns[int(i)]} -> {columns[int(j)]}")
    return found[0], found[1]


def find_groups(
    dag: Int8[np.ndarray, "node node"], answer: Arrays, sites: int, fewest: int, knowledge: Knowledge
) -> Groups | None:
    """Return two groups that surely have different graphs, by the one edge that tells them apart best.

    By what sites answer, each graph near the common one is held against it: that every site has one of the two, as
    likely one as the other, must explain the rows better than that all have the first, or all the second; with odds
    that all such graphs share.

    Args:
        dag: The common graph.
        answer: The mean of the sites' answers to `search.votes`.
        sites: The number of sites.
        fewest: The fewest sites of a group.
        knowledge: What is known of every site's graph.
    """
    others = neighbours(dag)
    if not others:
        return None
    counts = np.round(answer["votes"] * sites).astype(int)
    told = np.stack([answer["for_other"], answer["for_common"]]) * sites
    sure = (told > _threshold(len(dag))).all(axis=0) & (counts >= fewest) & (sites - counts >= fewest)
    sure &= [not ((other & knowledge.impossible) | (knowledge.certain & ~other.astype(bool))).any() for other in others]
    if not sure.any():
        return None
    # evidence is bounded, and so many edges may tell equally well: rounding must not decide
    best = int(np.argmax(np.where(sure, np.round(told.sum(axis=0), 6), -np.inf)))
    return Groups(dag, others[best], (sites - int(counts[best]), int(counts[best])))


def confirmed(sure: Sequence[np.ndarray], dags: Sequence[np.ndarray]) -> bool:
    """Say whether two groups surely have different graphs: one has an edge, or a direction, that the other lacks.

    Args:
        sure: For each group the edges that are surely there; both ways, where the direction is open.
        dags: For each group the graph of greatest evidence.
    """
    return any(
        bool(((own == 1) & (own.T == 0) & (other == 0) | (own == 1) & (other == 0) & (other.T == 0)).any())
        for own, other in zip(sure, reversed(dags), strict=True)
    )


def describe_groups(groups: Sequence[GroupGraph]) -> str:
    """Say whether sites fall into two groups, and in which edges their graphs differ."""
    if not groups:
        return "The sites do not surely fall into two groups with different graphs."
    edges = [{str(edge) for edge in each.graph.marked_edges} for each in groups]
    only = (
        f"in group {k} alone: {', '.join(sorted(own - other)) or 'nothing'}"
        for k, (own, other) in enumerate(zip(edges, reversed(edges), strict=True), start=1)
    )
    return f"The sites fall into two groups with different graphs; {'; '.join(only)}."


def _threshold(nodes: int) -> float:
    return float(np.log(ODDS * max(nodes * (nodes - 1), 1)))


def group_tasks(nodes: int, sites: int, inner: Mapping[str, TaskSpec]) -> dict[str, TaskSpec]:
    """Return the tasks by which groups are found and asked, with bounds on what they bring."""
    graph = Bounds(0, 1, "uint8", (nodes, nodes))
    votes = tasks.VOTES.with_bounds(
        arrays={"dag": graph},
        rules={"a graph without cycles": lambda arrays: is_dag(arrays["dag"].astype(np.int8))},
    )
    in_group = GroupTaskSpec.of(inner).with_bounds(
        numbers={"group": Bounds(0, 1, whole=True), "size": Bounds(FEWEST, max(sites - FEWEST, FEWEST), whole=True)},
        arrays=dict.fromkeys(_GRAPHS, graph),
        rules={"two graphs without cycles that differ by one edge": _differ_by_one_edge},
    )
    return by_name((votes, in_group))


def _differ_by_one_edge(arrays: Arrays) -> bool:
    common, other = (arrays[name].astype(np.int8) for name in _GRAPHS)
    pairs = np.triu((common != other) | (common != other).T)
    return is_dag(common) and is_dag(other) and int(pairs.sum()) == 1


@dataclass(frozen=True)
class GroupTaskSpec(TaskSpec):
    """The declaration of a task of the search that is for one group of sites.

    What it brings is named `TASK/NAME`, and the number `TASK` is the round; the answer's arrays are named alike.
    """

    inner: Mapping[str, TaskSpec] = field(default_factory=dict)
    """The tasks that a group may be asked, by name."""

    @classmethod
    def of(cls, inner: Mapping[str, TaskSpec]) -> GroupTaskSpec:
        """Declare the task, for groups that may be asked these."""
        answers = {
            f"{code_of(task)}/{array}": Output(f"{output.discloses}; all zero outside the group", None)
            for task, spec in inner.items()
            for array, output in spec.answers.items()
        }
        return cls(_IN_GROUP, _OF_A_GROUP, answers, inner=inner)

    def names(self, task: Task) -> list[str]:
        """Return what a policy must allow: this task, and the one in it."""
        return [self.name, self.unwrap(task).name]

    def unwrap(self, task: Task) -> Task:
        """Return the task of the search that a group is asked."""
        named = [name for name in self.inner if code_of(name) in task.numbers]
        if len(named) != 1 or "size" not in task.numbers:
            raise FeddagError(f"{task.name} must ask one task of the search, of a group of some size.")
        code, start = code_of(named[0]), f"{code_of(named[0])}/"
        numbers = {name.removeprefix(start): each for name, each in task.numbers.items() if name.startswith(start)}
        members = tuple(range(int(task.numbers["size"])))
        return Task(named[0], int(task.numbers[code]), numbers, under(code, task.arrays), members, task.complete)

    def wrap(self, task: Task, groups: Groups, group: int, sites: int) -> Task:
        """Return the task that asks all sites on behalf of a group."""
        code = code_of(task.name)
        numbers = {f"{code}/{name}": each for name, each in task.numbers.items()}
        numbers |= {code: float(task.round), "group": float(group), "size": float(groups.sizes[group])}
        graphs = {name: getattr(groups, name).astype(np.uint8) for name in _GRAPHS}
        arrays = graphs | prefixed(code, task.arrays)
        return Task(self.name, task.round, numbers, arrays, tuple(range(sites)), complete=True)

    def check_task(self, site: str, task: Task, sites: int) -> None:
        """Refuse a task for a group that is too small, or with a part that its own declaration does not allow."""
        asked = self.unwrap(task)
        numbers, arrays = (
            {name: each for name, each in given.items() if name.partition("/")[0] != code_of(asked.name)}
            for given in (task.numbers, task.arrays)
        )
        own = replace(task, numbers=numbers, arrays=arrays)
        super().check_task(site, own, sites)
        self.inner[asked.name].check_task(site, asked, len(asked.participants))

    def check_answer(self, site: str, task: Task, answer: Arrays) -> None:
        """Refuse to send an answer that the declaration of the task inside does not describe."""
        asked = self.unwrap(task)
        self.inner[asked.name].check_answer(site, asked, under(code_of(asked.name), answer))

    def site_split(self, task: Task) -> Split:
        """Say of how many sites the groups are, and what makes them."""
        size, sites = int(task.numbers["size"]), len(task.participants)
        graphs = b"".join(task.arrays[name].tobytes() for name in _GRAPHS)
        sizes = (size, sites - size) if task.numbers["group"] == 0 else (sites - size, size)
        return Split(hashlib.sha256(graphs).hexdigest(), sizes)


GROUP_TASKS = (
    tasks.VOTES,
    TaskSpec(
        _IN_GROUP,
        _OF_A_GROUP,
        {"*": Output("what the search's own tasks disclose, of the sites of one group; all zero outside it")},
    ),
)


class GroupFederation:
    """One group of a federation's sites. Satisfies `feddag.federation.Federation`."""

    def __init__(self, federation: Federation, groups: Groups, group: int) -> None:
        self.sites = tuple(f"site {k + 1} of group {group + 1}" for k in range(groups.sizes[group]))
        self.local_sites: tuple[Site, ...] = ()
        self.summed = 0
        self.ledger = federation.ledger
        self.minimum_sites = getattr(federation, "minimum_sites", 1)
        self._federation = federation
        self._groups, self._group = groups, group
        self._spec = GroupTaskSpec.of(by_name(tasks.TASKS))

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        """Return the weighted mean of the answers of the group's sites."""
        asked = self._spec.wrap(task, self._groups, self._group, len(self._federation.sites))
        mean = self._federation.aggregate(asked)
        self.summed = len(self.sites)
        return under(code_of(task.name), mean)

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        """Answer a question of this group's search once and for all."""
        return self._federation.decide(f"group {self._group + 1}: {question}", answer)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return nothing: the federation of all sites keeps what there is."""
        return {}, {}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take up nothing."""
        del document, arrays


class SiteInGroups(Stateless):
    """A site of the search that finds out in which group it is. Satisfies `feddag.federation.Site`."""

    def __init__(self, site: Site, columns: Sequence[str], rows: int) -> None:
        self.name = site.name
        self._site = site
        self._columns, self._rows = columns, rows
        self._spec = GroupTaskSpec.of(by_name(tasks.TASKS))
        self._is_for_other = lru_cache(maxsize=1)(self._compare_graphs)

    def answer(self, task: Task) -> Answer:
        """Answer a task of the search, of this site's group or of all sites."""
        if task.name == tasks.VOTES.name:
            return self._vote(task.arrays["dag"].astype(np.int8))
        if task.name != self._spec.name:
            return self._site.answer(task)
        asked = self._spec.unwrap(task)
        answer = self._site.answer(asked)  # whether it counts or not: time must not tell
        answer = replace(answer, arrays=prefixed(code_of(asked.name), answer.arrays))
        common, other = (task.arrays[name].astype(np.int8) for name in _GRAPHS)
        if self._is_for_other(common.tobytes(), other.tobytes()) != (task.numbers["group"] == 1):
            return Answer(0.0, {name: np.zeros_like(array) for name, array in answer.arrays.items()})
        if asked.name == tasks.ROWS.name:  # the first question that a group is asked
            return replace(
                answer, notes=(self._in_words(task, Groups(common, other, self._spec.site_split(task).sizes)),)
            )
        return answer

    def _in_words(self, task: Task, groups: Groups) -> str:
        group = int(task.numbers["group"])
        mine, theirs = words_of(groups, self._columns)[:: 1 if group == 0 else -1]
        return (
            f"the sites fall into two groups with different graphs: this site is in the group of {groups.sizes[group]} "
            f"sites whose rows speak for {mine}, and those of the {groups.sizes[1 - group]} others for {theirs}"
        )

    def _vote(self, dag: Int8[np.ndarray, "node node"]) -> Answer:
        gains = self._gains(dag, neighbours(dag))
        bound = _threshold(len(dag))  # so that no site alone makes it sure that there are groups
        told = np.clip(gains, -bound, bound)
        for_other, for_common = (np.logaddexp(0.0, sign * told) - np.log(2) for sign in (1, -1))
        return Answer(1.0, {"votes": (gains > 0).astype(float), "for_other": for_other, "for_common": for_common})

    def _compare_graphs(self, common: bytes, other: bytes) -> bool:
        nodes = len(self._columns)
        graphs = (np.frombuffer(each, dtype=np.int8).reshape(nodes, nodes) for each in (common, other))
        dag, changed = graphs
        return bool(self._gains(dag, [changed])[0] > 0)

    def _gains(
        self, dag: Int8[np.ndarray, "node node"], others: Sequence[Int8[np.ndarray, "node node"]]
    ) -> Float[np.ndarray, " change"]:
        """Return by how much log-evidence this site's rows speak for other graphs."""
        judge = Judge(self._site, dag.astype(np.uint8), self._rows)
        now = families_of(dag)
        changes = [_changed_families(other, now) for other in others]
        judge.learn([*now, *(family for families in changes for family in families)])
        return np.array(
            [sum(judge.evidence[each] - judge.evidence[now[each[0]]] for each in families) for families in changes]
        )


def _changed_families(other: Int8[np.ndarray, "node node"], now: Sequence[Family]) -> list[Family]:
    return [(child, parents) for child, parents in enumerate(parents_of(other)) if parents != now[child][1]]
