"""Whether a hidden common cause explains an edge as well as a direct effect does.

An edge i -> j that is surely there, with a sure direction, may still stand for a hidden common cause of i and j. Two
things rule that out:

- **The noise.** What the causes leave unexplained of i is independent of what they leave unexplained of j, and in the
  other direction the data are surely less likely. A hidden common cause is in both residuals. Effects that are straight
  lines with normal noise are as likely in both directions, so that this tells nothing about them.
- **Another cause.** Something points to i, has no edge to j, and tells about j unless i is known. If i and j had a hidden
  common cause, it would tell about j only once i is known.

Residuals that surely go together say that a hidden common cause is likely.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import networkx as nx
import numpy as np
from jaxtyping import Float

from feddag.learners.knowledge import Knowledge
from feddag.learners.search.directions import (
    LIKELY,
    RULED_OUT,
    Change,
    Directions,
    Edge,
    compare_changes,
    surely_worse,
)
from feddag.learners.search.refinement import Graph
from feddag.learners.search.scores import Scores, families_of

_INDEPENDENT = 1.3
"""Standard deviations beyond chance up to which residuals count as independent."""
_DEPENDENT = 3.0
"""Standard deviations beyond chance from which on residuals surely go together."""
_MOST_WITNESSES = 3
"""Further causes of a cause that are asked about it, those with the most evidence."""


class _Witness(NamedTuple):
    """A cause of an edge's cause without an edge to the effect."""

    node: int
    edge: Edge


def mark_confounding(
    dag: Graph,
    directions: Directions,
    together: Float[np.ndarray, "node node"],
    scores: Scores,
    knowledge: Knowledge,
    confidence: float,
) -> Directions:
    """Say for each edge whether a hidden common cause is ruled out, possible or likely; where it is likely, doubt it.

    Args:
        dag: The graph that was found.
        directions: The evidence of its edges.
        together: By how many standard deviations beyond chance residuals of an edge's variables go together.
        scores: Scores of families.
        knowledge: What is known of the graph.
        confidence: What rules a hidden common cause out must be sure by so much.
    """
    sure = [(each.cause, each.effect) for each in directions.evidence if each.present and each.directed]
    told_by_noise, telling = _ask(dag, sure, _witnesses(dag, directions, sure), scores, confidence)
    by_noise = {edge for edge in told_by_noise if together[edge] < _INDEPENDENT}
    likely = {(each.cause, each.effect) for each in directions.evidence if together[each.cause, each.effect] > _DEPENDENT}
    ruled_out = _follow(dag, sure, by_noise, {each for each in telling if each.edge not in likely}, knowledge)
    states = dict.fromkeys(ruled_out, RULED_OUT) | dict.fromkeys(likely, LIKELY)
    return directions.with_confounding(states, together, knowledge)


def _witnesses(dag: Graph, directions: Directions, sure: Collection[Edge]) -> list[_Witness]:
    """List for each edge the causes of its cause that have no edge to its effect, those with the most evidence."""
    adjacent = dag | dag.T
    evidence = {(each.cause, each.effect): each.absent for each in directions.evidence}
    found = []
    for i, j in sure:
        causes = [k for k, effect in sure if effect == i and not adjacent[k, j]]
        found += [_Witness(k, (i, j)) for k in sorted(causes, key=lambda k: -evidence[k, i])[:_MOST_WITNESSES]]
    return found


def _ask(
    dag: Graph, sure: list[Edge], witnesses: list[_Witness], scores: Scores, confidence: float
) -> tuple[set[Edge], set[_Witness]]:
    """Return the edges whose direction the noise tells, and the witnesses that tell about the effect."""
    if not sure:
        return set(), set()
    changes = [_turned(dag, *edge) for edge in sure] + [_without_witness(dag, each) for each in witnesses]
    compared, _ = compare_changes(scores, changes)
    told = [surely_worse(each.over_all, confidence) for each in compared]
    by_noise = {edge for edge, is_told in zip(sure, told, strict=False) if is_told}
    return by_noise, {each for each, is_told in zip(witnesses, told[len(sure) :], strict=True) if is_told}


def _turned(dag: Graph, cause: int, effect: int) -> Change:
    """Turn an edge while both its ends have the same other parents: independences do not change, and the noise tells.

    What the cause acts on is left out of these.
    """
    later = nx.descendants(nx.DiGraph(dag), cause) | {cause}
    others = sum(1 << int(node) for node in np.flatnonzero(dag[:, cause] | dag[:, effect]) if int(node) not in later)
    return {
        (effect, others): 1,
        (cause, others | 1 << effect): 1,
        (cause, others): -1,
        (effect, others | 1 << cause): -1,
    }


def _without_witness(dag: Graph, witness: _Witness) -> Change:
    """Explain the effect without its cause: once with the witness, and once without."""
    cause, effect = witness.edge
    others = families_of(dag)[effect][1] & ~(1 << cause)
    return {(effect, others): 1, (effect, others | 1 << witness.node): -1}


def _follow(
    dag: Graph, sure: Collection[Edge], by_noise: set[Edge], witnesses: set[_Witness], knowledge: Knowledge
) -> set[Edge]:
    """Return the edges that are no hidden common cause, by their noise or by a witness that surely points to the cause.

    It does so if this edge is no hidden common cause, if knowledge says so, or if another cause without an edge to the
    witness points there, too: then the two are independent, whatever is hidden.
    """
    adjacent = dag | dag.T
    ruled_out = set(by_noise)

    def points(witness: _Witness) -> bool:
        node, (cause, _) = witness
        meets = any(effect == cause and k != node and not adjacent[k, node] for k, effect in sure)
        return (node, cause) in ruled_out or meets or bool(knowledge.impossible[cause, node])

    while True:
        found = {each.edge for each in witnesses if each.edge not in ruled_out and points(each)}
        if not found:
            return ruled_out
        ruled_out |= found
