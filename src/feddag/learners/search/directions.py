"""How sure each edge is, and which directions the data can tell at all.

An edge is compared with its absence, and with the best graph at hand in which it points the other way (`alternatives`).
A direction that is not surely better than the other is left open, with all else that this other graph reverses; and an
edge that it lacks is not surely there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import norm

from feddag.learners.knowledge import Knowledge
from feddag.learners.search.alternatives import Families, find_alternatives, reverses
from feddag.learners.search.checks import Doubts
from feddag.learners.search.independences import ToldOtherwise, find_contradictions, suspected, told_by_independences
from feddag.learners.search.order_search import OrderSearch
from feddag.learners.search.refinement import Graph
from feddag.learners.search.scores import (
    BY_CHANGES,
    BY_CURVATURE,
    BY_INDEPENDENCE,
    SOURCES,
    Edge,
    Family,
    Scores,
    families_of,
)
from feddag.regression.imprecision import most_by_errors

Change = dict[Family, int]
"""Families that come (1) and go (-1)."""
Worse = tuple[float, float]
"""By how much, and the standard error."""
_RULED_OUT: Worse = (np.inf, 0.0)
RULED_OUT, POSSIBLE, LIKELY = "ruled out", "possible", "likely"
"""What the data say about a hidden common cause of an edge's two variables."""
_LEAST_PART = 0.25
"""The share of what speaks for a direction from which on something is said to tell it, or to speak against it."""
BY_KNOWLEDGE, BY_OTHER_EDGES, IN_COMMON = "knowledge", "other edges", "what sites have in common"


class Compared(NamedTuple):
    """By how much a change makes a graph worse, with standard errors."""

    worse: float
    row_error: float
    error: float
    by_changes: float
    """The part that is due to what sites have in common, and where they differ."""
    own_error: float
    """The standard error of the rest."""
    parts: tuple[float, ...]
    """The parts by what tells them (`SOURCES`)."""

    def told_by(self, sources: Sequence[str]) -> str | None:
        """Return what tells that the change is worse, the strongest first; None where nothing does."""
        by_source = {source: part for source, part in zip(sources, self.parts, strict=True) if part > 0}
        least = _LEAST_PART * sum(by_source.values())
        named = sorted(
            (source for source in by_source if by_source[source] >= least), key=lambda each: -by_source[each]
        )
        return ", ".join(named) or None

    def surely_worse(self, confidence: float) -> bool:
        """Say whether the change is surely worse: by all that is known, or already by what each site says by itself.

        For the latter, what sites have in common must not speak against it.
        """
        own = self.worse - self.by_changes
        spoken_against = self.by_changes < -_LEAST_PART * own
        alone = surely_worse((own, self.own_error), confidence) and surely_worse((self.worse, 0.0), confidence)
        return (alone and not spoken_against) or surely_worse(self.over_all, confidence)

    def surely_worse_whatever_depends(self, confidence: float) -> bool:
        """Say whether the change is surely worse without what independences say."""
        return self._replace(worse=self.worse - self.of_lines).surely_worse(confidence)

    @property
    def of_lines(self) -> float:
        """The part that straight lines with normal noise tell."""
        return self.parts[SOURCES.index(BY_INDEPENDENCE)]

    @property
    def is_curved(self) -> bool:
        """Whether curvature tells much of it."""
        return self.parts[SOURCES.index(BY_CURVATURE)] > _LEAST_PART * self.worse

    @property
    def over_rows(self) -> Worse:
        """With the standard error over rows: whether an edge is there is asked of these sites."""
        return self.worse, self.row_error

    @property
    def over_all(self) -> Worse:
        """With the standard error over rows or sites: which way it points must not rest on one of them."""
        return self.worse, self.error


class EdgeEvidence(NamedTuple):
    """By how much the total log-evidence falls without an edge, and if it is reversed, with standard errors."""

    cause: Any
    effect: Any
    absent: float
    absent_error: float
    reversed: float
    """Infinite where prior knowledge rules it out."""
    reversed_error: float
    present: bool
    """Whether it is sure that there is an edge."""
    directed: bool
    """Whether it is sure that there is an edge and that it points this way, if nothing is hidden."""
    together: float = np.nan
    """By how much log-likelihood beyond chance what causes leave unexplained of the two variables goes together."""
    confounding: str = POSSIBLE
    """Whether a hidden common cause of the two variables is ruled out, possible or likely."""
    by_changes: float = np.nan
    """The part of `reversed` that is due to what sites have in common, and where they differ."""
    sites: float = np.nan
    """The number of sites whose own rows speak for the edge; not a number if these are fewer than may be told of."""
    told_by: str | None = None
    """What tells the direction, in words; None where it is not sure."""
    sure_cause: bool = False
    """Whether it is directed, and a hidden common cause is ruled out or the edge is known."""

    def decided(self, graph: Graph, *, present: bool) -> EdgeEvidence:
        """Return the same evidence with what is sure: of the edge, and of its direction in a graph with open ones."""
        return self._replace(present=present, directed=present and not graph[self.effect, self.cause])


@dataclass(frozen=True)
class Directions:
    """The graph, with those edges undirected whose direction is open, and the evidence of every edge."""

    graph: Graph
    evidence: list[EdgeEvidence]
    unseen_by_lines: frozenset[Edge] = frozenset()
    """Strong edges that straight lines do not show: what lines say of errors of measurement is chance there."""

    @property
    def doubtful(self) -> list[Edge]:
        """List the edges of which it is not sure that they are there."""
        return [(each.cause, each.effect) for each in self.evidence if not each.present]

    def unlikely(self, confidence: float) -> list[Edge]:
        """List the edges of which it is not sure that they are there, and that the odds do not speak for, either."""
        found = [each for each in self.evidence if not each.present and each.absent < least_evidence(confidence)]
        return [(each.cause, each.effect) for each in found]

    def sure_edges(self) -> Graph:
        """Return the graph without the edges of which it is not sure that they are there."""
        graph = self.graph.copy()
        for each in self.evidence:
            if not each.present:
                graph[each.cause, each.effect] = graph[each.effect, each.cause] = 0
        return graph

    def table(self, names: Sequence[str]) -> pd.DataFrame:
        """Return a row per edge, with names of variables."""
        named = [
            each._replace(
                cause=names[each.cause], effect=names[each.effect], told_by=each.told_by if each.directed else None
            )
            for each in self.evidence
        ]
        return pd.DataFrame(named, columns=list(EdgeEvidence._fields))

    def doubt(self, doubts: Doubts, knowledge: Knowledge) -> Directions:
        """Leave open what rests on an assumption that fails, unless it is known."""
        graph, adjacent = self.graph.copy(), self.graph | self.graph.T
        pairs = {frozenset(pair) for pair in doubts.copies}
        shared = np.ones_like(adjacent)  # 0 where one of two copies has an edge that the other has not
        for one, other in doubts.copies:
            shared[[one, other]] &= 1 - (adjacent[one] ^ adjacent[other])
        shared &= shared.T
        for i, j, *_ in self.evidence:
            undirected = j in doubts.dependent or {i, j} in pairs or bool({i, j} & {*doubts.with_atom})
            if undirected and not knowledge.impossible[j, i]:
                graph[j, i] = 1
        graph = _without_forced(graph)
        evidence = []
        for each in self.evidence:
            i, j = each.cause, each.effect
            certain = shared[i, j] or {i, j} in pairs or knowledge.required[j] >> i & 1
            evidence.append(each.decided(graph, present=each.present and bool(certain)))
        return replace(self, graph=graph, evidence=evidence)

    def with_sites(self, standing: Float[np.ndarray, "node node"]) -> Directions:
        """Say at how many sites each edge stands."""
        evidence = [each._replace(sites=float(standing[each.cause, each.effect])) for each in self.evidence]
        return replace(self, evidence=evidence)

    def with_confounding(
        self,
        states: Mapping[Edge, str],
        imprecise: Collection[Edge],
        together: Float[np.ndarray, "node node"],
        knowledge: Knowledge,
    ) -> Directions:
        """Say which edges a hidden common cause explains, and leave directions open where one is likely.

        They are open even where a path of directed edges leads along them: neither may be a cause of the other. An edge
        that errors of measurement would explain is not surely there, unless it is known.
        """
        graph, evidence = self.graph.copy(), []
        for each in self.evidence:
            i, j = edge = each.cause, each.effect
            state = states.get(edge, POSSIBLE)
            if state == LIKELY and not knowledge.impossible[j, i]:
                graph[j, i] = 1
            present = each.present and (edge not in imprecise or bool(knowledge.required[j] >> i & 1))
            marked = each._replace(together=float(together[edge]), confounding=state).decided(graph, present=present)
            certain = state == RULED_OUT or bool(knowledge.required[j] >> i & 1)
            evidence.append(marked._replace(sure_cause=marked.directed and certain))
        return replace(self, graph=graph, evidence=evidence)

    def if_any_may_be_hidden(self) -> Directions:
        """Call only those edges directed that are sure causes."""
        return replace(self, evidence=[each._replace(directed=each.sure_cause) for each in self.evidence])


def surely_worse(compared: Worse, confidence: float) -> bool:
    """Say whether both the evidence (as odds) and its standard error give this confidence."""
    worse, error = compared
    return bool(worse > least_evidence(confidence) and worse > norm.ppf(confidence) * error)


def least_evidence(confidence: float) -> float:
    """Return the log-evidence from which on the odds give this confidence."""
    return float(np.log(confidence / (1 - confidence)))


def weigh(dag: Graph, scores: Scores, search: OrderSearch, knowledge: Knowledge, confidence: float) -> Directions:
    """Weigh each edge against its absence and its reversal.

    A direction is sure if both the evidence (as odds) and its standard error give it this confidence.
    """
    edges = [(int(i), int(j)) for i, j in np.argwhere(dag)]
    if not edges:
        return Directions(dag.copy(), [])
    now = families_of(dag)
    absent = [((j, now[j][1] & ~(1 << i)),) for i, j in edges]
    alternatives = find_alternatives(dag, scores, search, knowledge)
    reverse = [alternatives.get(edge, ()) for edge in edges]
    compared = compare_changes(scores, [_against(now, families) for families in (*absent, *reverse)])
    if scores.differ_one_by_one(dag):
        compared = [each._replace(error=each.row_error) for each in compared]
    graph, evidence, doubtful, sources = dag.copy(), [], set[Edge](), _sources(dag, scores, compared)
    for k, (i, j) in enumerate(edges):
        without = compared[k].over_rows
        other_way = compared[len(edges) + k].over_all if reverse[k] else _RULED_OUT
        by_changes = compared[len(edges) + k].by_changes if reverse[k] else 0.0
        told_by = compared[len(edges) + k].told_by(sources) if reverse[k] else BY_KNOWLEDGE
        if reverse[k] and not compared[len(edges) + k].surely_worse(confidence):
            told_by = BY_OTHER_EDGES  # where it is directed in the end
            for cause, effect in edges:
                graph[effect, cause] |= reverses(reverse[k], cause, effect)
        if reverse[k] and not surely_worse(compared[len(edges) + k].over_rows, confidence):
            doubtful |= {edge for edge in edges if _lacks(reverse[k], *edge)}
        present = bool(knowledge.required[j] >> i & 1) or surely_worse(without, confidence)
        known = EdgeEvidence(i, j, *without, *other_way, present, directed=True, by_changes=by_changes, told_by=told_by)
        evidence.append(known)
    compared_absent = dict(zip(edges, compared, strict=False))
    contradicted = _find_contradicted(dag, compared_absent, scores, knowledge, confidence)
    doubtful |= contradicted
    for _, effect in contradicted:  # its causes may be others: no direction is sure that rests on them
        graph[effect] |= dag[:, effect] & ~knowledge.impossible[effect]
    evidence = [each._replace(present=each.present and (each.cause, each.effect) not in doubtful) for each in evidence]
    graph = _without_forced(graph)
    alone = [
        edge
        for edge, families, each in zip(edges, reverse, compared[len(edges) :], strict=True)
        if not families or each.surely_worse_whatever_depends(confidence)
    ]
    otherwise = ToldOtherwise(scores.discrete, scores.targets, knowledge, alone)
    unsure = [(each.cause, each.effect) for each in evidence if not each.present]
    dependent = suspected(dag, graph, otherwise, scores)
    graph = _without_forced(told_by_independences(graph, unsure, dependent, otherwise))
    evidence = [each.decided(graph, present=each.present) for each in evidence]
    return Directions(graph, evidence, _unseen_by_lines(dag, compared_absent, confidence))


def _unseen_by_lines(dag: Graph, absent: Mapping[Edge, Compared], confidence: float) -> frozenset[Edge]:
    """Return the edges that lines do not show, and that tell more than what errors of another cause would leave.

    That is less than the other cause tells itself; only one with an edge to the edge's own cause matters.
    """
    adjacent, least = dag | dag.T, least_evidence(confidence)

    def is_foremost(cause: int, effect: int) -> bool:
        others = np.flatnonzero(dag[:, effect] & adjacent[:, cause]).tolist()
        return all(absent[other, effect].worse <= absent[cause, effect].worse for other in others)

    return frozenset(edge for edge, each in absent.items() if each.of_lines < least and is_foremost(*edge))


def _find_contradicted(
    dag: Graph, absent: Mapping[Edge, Compared], scores: Scores, knowledge: Knowledge, confidence: float
) -> set[Edge]:
    """Return the curved edges that independences contradict: straight lines may cancel, and scores judge these."""
    curved = [(i, j) for (i, j), each in absent.items() if each.is_curved and not knowledge.required[j] >> i & 1]
    return find_contradictions(dag, curved, scores, least_evidence(confidence))


def doubt_outshone(dag: Graph, directions: Directions, scores: Scores, knowledge: Knowledge) -> Directions:
    """Doubt edges that tell less than small errors of measurement of other causes would leave to be told.

    That is asked of causes that have an edge to the edge's own, and of continuous variables.
    """
    adjacent, numbers = dag | dag.T, {*range(len(dag))} - {*scores.discrete}
    absent = {(i, j): each / scores.rows for i, j, each, *_ in directions.evidence if {i, j} <= numbers}
    left = {
        (i, j): sum(most_by_errors(absent[k, j]) for k in np.flatnonzero(adjacent[i]).tolist() if (k, j) in absent)
        for i, j in absent
    }
    evidence = []
    for each in directions.evidence:
        edge = each.cause, each.effect
        is_slight = edge in absent and absent[edge] < left[edge] and not knowledge.required[edge[1]] >> edge[0] & 1
        evidence.append(each.decided(directions.graph, present=each.present and not is_slight))
    return replace(directions, evidence=evidence)


def _sources(dag: Graph, scores: Scores, compared: Sequence[Compared]) -> list[str]:
    """Name what may tell directions: of sites that are all alike, what they have in common."""
    compares = any(each.by_changes for each in compared)
    alike = compares and not scores.differences(dag).sites.any()
    return [IN_COMMON if alike and source == BY_CHANGES else source for source in SOURCES]


def _lacks(changes: Families, cause: int, effect: int) -> bool:
    """Say whether a graph with these families has the edge in neither direction."""
    gone = any(child == effect and not parents >> cause & 1 for child, parents in changes)
    return gone and not reverses(changes, cause, effect)


def _without_forced(graph: Graph) -> Graph:
    """Direct open edges along which a path of directed ones leads: they can point one way only."""
    while True:
        directed = graph & ~graph.T & 1
        paths = nx.to_numpy_array(nx.transitive_closure_dag(nx.DiGraph(directed))) > 0
        forced = paths & (graph & graph.T == 1)
        if not forced.any():
            return graph
        graph = np.where(forced.T, 0, graph).astype(graph.dtype)


def _against(now: list[Family], families: Families) -> Change:
    """Return the change from the families of the graph to these."""
    return dict.fromkeys(families, 1) | {now[child]: -1 for child, _ in families}


def compare_changes(scores: Scores, changes: Sequence[Change]) -> list[Compared]:
    """Measure how much worse each change makes a graph."""
    families = {family: None for change in changes for family, sign in change.items() if sign > 0}
    families |= {family: None for change in changes for family in change}
    position = {family: k for k, family in enumerate(families)}
    terms = np.zeros((len(changes), len(families)), dtype=np.int8)
    for k, change in enumerate(changes):
        for family, sign in change.items():
            terms[k, position[family]] = sign
    found = scores.compare(list(families), terms)
    columns = (found.difference, found.row_error, found.error, found.of_changes, found.own_error)
    worse = scores.rows * np.column_stack([*columns, found.parts])
    return [Compared(*each[:5], parts=tuple(each[5:])) for each in worse.tolist()]
