"""How sure each edge is, and which directions the data can tell at all.

An edge is compared with its absence, and with the best graph at hand in which it points the other way. Such a graph may
be one of the same equivalence class; the same graph with this edge reversed, where that makes no cycle; one in which
one of the two has moved past the other in the order, and those whom that concerns pick their parents anew; what hill
climbing makes of these while the edge stays reversed; or what was found so for another edge. A direction that is not
surely better than the other is left open, with all else that this other graph reverses; and an edge that it lacks is
not surely there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import norm

from feddag.graphs import apply_meek_rules, is_dag, to_cpdag
from feddag.learners.bitsets import members, parents_of
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.batching import run_in_lockstep
from feddag.learners.search.checks import Doubts
from feddag.learners.search.independences import Edge, ToldOtherwise, suspected, told_by_independences
from feddag.learners.search.order_search import OrderSearch
from feddag.learners.search.refinement import Graph, climb, coarse_gain
from feddag.learners.search.scores import BY_CHANGES, BY_INDEPENDENCE, LEAST_GAIN, SOURCES, Family, Scores, families_of

Families = tuple[Family, ...]
Change = dict[Family, int]
"""Families that come (1) and go (-1)."""
Worse = tuple[float, float]
"""By how much, and the standard error."""
_RULED_OUT: Worse = (np.inf, 0.0)
RULED_OUT, POSSIBLE, LIKELY = "ruled out", "possible", "likely"
"""What the data say about a hidden common cause of an edge's two variables."""
_MOST_STEPS = 10
"""The largest number of hill climbing steps from a graph with a reversed edge: a step may cost a round."""
_LEAST_PART = 0.25
"""The share of what speaks for a direction from which on something is said to tell it, or to speak against it."""
BY_KNOWLEDGE, BY_OTHER_EDGES, IN_COMMON = "knowledge", "other edges", "what sites have in common"
_JOINTLY_SCORED = 4
"""Graphs that have an edge reversed: of so many the joint scores decide."""


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
        rest = self.worse - self.parts[SOURCES.index(BY_INDEPENDENCE)]
        return self._replace(worse=rest).surely_worse(confidence)

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
    """Whether it is sure that there is an edge and that it points this way."""
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

    def decided(self, graph: Graph, *, present: bool) -> EdgeEvidence:
        """Return the same evidence with what is sure: of the edge, and of its direction in a graph with open ones."""
        return self._replace(present=present, directed=present and not graph[self.effect, self.cause])


@dataclass(frozen=True)
class Directions:
    """The graph, with those edges undirected whose direction is open, and the evidence of every edge."""

    graph: Graph
    evidence: list[EdgeEvidence]

    @property
    def doubtful(self) -> list[Edge]:
        """List the edges of which it is not sure that they are there."""
        return [(each.cause, each.effect) for each in self.evidence if not each.present]

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
        return Directions(graph, evidence)

    def with_sites(self, standing: Float[np.ndarray, "node node"]) -> Directions:
        """Say at how many sites each edge stands."""
        evidence = [each._replace(sites=float(standing[each.cause, each.effect])) for each in self.evidence]
        return Directions(self.graph, evidence)

    def with_confounding(
        self,
        states: Mapping[Edge, str],
        doubted: Collection[Edge],
        imprecise: Collection[Edge],
        together: Float[np.ndarray, "node node"],
        knowledge: Knowledge,
    ) -> Directions:
        """Say which edges a hidden common cause explains, and leave the direction of those in doubt open.

        They are open even where a path of directed edges leads along them: neither may be a cause of the other. An edge
        that errors of measurement would explain is not surely there, unless it is known.
        """
        graph, evidence = self.graph.copy(), []
        for each in self.evidence:
            i, j = edge = each.cause, each.effect
            state = states.get(edge, POSSIBLE)
            if edge in doubted and not knowledge.impossible[j, i]:
                graph[j, i] = 1
            present = each.present and (edge not in imprecise or bool(knowledge.required[j] >> i & 1))
            evidence.append(each._replace(together=float(together[edge]), confounding=state, present=present))
        return Directions(graph, [each.decided(graph, present=each.present) for each in evidence])

    def if_any_may_be_hidden(self, knowledge: Knowledge) -> Directions:
        """Call an edge directed only where a hidden common cause is ruled out, or the edge is known."""
        evidence = []
        for each in self.evidence:
            required = knowledge.required[each.effect] >> each.cause & 1
            sure = each.confounding == RULED_OUT or bool(required)
            evidence.append(each._replace(directed=each.directed and sure))
        return Directions(self.graph, evidence)


def surely_worse(compared: Worse, confidence: float) -> bool:
    """Say whether both the evidence (as odds) and its standard error give this confidence."""
    worse, error = compared
    return bool(worse > np.log(confidence / (1 - confidence)) and worse > norm.ppf(confidence) * error)


def weigh(dag: Graph, scores: Scores, search: OrderSearch, knowledge: Knowledge, confidence: float) -> Directions:
    """Weigh each edge against its absence and its reversal.

    A direction is sure if both the evidence (as odds) and its standard error give it this confidence.
    """
    edges = [(int(i), int(j)) for i, j in np.argwhere(dag)]
    if not edges:
        return Directions(dag.copy(), [])
    now = families_of(dag)
    absent = [((j, now[j][1] & ~(1 << i)),) for i, j in edges]
    alternatives = _alternatives(dag, edges, scores, search, knowledge)
    worsening = _worsening(dag, alternatives, scores)
    reverse = [min(found, key=worsening, default=()) for found in alternatives]
    compared = compare_changes(scores, [_against(now, families) for families in (*absent, *reverse)])
    graph, evidence, doubtful, sources = dag.copy(), [], set[Edge](), _sources(dag, scores, compared)
    for k, (i, j) in enumerate(edges):
        without = compared[k].over_rows
        other_way = compared[len(edges) + k].over_all if alternatives[k] else _RULED_OUT
        by_changes = compared[len(edges) + k].by_changes if alternatives[k] else 0.0
        told_by = compared[len(edges) + k].told_by(sources) if alternatives[k] else BY_KNOWLEDGE
        if alternatives[k] and not compared[len(edges) + k].surely_worse(confidence):
            told_by = BY_OTHER_EDGES  # where it is directed in the end
            for cause, effect in edges:
                graph[effect, cause] |= _reverses(reverse[k], cause, effect)
        if alternatives[k] and not surely_worse(compared[len(edges) + k].over_rows, confidence):
            doubtful |= {edge for edge in edges if _lacks(reverse[k], *edge)}
        present = bool(knowledge.required[j] >> i & 1) or surely_worse(without, confidence)
        known = EdgeEvidence(i, j, *without, *other_way, present, directed=True, by_changes=by_changes, told_by=told_by)
        evidence.append(known)
    evidence = [each._replace(present=each.present and (each.cause, each.effect) not in doubtful) for each in evidence]
    graph = _without_forced(graph)
    alone = [
        edge
        for edge, each in zip(edges, compared[len(edges) :], strict=True)
        if each.surely_worse_whatever_depends(confidence)
    ]
    otherwise = ToldOtherwise(scores.discrete, scores.targets, knowledge, alone)
    unsure = [(each.cause, each.effect) for each in evidence if not each.present]
    dependent = suspected(dag, graph, otherwise, scores)
    graph = _without_forced(told_by_independences(graph, unsure, dependent, otherwise))
    return Directions(graph, [each.decided(graph, present=each.present) for each in evidence])


def _sources(dag: Graph, scores: Scores, compared: Sequence[Compared]) -> list[str]:
    """Name what may tell directions: of sites that are all alike, what they have in common."""
    compares = any(each.by_changes for each in compared)
    alike = compares and not scores.differences(dag).sites.any()
    return [IN_COMMON if alike and source == BY_CHANGES else source for source in SOURCES]


def find_better(dag: Graph, scores: Scores, search: OrderSearch, knowledge: Knowledge) -> Graph | None:
    """Return the best graph by joint scores that has an edge reversed, if it is better than this one."""
    edges = [(int(i), int(j)) for i, j in np.argwhere(dag)]
    alternatives = _alternatives(dag, edges, scores, search, knowledge) if edges else []
    worsening = _worsening(dag, alternatives, scores)
    best = min(chain.from_iterable(alternatives), key=worsening, default=())
    return _with_families(dag, best) if worsening(best) < -LEAST_GAIN else None


def _worsening(dag: Graph, alternatives: Sequence[list[Families]], scores: Scores) -> Callable[[Families], float]:
    """Return a function that says by how much alternatives are worse than a graph, by joint scores."""
    now = families_of(dag)
    scores.ask_joint([*now, *(family for found in alternatives for families in found for family in families)])
    return lambda families: sum(scores.joint[family] - scores.joint[now[family[0]]] for family in families)


def _reverses(changes: Families, cause: int, effect: int) -> bool:
    """Say whether a graph with these families has the edge the other way."""
    return any(child == cause and parents >> effect & 1 for child, parents in changes)


def _lacks(changes: Families, cause: int, effect: int) -> bool:
    """Say whether a graph with these families has the edge in neither direction."""
    gone = any(child == effect and not parents >> cause & 1 for child, parents in changes)
    return gone and not _reverses(changes, cause, effect)


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


def _alternatives(
    dag: Graph, edges: Sequence[Edge], scores: Scores, search: OrderSearch, knowledge: Knowledge
) -> list[list[Families]]:
    """Find for each edge the best graphs, by coarse scores, in which it points the other way.

    Each graph is given by the families in which it differs from this one.
    """
    turned = {(i, j): known for i, j in edges if (known := knowledge.requiring(j, i)) is not None}
    starts = _starts(dag, turned, search)
    climbs = {
        (edge, k): climb(turned[edge], graph, coarse_gain(scores), steps=_MOST_STEPS)
        for edge, graphs in starts.items()
        for k, graph in enumerate(graphs)
    }
    climbed = search.run(run_in_lockstep(climbs)).values()
    now = families_of(dag)
    scores.ask_neighbourhoods(now)

    def coarse(family: Family) -> float:
        return float(scores.neighbourhood[family][family[0]])

    def worsening(families: Families) -> float:
        return sum(coarse(family) - coarse(now[family[0]]) for family in families)

    graphs = [*chain.from_iterable(starts.values()), *climbed]
    found = {tuple(family for family in families_of(graph) if family != now[family[0]]): None for graph in graphs}
    ranked = sorted(found, key=worsening)
    return [list(islice((each for each in ranked if _reverses(each, *edge)), _JOINTLY_SCORED)) for edge in edges]


def _starts(dag: Graph, turned: Mapping[Edge, Knowledge], search: OrderSearch) -> dict[Edge, list[Graph]]:
    """Construct for each edge that may be reversed some graphs in which it is."""
    order, equivalents = list(nx.lexicographical_topological_sort(nx.DiGraph(dag))), to_cpdag(dag)
    anew = {
        edge: [_questions_of(dag, moved, edge[0]) for moved in _move(order, *edge, known)]
        for edge, known in turned.items()
    }
    questions = [question for each in anew.values() for asked in each for question in asked]
    picked = dict(zip(questions, search.pick(questions), strict=True))
    found = {}
    for (i, j), known in turned.items():
        graphs = [_with_families(dag, [picked[question] for question in asked]) for asked in anew[i, j]]
        graphs.append(_reverse_edge(dag, i, j))
        if equivalents[j, i]:
            graphs.append(equivalent_dag(equivalents, dag, j, i))
        graphs = [_with_edge(graph, j, i) for graph in graphs]
        found[i, j] = [graph for graph in graphs if is_admissible(graph, known)]
    return found


def is_admissible(graph: Graph, knowledge: Knowledge) -> bool:
    """Say whether a graph is a DAG that knowledge allows."""
    return is_dag(graph) and not (graph & knowledge.impossible).any() and bool((graph | ~knowledge.certain).all())


def equivalent_dag(cpdag: Graph, dag: Graph, cause: int, effect: int) -> Graph:
    """Return a DAG of the equivalence class with the edge cause -> effect, and otherwise near the given one."""
    graph = cpdag.copy()
    graph[effect, cause] = 0
    while True:
        graph = apply_meek_rules(graph)
        open_edges = np.argwhere(graph & graph.T & dag)
        if not len(open_edges):
            return graph
        i, j = open_edges[0]
        graph[j, i] = 0


def _with_edge(graph: Graph, cause: int, effect: int) -> Graph:
    graph = graph.copy()
    graph[cause, effect] = 1
    return graph


def _reverse_edge(dag: Graph, cause: int, effect: int) -> Graph:
    graph = _with_edge(dag, effect, cause)
    graph[cause, effect] = 0
    return graph


def _move(order: list[int], cause: int, effect: int, knowledge: Knowledge) -> list[list[int]]:
    """Return the order with the effect just before the cause, and with the cause just after it, if that may be."""
    first, last = order.index(cause), order.index(effect)
    before, between, after = order[:first], order[first + 1 : last], order[last + 1 :]
    orders = [[*before, effect, cause, *between, *after], [*before, *between, effect, cause, *after]]
    return [knowledge.admissible(each) for each in orders]


def _questions_of(dag: Graph, order: list[int], cause: int) -> list[Family]:
    """List the nodes that lose a parent by this order, and the former cause, each with what is before it."""
    parents = parents_of(dag)
    questions, before = [], 0
    for node in order:
        if node == cause or parents[node] & ~before:
            questions.append((node, before))
        before |= 1 << node
    return questions


def _with_families(dag: Graph, families: Iterable[Family]) -> Graph:
    """Return the graph with these families."""
    graph = dag.copy()
    for node, parents in families:
        graph[:, node] = 0
        graph[members(parents), node] = 1
    return graph
