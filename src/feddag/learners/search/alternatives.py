"""The best graphs in which an edge of a graph points the other way.

Such a graph may be one of the same equivalence class; the same graph with this edge reversed, where that makes no
cycle; one in which one of the two has moved past the other in the order, and those whom that concerns pick their
parents anew; what hill climbing makes of these while the edge stays reversed; or what was found so for another edge.
All that is by coarse scores, and of the best of these graphs, and of the first two always, the joint scores decide.

Then one graph leads to the next. Where a graph with one edge reversed is nearly as good, a further edge may be easy to
reverse in it that is hard to reverse in the first: a chain of effects turns round edge by edge. So each edge is
reversed in all graphs that are nearly as good, too, and joint scores climb from there, until that finds nothing better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, islice

import networkx as nx
import numpy as np

from feddag.graphs import apply_meek_rules, is_dag, to_cpdag
from feddag.learners.bitsets import members, parents_of
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.batching import run_in_lockstep
from feddag.learners.search.order_search import OrderSearch
from feddag.learners.search.refinement import Graph, climb, coarse_gain, refine_each
from feddag.learners.search.scores import LEAST_GAIN, Edge, Family, Scores, families_of

Families = tuple[Family, ...]
"""A graph, by the families in which it differs from another."""
_MOST_STEPS = 10
"""The largest number of hill climbing steps from a graph with a reversed edge: a step may cost a round."""
_JOINTLY_SCORED = 4
"""Graphs that have an edge reversed: of so many the joint scores decide."""
_NEARLY_AS_GOOD = 60.0
"""A graph whose log-evidence is less by so much is one from which others are reached."""
_MOST_NEAR, _MOST_CLIMBS, _MOST_ROUNDS = 8, 1, 3
"""So many such graphs, climbs for each edge, and times."""
_SLACK = 10.0
"""Rough scores may be off by so much."""
_AS_GOOD = 3.0
"""An edge that a graph reverses at so little cost is open: nothing better is looked for."""


def find_alternatives(dag: Graph, scores: Scores, search: OrderSearch, knowledge: Knowledge) -> dict[Edge, Families]:
    """Return for each edge the best graph, by joint scores, in which it points the other way, if one may be."""
    worse = _explore(dag, scores, search, knowledge)
    return {edge: best for edge in _edges(dag) if (best := _best(worse, [edge]))}


def find_better(dag: Graph, scores: Scores, search: OrderSearch, knowledge: Knowledge) -> Graph | None:
    """Return the best graph by joint scores that has an edge reversed, if it is better than this one."""
    worse = _explore(dag, scores, search, knowledge)
    best = _best(worse, _edges(dag))
    return _with_families(dag, best) if best and worse[best] < -LEAST_GAIN * scores.rows else None


def reverses(changes: Families, cause: int, effect: int) -> bool:
    """Say whether a graph with these families has the edge the other way."""
    return any(child == cause and parents >> effect & 1 for child, parents in changes)


def _edges(dag: Graph) -> list[Edge]:
    return [(int(i), int(j)) for i, j in np.argwhere(dag)]


def _best(worse: Mapping[Families, float], edges: Collection[Edge]) -> Families:
    """Return the least bad graph that reverses one of these edges; none where there is none."""
    having = (families for families in worse if any(reverses(families, *edge) for edge in edges))
    return min(having, key=worse.__getitem__, default=())


def _explore(dag: Graph, scores: Scores, search: OrderSearch, knowledge: Knowledge) -> dict[Families, float]:
    """Return graphs with reversed edges, and by how much log-evidence they are worse."""
    turned = {edge: known for edge in _edges(dag) if (known := knowledge.requiring(*edge[::-1])) is not None}
    if not turned:
        return {}
    worse = _worsening(dag, _by_coarse_scores(dag, turned, scores, search), scores)
    tried: set[tuple[Edge, Families]] = set()
    least: dict[Edge, float] = {}
    for _ in range(_MOST_ROUNDS):
        before, least = least, {edge: worse.get(_best(worse, [edge]), np.inf) for edge in turned}
        found_better = min(worse.values(), default=0.0) < -LEAST_GAIN * scores.rows
        if found_better or (before and all(least[edge] > before[edge] - 1 for edge in turned)):
            break
        near = sorted((each for each in worse if worse[each] < _NEARLY_AS_GOOD), key=worse.__getitem__)[:_MOST_NEAR]
        starts = {}
        for edge in turned:
            some = [each for each in near if (edge, each) not in tried] if least[edge] > _AS_GOOD else []
            tried |= {(edge, each) for each in some}
            graphs = [_with_families(dag, each) for each in some]
            starts[edge] = [_reverse_edge(graph, *edge) for graph in graphs if graph[edge]]
        worse |= _worsening(dag, _climb_from(starts, least, dag, scores, turned, knowledge), scores)
    return worse


def _climb_from(
    starts: Mapping[Edge, Sequence[Graph]],
    least: Mapping[Edge, float],
    dag: Graph,
    scores: Scores,
    turned: Mapping[Edge, Knowledge],
    knowledge: Knowledge,
) -> list[Families]:
    """Climb from the best of some graphs of each edge, while it stays reversed; return what may be the least bad yet.

    All that is by rough scores: how well sites' lines agree is asked of few graphs, since it takes many numbers.
    """
    admissible = {
        (edge, k): graph
        for edge, graphs in starts.items()
        for k, graph in enumerate(graphs)
        if is_admissible(graph, turned[edge])
    }
    differing = {key: _differing(graph, dag) for key, graph in admissible.items()}
    worse = _worsening(dag, differing.values(), scores, rough=True)
    ranked = sorted(admissible, key=lambda key: worse[differing[key]])
    chosen = [key for edge in turned for key in islice((each for each in ranked if each[0] == edge), _MOST_CLIMBS)]
    climbs = {key: (admissible[key], turned[key[0]]) for key in chosen}
    climbed = refine_each(scores, knowledge, climbs, steps=_MOST_STEPS, rough=True)
    found = {key: _differing(graph, dag) for key, graph in climbed.items()}
    worse = _worsening(dag, found.values(), scores, rough=True)
    return [families for (edge, _), families in found.items() if worse[families] < least[edge] + _SLACK]


def _worsening(dag: Graph, graphs: Iterable[Families], scores: Scores, *, rough: bool = False) -> dict[Families, float]:
    """Say by how much log-evidence graphs are worse than the first, by joint scores."""
    now, graphs = families_of(dag), list(graphs)
    known, ask = (scores.rough, scores.ask_rough) if rough else (scores.joint, scores.ask_joint)
    if graphs:
        ask([*now, *chain.from_iterable(graphs)])
    return {
        families: scores.rows * sum(known[family] - known[now[family[0]]] for family in families) for families in graphs
    }


def _differing(graph: Graph, dag: Graph) -> Families:
    """List the families in which a graph differs from another."""
    both = zip(families_of(graph), families_of(dag), strict=True)
    return tuple(family for family, before in both if family != before)


def _by_coarse_scores(
    dag: Graph, turned: Mapping[Edge, Knowledge], scores: Scores, search: OrderSearch
) -> list[Families]:
    """Find for each edge some of the best graphs, by coarse scores, in which it points the other way."""
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

    found = dict.fromkeys(_differing(graph, dag) for graph in (*chain.from_iterable(starts.values()), *climbed))
    ranked = sorted(found, key=worsening)
    best = (islice((each for each in ranked if reverses(each, *edge)), _JOINTLY_SCORED) for edge in turned)
    nearest = (_differing(graph, dag) for edge, known in turned.items() for graph in _nearest(dag, edge, known))
    return list(dict.fromkeys(chain(nearest, chain.from_iterable(best))))


def _nearest(dag: Graph, edge: Edge, known: Knowledge) -> list[Graph]:
    """Return the graph with an edge reversed, and one of its equivalence class that has the edge so.

    Joint scores decide of these whatever coarse ones say, which know no effects of several causes together.
    """
    (i, j), equivalents = edge, to_cpdag(dag)
    graphs = [_reverse_edge(dag, i, j)]
    if equivalents[j, i]:
        graphs.append(equivalent_dag(equivalents, dag, j, i))
    return [graph for graph in graphs if is_admissible(graph, known)]


def _starts(dag: Graph, turned: Mapping[Edge, Knowledge], search: OrderSearch) -> dict[Edge, list[Graph]]:
    """Construct for each edge that may be reversed some graphs in which it is."""
    order = list(nx.lexicographical_topological_sort(nx.DiGraph(dag)))
    anew = {
        edge: [_questions_of(dag, moved, edge[0]) for moved in _move(order, *edge, known)]
        for edge, known in turned.items()
    }
    questions = [question for each in anew.values() for asked in each for question in asked]
    picked = dict(zip(questions, search.pick(questions), strict=True))
    found = {}
    for (i, j), known in turned.items():
        moved = (_with_families(dag, [picked[question] for question in asked]) for asked in anew[i, j])
        graphs = [graph for each in moved if is_admissible(graph := _with_edge(each, j, i), known)]
        found[i, j] = [*graphs, *_nearest(dag, (i, j), known)]
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
