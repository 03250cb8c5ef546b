"""Hill climbing with joint scores, from a graph that the order search has found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from feddag.learners.knowledge import Knowledge
from feddag.learners.node_sets import members
from feddag.learners.search.scores import LEAST_GAIN, Family, Scores, families_of


class _Change(NamedTuple):
    gain: float
    families: tuple[Family, ...]
    """The children whose parents change, with their new parents."""


def joint_score(scores: Scores, adjacency: Int8[np.ndarray, "node node"]) -> float:
    families = families_of(adjacency)
    scores.ask_joint(families)
    return sum(scores.joint[family] for family in families)


def refined(
    scores: Scores, knowledge: Knowledge, adjacency: Int8[np.ndarray, "node node"]
) -> Int8[np.ndarray, "node node"]:
    """Add, take away or reverse the edge that helps most, until none helps."""
    parents = [chosen for _, chosen in families_of(adjacency)]
    free = [allowed & ~required for allowed, required in zip(knowledge.allowed, knowledge.required, strict=True)]
    changed = range(scores.nodes)
    while True:
        scores.ask_joint(family for child in changed for family in _around(child, parents[child], free))
        best = max(_changes(scores, knowledge, parents), key=lambda change: change.gain, default=None)
        if best is None or best.gain <= LEAST_GAIN:
            break
        for child, chosen in best.families:
            parents[child] = chosen
        changed = [child for child, _ in best.families]
    found = np.zeros_like(adjacency)
    for child, chosen in enumerate(parents):
        found[members(chosen), child] = 1
    return found


def edge_scores(
    scores: Scores, knowledge: Knowledge, adjacency: Int8[np.ndarray, "node node"]
) -> Float[np.ndarray, "node node"]:
    """By how much each edge raises the log-evidence: those of the graph, and each that might be added to it."""
    found = np.zeros(adjacency.shape)
    families = families_of(adjacency)
    ancestors = _ancestors([chosen for _, chosen in families])
    scores.ask_joint(neighbour for family in families for neighbour in _around(*family, knowledge.allowed))
    for child, chosen in families:
        for _, parents in _around(child, chosen, knowledge.allowed):
            other = (parents ^ chosen).bit_length() - 1
            if other >= 0 and not ancestors[other] >> child & 1:
                without, having = sorted((parents, chosen), key=int.bit_count)
                found[other, child] = scores.rows * (scores.joint[child, without] - scores.joint[child, having])
    return found


def _around(child: int, parents: int, others: Sequence[int]) -> Iterator[Family]:
    """The family, and those that differ from it by one parent, each among those named for its child."""
    yield child, parents
    for other in members(others[child]):
        yield child, parents ^ 1 << other


def _changes(scores: Scores, knowledge: Knowledge, parents: list[int]) -> Iterator[_Change]:
    """All that leave the graph acyclic."""
    ancestors = _ancestors(parents)
    for child, chosen in enumerate(parents):
        now = scores.joint[child, chosen]
        for other in members(chosen & ~knowledge.required[child]):
            without = child, chosen & ~(1 << other)
            gain = now - scores.joint[without]
            yield _Change(gain, (without,))
            indirect = any(ancestors[between] >> other & 1 for between in members(without[1]))
            if knowledge.allowed[other] >> child & 1 and not indirect:
                reverse = other, parents[other] | 1 << child
                gain += scores.joint[other, parents[other]] - scores.joint[reverse]
                yield _Change(gain, (without, reverse))
        for other in members(knowledge.allowed[child] & ~chosen):
            if other != child and not ancestors[other] >> child & 1:
                family = child, chosen | 1 << other
                yield _Change(now - scores.joint[family], (family,))


def _ancestors(parents: list[int]) -> list[int]:
    """Of each node, as bits."""
    found = list(parents)
    growing = True
    while growing:
        growing = False
        for node, known in enumerate(found):
            more = known
            for other in members(known):
                more |= found[other]
            if more != known:
                found[node], growing = more, True
    return found
