"""From the graph that the search found to a partial ancestral graph (PAG): what holds whoever may be hidden.

In the manner of GFCI (Ogarrio, Spirtes and Ramsey 2016): the search gives the pairs that are joined, and which sets of
variables separate the others. A hidden common cause of two variables makes a search that assumes there is none add
edges to both, so each pair that has a neighbour in common is asked once more whether few of their neighbours separate
it. Two variables are independent given a set if the evidence of both surely falls when the other is added to the set: a
difference of two scores. FCI's rules then turn circles into arrows and tails. Where the noise tells that an edge is no
hidden common cause, this is given to the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations

import networkx as nx
import numpy as np

from feddag.graphs.ancestral import apply_fci_rules, orient_colliders
from feddag.graphs.marks import ARROW, CIRCLE, NONE, TAIL, Marks
from feddag.learners.bitsets import members
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.directions import RULED_OUT, Directions, Edge
from feddag.learners.search.refinement import Graph
from feddag.learners.search.scores import Family, Scores

_LARGEST_SET = 3
"""Neighbours that together may separate a pair."""
_SURELY_DEPENDENT = 20.0
"""Log-evidence by quick regressions from which on full ones are not asked whether a pair depends."""
_SURELY_INDEPENDENT = 3.0
"""Log-evidence that must speak against dependence: odds of 20 to 1."""

Separators = dict[frozenset[int], list[int]]
_Test = tuple[Edge, int]
"""A pair and the set that may separate it, as bits."""


def find_pag(
    dag: Graph, directions: Directions, absent: Collection[Edge], scores: Scores, knowledge: Knowledge
) -> Marks:
    """Return the PAG of what the search found, without the edges that are `absent`."""
    adjacent, separators = dag | dag.T, separators_of(dag)
    ruled_out = [(each.cause, each.effect) for each in directions.evidence if each.confounding == RULED_OUT]
    causes = [*ruled_out, *known_causes(knowledge)]
    separated = _separate_more(adjacent, causes, scores)
    separators |= separated
    for i, j in map(sorted, separated):
        adjacent[i, j] = adjacent[j, i] = 0
    marks = orient(adjacent, separators, causes, knowledge)
    for i, j in absent:  # they count until here, since nothing is known to separate them
        marks[i, j] = marks[j, i] = NONE
    return marks


def orient(adjacent: Graph, separators: Separators, causes: Iterable[Edge], knowledge: Knowledge) -> Marks:
    """Return the marks that follow by FCI's rules from what is joined, what is separated, and causes that are sure."""
    marks = np.where(adjacent, CIRCLE, NONE).astype(np.int8)
    for i, j in causes:
        if adjacent[i, j]:
            marks[i, j], marks[j, i] = ARROW, TAIL
    marks[(marks == CIRCLE) & knowledge.impossible.T.astype(bool)] = ARROW
    return apply_fci_rules(orient_colliders(marks, separators), separators)


def known_causes(knowledge: Knowledge) -> list[Edge]:
    """List the edges that are required."""
    return [(i, j) for j, parents in enumerate(knowledge.required) for i in members(parents)]


def separators_of(dag: Graph) -> Separators:
    """Return what separates each pair without an edge in the graph: the parents of the later one."""
    place = {node: k for k, node in enumerate(nx.lexicographical_topological_sort(nx.DiGraph(dag)))}
    found: Separators = {}
    for pair in combinations(range(len(dag)), 2):
        earlier, later = sorted(pair, key=place.__getitem__)
        parents = np.flatnonzero(dag[:, later]).tolist()
        found[frozenset(pair)] = [node for node in parents if node != earlier]
    return found


def _separate_more(adjacent: Graph, causes: Iterable[Edge], scores: Scores) -> Separators:
    """Find pairs with a neighbour in common that few neighbours separate, small sets first; leave out sure causes.

    Effects along several paths cancel by chance, given one set or another.
    """
    adjacent, found = adjacent.copy(), {}
    kept = {frozenset(edge) for edge in causes}
    for size in range(_LARGEST_SET + 1):
        tests = [test for test in dict.fromkeys(_tests(adjacent, size)) if frozenset(test[0]) not in kept]
        independent = _judge(tests, scores)
        for (i, j), given in independent:
            if frozenset((i, j)) not in found:
                found[frozenset((i, j))] = members(given)
                adjacent[i, j] = adjacent[j, i] = 0
    return found


def _tests(adjacent: Graph, size: int) -> Iterable[_Test]:
    """List the sets of so many neighbours of either variable that may separate each pair."""
    for i, j in np.argwhere(np.triu(adjacent)).tolist():
        if not (adjacent[i] & adjacent[j]).any():
            continue
        for node in (i, j):
            near = [k for k in np.flatnonzero(adjacent[node]).tolist() if k not in (i, j)]
            for chosen in combinations(near, size):
                yield (i, j), sum(1 << k for k in chosen)


def _judge(tests: list[_Test], scores: Scores) -> list[_Test]:
    """Return the tests that find independence, the clearest first: by quick regressions, then by full ones."""
    scores.ask_neighbourhoods((node, given) for pair, given in tests for node in pair)

    def quick(pair: Edge, given: int) -> float:
        i, j = pair
        near = scores.neighbourhood
        gains = near[i, given][i] - near[i, given][j], near[j, given][j] - near[j, given][i]
        return scores.rows * float(max(gains))

    unsure = [test for test in tests if quick(*test) < _SURELY_DEPENDENT]
    families: list[Family] = []
    for (i, j), given in unsure:
        families += [(i, given), (i, given | 1 << j), (j, given), (j, given | 1 << i)]
    scores.ask_joint(families)

    def gain(pair: Edge, given: int) -> float:
        i, j = pair
        joint = scores.joint
        gains = joint[i, given] - joint[i, given | 1 << j], joint[j, given] - joint[j, given | 1 << i]
        return scores.rows * max(gains)

    gains = {test: gain(*test) for test in unsure}
    return sorted((test for test, found in gains.items() if found < -_SURELY_INDEPENDENT), key=gains.__getitem__)
