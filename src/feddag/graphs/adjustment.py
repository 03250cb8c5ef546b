"""Which observed variables to adjust for, where hidden common causes are possible.

By the generalised adjustment criterion: Perković, Textor, Kalisch and Maathuis, "Complete graphical characterization
and construction of adjustment sets in Markov equivalence classes of ancestral graphs", JMLR 2018. If any set of
observed variables serves, the one that is returned here does. A graph with circles is read as a PAG, any other as an
ADMG.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from feddag.errors import FeddagError
from feddag.graphs import dag
from feddag.graphs.ancestral import separated
from feddag.graphs.causal_graph import CausalGraph
from feddag.graphs.extension import dag_extension
from feddag.graphs.marks import ARROW, CIRCLE, NONE, TAIL, Marks, adjacency_of, admg_marks, bidirected_of

Reach = NDArray[np.bool_]


class NotIdentifiedError(FeddagError):
    """The graph does not say how to compute an effect from the observed variables."""


def adjustment_set(graph: CausalGraph, cause: str, effect: str) -> list[str]:
    """Return variables that tell the effect of one variable on another, if rows are compared that agree in them.

    Raises:
        NotIdentifiedError: No set of observed variables does. The message names the pair that stands in the way.

    Examples:
        >>> import feddag
        >>> from feddag.graphs import adjustment_set
        >>> graph = feddag.CausalGraph([[0, 1, 1], [0, 0, 1], [0, 0, 0]], ["age", "dose", "pain"])
        >>> adjustment_set(graph, "dose", "pain")
        ['age']
    """
    marks, names = graph.marks, graph.names
    x, y = names.index(cause), names.index(effect)
    onward = may_act(marks)
    after_cause = onward.copy()
    after_cause[:, x] = False  # proper paths leave the cause once, and do not return
    between = _reaches(after_cause)[:, y] & _reaches(after_cause)[x]
    between[x] = False
    _refuse_open_edges(graph, x, between, cause, effect)

    forbidden = _reaches(onward)[between].any(axis=0)
    before = _reaches(onward)
    given = (before[:, x] | before[:, y]) & ~forbidden
    given[[x, y]] = False
    kept = [int(node) for node in np.flatnonzero(given)]
    rest = _without_effects(_one_admg(marks), x, between)
    if not separated(rest, x, y, kept):
        if not between.any():
            raise NotIdentifiedError(
                f"By the graph, {cause!r} does not act on {effect!r}: the effect is 0. No regression checks it, "
                "because other paths join them whatever is adjusted for."
            )
        one, other = _in_the_way(rest, x, y, kept)
        raise NotIdentifiedError(
            f"The effect of {cause!r} on {effect!r} is not identified, because {names[one]} <-> {names[other]} share a "
            "hidden cause, and no set of the observed variables makes up for it. Measure that cause, or do an "
            f"experiment on {cause!r}."
        )
    return [names[node] for node in kept]


def is_visible(marks: Marks, cause: int, effect: int) -> bool:
    """Say whether an edge -> of a PAG or MAG excludes a hidden common cause of its two ends (Zhang 2008).

    It does if some variable that is not adjacent to the effect has an edge into the cause, or a path of colliders into
    it which all are parents of the effect.
    """
    seen, front = {cause, effect}, [cause]
    while front:
        node = front.pop()
        for before in np.flatnonzero(marks[:, node] == ARROW).tolist():
            if before in seen:
                continue
            if marks[before, effect] == NONE:
                return True
            seen.add(before)
            is_parent = marks[effect, before] == TAIL and marks[before, effect] == ARROW
            if is_parent and marks[node, before] == ARROW:
                front.append(before)
    return False


def may_act(marks: Marks) -> Reach:
    """Say for which pairs the first may act on the second: no arrow at the first alone, and no tail at the second."""
    here, there = marks.T, marks
    return (there != NONE) & (here != ARROW) & (there != TAIL)


def _reaches(onward: Reach) -> Reach:
    """Say for each pair whether a path, also one of no edge, leads from the first to the second."""
    return np.array([dag.reachable(onward, node) for node in range(len(onward))]) | np.eye(len(onward), dtype=bool)


def _refuse_open_edges(graph: CausalGraph, x: int, between: Reach, cause: str, effect: str) -> None:
    """Raise if a path that may be causal begins with an edge that may be confounded, or is not directed."""
    marks, names = graph.marks, graph.names
    if graph.undirected_edges:
        one, other = graph.undirected_edges[0]
        raise NotIdentifiedError(
            f"The effect of {cause!r} on {effect!r} is not identified, because {one} -- {other} has no direction. "
            "Direct it by knowledge (required or forbidden edges)."
        )
    if not (marks == CIRCLE).any():
        return
    for node in np.flatnonzero(between & may_act(marks)[x]).tolist():
        if marks[node, x] != TAIL or not is_visible(marks, x, node):
            edge = graph.subgraph((names[x], names[node])).marked_edges[0]
            raise NotIdentifiedError(
                f"The effect of {cause!r} on {effect!r} is not identified, because a hidden common cause may explain "
                f"{edge}, in part or in all. Measure it, or do an experiment on {cause!r}."
            )


def _one_admg(marks: Marks) -> Marks:
    """Return a graph without circles that a PAG stands for: o-> becomes ->, and o-o no collider."""
    found = marks.copy()
    open_ = (marks == CIRCLE) & (marks.T == CIRCLE)
    directed = dag_extension(open_).astype(bool)
    found[open_] = np.where(directed, ARROW, TAIL)[open_]
    found[found == CIRCLE] = TAIL
    return found


def _without_effects(marks: Marks, x: int, between: Reach) -> Marks:
    """Leave out the edges from x with which causal paths begin; an edge <-> beside one stays."""
    causes = adjacency_of(marks)
    causes[x, between] = 0
    return admg_marks(causes, bidirected_of(marks))


def _in_the_way(marks: Marks, x: int, y: int, given: list[int]) -> tuple[int, int]:
    """Find an edge <-> whose absence would help; else the first at the cause or, if it has none, of all."""
    joined = bidirected_of(marks)
    pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(joined))]
    for i, j in pairs:
        without = joined.copy()
        without[i, j] = without[j, i] = 0
        if separated(admg_marks(adjacency_of(marks), without), x, y, given):
            return i, j
    return next((pair for pair in pairs if x in pair), pairs[0] if pairs else (x, y))
