"""Hill climbing: with joint scores, from a graph that the order search has found, or with coarse ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from feddag.learners.bitsets import adjacency_of, bits, members, parents_of
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.batching import Key, Request, Routine, run, run_in_lockstep
from feddag.learners.search.scores import LEAST_GAIN, Family, Scores, families_of

Graph = Int8[np.ndarray, "node node"]
Gain = Callable[[Family, int], float]
"""By how much the score falls if this node is put into a family, or taken out of it."""


class _Change(NamedTuple):
    gain: float
    families: tuple[Family, ...]
    """The children whose parents change, with their new parents."""


def joint_score(scores: Scores, adjacency: Graph) -> float:
    """Return the joint score of a graph."""
    families = families_of(adjacency)
    scores.ask_joint(families)
    return sum(scores.joint[family] for family in families)


def refine(scores: Scores, knowledge: Knowledge, adjacency: Graph) -> Graph:
    """Add, take away or reverse the edge that helps most, until none helps."""
    return refine_each(scores, knowledge, {0: (adjacency, knowledge)})[0]


def refine_each(
    scores: Scores,
    knowledge: Knowledge,
    starts: Mapping[Key, tuple[Graph, Knowledge]],
    *,
    steps: int | None = None,
    rough: bool = False,
) -> dict[Key, Graph]:
    """Refine several graphs side by side, each under its own knowledge: what is known of all, and more.

    Args:
        scores: The scores.
        knowledge: What is known of all graphs.
        starts: The graphs, and what is known of each.
        steps: Climb so many steps at most.
        rough: Whether to climb by scores that take fewer numbers.
    """
    known, ask_for = (scores.rough, scores.ask_rough) if rough else (scores.joint, scores.ask_joint)
    free = [allowed & ~required for allowed, required in zip(knowledge.allowed, knowledge.required, strict=True)]
    others: dict[Family, int] = {}

    def ask(request: Request) -> None:
        families = [family for (family,) in request]
        others.update(_worth_joint_scores(families, free, scores))
        ask_for(near for family in families for near in _around(*family, others[family]))

    def gain(family: Family, other: int) -> float:
        if not others[family] >> other & 1:
            return -np.inf
        child, parents = family
        return known[family] - known[child, parents ^ 1 << other]

    climbs = {key: climb(its, graph, gain, steps=steps) for key, (graph, its) in starts.items()}
    return run(run_in_lockstep(climbs), ask)


def coarse_gain(scores: Scores) -> Gain:
    """Return the gain by coarse scores, of families whose neighbourhoods are known."""

    def gain(family: Family, other: int) -> float:
        near = scores.neighbourhood[family]
        return float(near[family[0]] - near[other])

    return gain


def climb(knowledge: Knowledge, adjacency: Graph, gain: Gain, *, steps: int | None = None) -> Routine[Graph]:
    """Add, take away or reverse the edge that helps most, until none helps, or so many times.

    Requests each family of the graph before it calls `gain` on it. Where columns are all but copies of each other,
    rounding may let two graphs each seem better than the other: the first graph that comes back is the last.
    """
    parents = parents_of(adjacency)
    changed: Iterable[int] = range(len(parents))
    seen: set[tuple[int, ...]] = set()
    while tuple(parents) not in seen:
        seen.add(tuple(parents))
        yield [[(child, parents[child])] for child in changed]
        helping = (change for change in _changes(knowledge, parents, gain) if change.gain > LEAST_GAIN)
        best = max(helping, key=lambda change: change.gain, default=None)
        if best is None or len(seen) - 1 == steps:
            break
        for child, chosen in best.families:
            parents[child] = chosen
        changed = [child for child, _ in best.families]
    return adjacency_of(parents)


def edge_scores(scores: Scores, knowledge: Knowledge, adjacency: Graph) -> Float[np.ndarray, "node node"]:
    """Measure by how much each edge raises the log-evidence: of the graph, and each that might be added to it."""
    found = np.zeros(adjacency.shape)
    families = families_of(adjacency)
    ancestors = _ancestors([chosen for _, chosen in families])
    others = _worth_joint_scores(families, knowledge.allowed, scores)
    scores.ask_joint(neighbour for family in families for neighbour in _around(*family, others[family]))
    for family in families:
        child, chosen = family
        for other in members(knowledge.allowed[child]):
            if ancestors[other] >> child & 1:
                continue
            if others[family] >> other & 1:
                gain = scores.joint[family] - scores.joint[child, chosen ^ 1 << other]
            else:
                gain = coarse_gain(scores)(family, other)
            found[other, child] = scores.rows * (-gain if chosen >> other & 1 else gain)
    return found


def _worth_joint_scores(families: Iterable[Family], allowed: Sequence[int], scores: Scores) -> dict[Family, int]:
    """Choose what to put into each family, or to take out: of many further parents those that quick scores find best.

    `allowed` are the nodes to choose from, for each child.
    """
    found = {(child, parents): allowed[child] for child, parents in families}
    many = [family for family, others in found.items() if (others & ~family[1]).bit_count() > scores.additions]
    scores.ask_neighbourhoods(many)
    for family in many:
        others, parents = found[family], family[1]
        near = scores.neighbourhood[family]
        best = sorted(members(others & ~parents), key=lambda other: near[other])[: scores.additions]
        found[family] = others & parents | bits(best)
    return found


def _around(child: int, parents: int, others: int) -> Iterator[Family]:
    """List the family, and those that differ from it by one of these parents."""
    yield child, parents
    for other in members(others):
        yield child, parents ^ 1 << other


def _changes(knowledge: Knowledge, parents: list[int], gain: Gain) -> Iterator[_Change]:
    """List all changes that leave the graph acyclic."""
    ancestors = _ancestors(parents)
    for child, chosen in enumerate(parents):
        family = child, chosen
        for other in members(chosen & ~knowledge.required[child]):
            without = child, chosen & ~(1 << other)
            yield _Change(gain(family, other), (without,))
            indirect = any(ancestors[between] >> other & 1 for between in members(without[1]))
            if knowledge.allowed[other] >> child & 1 and not indirect:
                reverse = other, parents[other] | 1 << child
                both = gain(family, other) + gain((other, parents[other]), child)
                yield _Change(both, (without, reverse))
        for other in members(knowledge.allowed[child] & ~chosen):
            if other != child and not ancestors[other] >> child & 1:
                yield _Change(gain(family, other), ((child, chosen | 1 << other),))


def _ancestors(parents: list[int]) -> list[int]:
    """Return the ancestors of each node, as bits."""
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
