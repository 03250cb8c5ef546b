"""Which directions rest on independences alone, and whether these are sure.

Straight lines with normal noise, and tables of levels, tell a direction by two causes of one effect that are
independent, and by what follows from such. So a direction is open if one of these edges may not be there, or if the
causes may depend on each other, if only a little: the evidence leaves a weak edge out for long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import networkx as nx
import numpy as np

from feddag.graphs import apply_meek_rules
from feddag.learners.bitsets import parents_of
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.refinement import Graph
from feddag.learners.search.scores import Edge, Pair, Scores

SUSPECT = 1.2
"""Two variables may depend on each other if they seem to by so many standard deviations more than by chance."""


class ToldOtherwise(NamedTuple):
    """What tells directions beside independences."""

    discrete: Sequence[int]
    targets: Sequence[int]
    """Variables that experiments set at some site."""
    knowledge: Knowledge
    alone: Collection[Edge]
    """Edges whose directions are sure without what independences say."""

    def tells(self, cause: int, effect: int) -> bool:
        """Say whether numbers, experiments or knowledge tell the direction of an edge."""
        if self.knowledge.impossible[effect, cause]:
            return True
        discrete = len({cause, effect} & {*self.discrete})
        if not discrete:
            return (cause, effect) in self.alone
        return discrete == 1 or bool({cause, effect} & {*self.targets})


def find_contradictions(dag: Graph, edges: Collection[Edge], scores: Scores, least: float) -> set[Edge]:
    """Return the edges whose cause tells nothing about the effect, unless another cause of it is known.

    Only paths that cancel each other would explain that; or that other cause is the effect of both, and the edge none.

    Args:
        dag: The graph that was found.
        edges: Those of its edges to look at.
        scores: What asks sites.
        least: The log-evidence by which a cause must tell about its effect.
    """
    adjacent, parents = dag | dag.T, parents_of(dag)
    asked = [
        ((k, j), (j, parents[j] & ~(1 << i)), (j, parents[j] & ~(1 << i) & ~(1 << k)))
        for k, j in edges
        for i in np.flatnonzero(dag[:, j] & adjacent[:, k]).tolist()
    ]
    scores.ask_joint(family for _, *both in asked for family in both)
    return {
        edge for edge, family, without in asked if scores.rows * (scores.joint[without] - scores.joint[family]) < least
    }


def suspected(dag: Graph, graph: Graph, told: ToldOtherwise, scores: Scores) -> list[Edge]:
    """Return the pairs without an edge, but with a neighbour in common, that may depend on each other.

    Args:
        dag: The graph that was found.
        graph: The same with open directions.
        told: What tells directions otherwise.
        scores: What asks sites.
    """
    rests = np.zeros_like(dag)
    for i, j in np.argwhere(graph & ~graph.T & 1).tolist():
        rests[i, j] = rests[j, i] = not told.tells(i, j)
    pairs = list(_unshielded(dag, rests))
    excess = scores.dependences(pairs)
    return [(one, other) for (one, other, _), found in zip(pairs, excess, strict=True) if found > SUSPECT]


def _unshielded(dag: Graph, rests: Graph) -> Iterable[Pair]:
    """List pairs without an edge that both have one to the same third variable, and what makes them independent.

    One of these edges at least rests on independences.
    """
    adjacent, graph = dag | dag.T, nx.DiGraph(dag)
    for one, other in combinations(range(len(dag)), 2):
        if not adjacent[one, other] and (adjacent[one] & adjacent[other] & (rests[one] | rests[other])).any():
            given = sum(1 << node for node in nx.find_minimal_d_separator(graph, {one}, {other}) or ())
            yield other, one, given


def told_by_independences(
    graph: Graph, doubtful: Collection[Edge], dependent: Iterable[Edge], otherwise: ToldOtherwise
) -> Graph:
    """Leave directions open that nothing else tells, unless independences surely do.

    Args:
        graph: The graph with open directions.
        doubtful: Edges that may not be there.
        dependent: Pairs without an edge that may have one.
        otherwise: What tells directions beside independences.
    """
    edges, maybe = graph | graph.T, np.zeros_like(graph)
    for one, other in dependent:
        maybe[one, other] = maybe[other, one] = 1
    told = edges.copy()
    directed = [(int(i), int(j)) for i, j in np.argwhere(graph & ~graph.T & 1)]
    causes = {j: [i for i, effect in directed if effect == j and (i, j) not in doubtful] for _, j in directed}
    for i, j in directed:
        by_causes = (i, j) not in doubtful and any(k != i and not (edges | maybe)[i, k] for k in causes[j])
        if by_causes or otherwise.tells(i, j):
            told[j, i] = 0
    # whether or not any of these edges is there
    told = apply_meek_rules(told) | apply_meek_rules(told | maybe) | apply_meek_rules(_without(told, doubtful))
    return graph | graph.T & told


def _without(graph: Graph, edges: Iterable[Edge]) -> Graph:
    graph = graph.copy()
    for i, j in edges:
        graph[i, j] = graph[j, i] = 0
    return graph
