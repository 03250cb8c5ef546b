"""How sure each edge is, and which directions the data can tell at all.

An edge is compared with its absence, and with the best graph at hand in which it points the other way: one of the same
equivalence class, where there is one; the same graph with this edge reversed, where that makes no cycle; and one in
which the effect stands before the cause in the order, and those whom that concerns pick their parents anew. A direction
that is not surely better than the other is left open, unless it follows from those that are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from jaxtyping import Int8
from scipy.stats import norm

from feddag.graphs import apply_meek_rules, is_dag, to_cpdag
from feddag.learners.knowledge import Knowledge
from feddag.learners.node_sets import bits, members
from feddag.learners.search.order_search import OrderSearch
from feddag.learners.search.scores import Family, Scores, families_of

Graph = Int8[np.ndarray, "node node"]


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
    """Whether the direction is sure."""


@dataclass(frozen=True)
class Directions:
    """The graph, with those edges undirected whose direction is open, and the evidence of every edge."""

    graph: Graph
    evidence: list[EdgeEvidence]

    def table(self, names: Sequence[str]) -> pd.DataFrame:
        named = [each._replace(cause=names[each.cause], effect=names[each.effect]) for each in self.evidence]
        return pd.DataFrame(named, columns=list(EdgeEvidence._fields))


def weigh(dag: Graph, scores: Scores, search: OrderSearch, knowledge: Knowledge, confidence: float) -> Directions:
    """`confidence` is asked of the evidence (as odds) and of its standard error."""
    edges = [(int(i), int(j)) for i, j in np.argwhere(dag)]
    if not edges:
        return Directions(dag.copy(), [])
    now = families_of(dag)
    absent = [[(j, now[j][1] & ~(1 << i))] for i, j in edges]
    alternatives = _alternatives(dag, edges, search, knowledge)
    scores.ask_joint([*now, *(family for found in alternatives for families in found for family in families)])

    def worsening(families: list[Family]) -> float:
        return sum(scores.joint[family] - scores.joint[now[family[0]]] for family in families)

    reverse = [min(found, key=worsening, default=[]) for found in alternatives]
    compared = _compared(scores, now, [*absent, *reverse])
    least, certain = np.log(confidence / (1 - confidence)), norm.ppf(confidence)

    def sure(worse: float, error: float) -> bool:
        return worse > max(least, certain * error)

    graph, evidence = dag.copy(), []
    for k, (i, j) in enumerate(edges):
        without = compared[0][k], compared[1][k]
        other_way = (compared[0][len(edges) + k], compared[1][len(edges) + k]) if alternatives[k] else (np.inf, 0.0)
        if not sure(*other_way):
            graph[j, i] = 1
        required = bool(knowledge.required[j] >> i & 1)
        evidence.append(EdgeEvidence(i, j, *without, *other_way, present=required or sure(*without), directed=True))
    # the rules take open edges for no part of a collider: where the best graph says otherwise, the edge stays open
    graph = apply_meek_rules(graph) | dag
    return Directions(graph, [each._replace(directed=not graph[each.effect, each.cause]) for each in evidence])


def _compared(scores: Scores, now: list[Family], comparisons: list[list[Family]]) -> tuple[list[float], list[float]]:
    """By how much the total score rises if these families take the place of those of now, with standard errors."""
    families = {family: None for changes in comparisons for family in changes}
    families |= {now[child]: None for child, _ in families}
    position = {family: k for k, family in enumerate(families)}
    terms = np.zeros((len(comparisons), len(families)), dtype=np.int8)
    for k, changes in enumerate(comparisons):
        for family in changes:
            terms[k, position[family]] += 1
            terms[k, position[now[family[0]]]] -= 1
    found = scores.compare(list(families), terms)
    return (found.difference * scores.rows).tolist(), (found.error * scores.rows).tolist()


def _alternatives(
    dag: Graph, edges: Sequence[tuple[int, int]], search: OrderSearch, knowledge: Knowledge
) -> list[list[list[Family]]]:
    """For each edge, graphs in which it points the other way: the families by which they differ from this one."""
    now, equivalents = families_of(dag), to_cpdag(dag)
    order = list(nx.lexicographical_topological_sort(nx.DiGraph(dag)))
    anew = {
        (i, j): _unsettled(dag, order, i, j)
        for i, j in edges
        if knowledge.allowed[i] >> j & 1 and not knowledge.required[j] >> i & 1
    }
    questions = list(chain.from_iterable(anew.values()))
    picked = dict(zip(questions, search.pick(questions), strict=True))
    found: list[list[list[Family]]] = []
    for i, j in edges:
        graphs = []
        if (i, j) in anew:
            graphs.append(_settled(dag, [picked[question] for question in anew[i, j]]))
            if is_dag(turned := _turned(dag, i, j)):
                graphs.append(turned)
            if equivalents[j, i]:
                graphs.append(_equivalent(equivalents, dag, j, i))
        differing = [[family for family in families_of(graph) if family != now[family[0]]] for graph in graphs]
        found.append([families for families in differing if all(_may_be(family, knowledge) for family in families)])
    return found


def _may_be(family: Family, knowledge: Knowledge) -> bool:
    child, parents = family
    return not parents & ~knowledge.allowed[child] and not knowledge.required[child] & ~parents


def _equivalent(cpdag: Graph, dag: Graph, cause: int, effect: int) -> Graph:
    """A DAG of the equivalence class with the edge cause -> effect, and otherwise near the given one."""
    graph = cpdag.copy()
    graph[effect, cause] = 0
    while True:
        graph = apply_meek_rules(graph)
        open_edges = np.argwhere(graph & graph.T & dag)
        if not len(open_edges):
            return graph
        i, j = open_edges[0]
        graph[j, i] = 0


def _turned(dag: Graph, cause: int, effect: int) -> Graph:
    graph = dag.copy()
    graph[cause, effect], graph[effect, cause] = 0, 1
    return graph


def _unsettled(dag: Graph, order: list[int], cause: int, effect: int) -> list[Family]:
    """The nodes that lose a parent by the effect's standing just before the cause, each with what is before it."""
    rest = [node for node in order if node != effect]
    place = rest.index(cause)
    questions, before = [], 0
    for node in [*rest[:place], effect, *rest[place:]]:
        parents = bits(np.flatnonzero(dag[:, node]).tolist())
        if node == cause or parents & ~before:
            questions.append((node, before))
        before |= 1 << node
    return questions


def _settled(dag: Graph, families: Iterable[Family]) -> Graph:
    """The graph with these families."""
    graph = dag.copy()
    for node, parents in families:
        graph[:, node] = 0
        graph[members(parents), node] = 1
    return graph
