"""What is known of the graph beforehand: edges that must be or cannot be, tiers, and variables without causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import networkx as nx
import numpy as np
from jaxtyping import Bool

from feddag import constraints
from feddag.errors import FeddagError
from feddag.graphs.dag import is_dag
from feddag.learners.bitsets import adjacency_of, parents_of

Edges = Sequence[tuple[str, str]]

CONSTRAINTS = {
    "required": constraints.edges,
    "forbidden": constraints.edges,
    "tiers": constraints.tiers,
    "exogenous": constraints.names,
}
"""What a learner's parameters of these names must be."""


@dataclass(frozen=True)
class Knowledge:
    """Node by node, as bits: the parents it must have, those it may have, and the nodes that must precede it."""

    required: tuple[int, ...]
    allowed: tuple[int, ...]
    before: tuple[int, ...]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        required: Edges,
        forbidden: Edges,
        tiers: Sequence[Sequence[str]],
        exogenous: Sequence[str] = (),
    ) -> Self:
        """Collect what is known, and refuse what contradicts itself.

        `tiers`: nothing in a later tier is a parent of anything in an earlier one; variables in no tier are free, and
        may stand between.
        `exogenous`: no variable causes these.
        """
        must, cannot = _matrix(names, required, "required"), _matrix(names, forbidden, "forbidden")
        tier_of = _tiers(names, tiers)
        for i, later in tier_of.items():
            for j, earlier in tier_of.items():
                if later > earlier:
                    cannot[i, j] = True
        cannot[:, [_position(names, name, "exogenous") for name in exogenous]] = True
        np.fill_diagonal(cannot, True)
        clash = np.argwhere(must & cannot)
        if len(clash):
            i, j = clash[0]
            raise FeddagError(
                f"The edge {names[i]} -> {names[j]} is required, and forbidden (or against the tiers, or into an "
                "exogenous variable). Leave out one."
            )
        if not is_dag(must):
            cycle = [names[int(edge[0])] for edge in nx.find_cycle(nx.DiGraph(must))]
            raise FeddagError(f"The required edges form a cycle: {' -> '.join([*cycle, cycle[0]])}. Leave out one.")
        closure = nx.to_numpy_array(nx.transitive_closure_dag(nx.DiGraph(must))) > 0
        return cls(*(tuple(parents_of(matrix)) for matrix in (must, ~cannot, closure)))

    def requiring(self, cause: int, effect: int) -> Self | None:
        """Require one more edge; return None if it is impossible."""
        if self.impossible[cause, effect]:
            return None
        required, earlier = list(self.required), self.before[cause] | 1 << cause
        required[effect] |= 1 << cause
        before = (
            known | earlier if node == effect or known >> effect & 1 else known
            for node, known in enumerate(self.before)
        )
        return replace(self, required=tuple(required), before=tuple(before))

    def admissible(self, order: Sequence[int]) -> list[int]:
        """Change an order so that required causes come first."""
        found: list[int] = []
        waiting, placed = list(order), 0
        while waiting:
            node = next(each for each in waiting if not self.before[each] & ~placed)
            waiting.remove(node)
            found.append(node)
            placed |= 1 << node
        return found

    @cached_property
    def certain(self) -> Bool[np.ndarray, "node node"]:
        """The edges that must be."""
        return adjacency_of(self.required).astype(bool)

    @cached_property
    def impossible(self) -> Bool[np.ndarray, "node node"]:
        """The edges that cannot be: ruled out by name, tier or kind, or against a path of edges that must be."""
        return (adjacency_of(self.allowed) == 0) | (adjacency_of(self.before).T == 1)

    @property
    def silent(self) -> bool:
        """Whether it says nothing about any edge."""
        nodes = len(self.allowed)
        return not any(self.required) and int(self.impossible.sum()) == nodes


def _position(names: Sequence[str], name: str, parameter: str) -> int:
    if name not in names:
        raise FeddagError(f"{parameter} names {name!r}, which is not a variable. There are {', '.join(names)}.")
    return list(names).index(name)


def _matrix(names: Sequence[str], edges: Edges, parameter: str) -> np.ndarray:
    matrix = np.zeros((len(names), len(names)), dtype=bool)
    for cause, effect in edges:
        i, j = _position(names, cause, parameter), _position(names, effect, parameter)
        if i == j and parameter == "required":
            raise FeddagError(f"required asks for an edge from {cause!r} to itself. Leave it out.")
        matrix[i, j] = True
    return matrix


def _tiers(names: Sequence[str], tiers: Sequence[Sequence[str]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, tier in enumerate(tiers):
        for name in tier:
            position = _position(names, name, "tiers")
            if found.get(position, number) != number:
                raise FeddagError(f"tiers has {name!r} in two tiers. Leave it in one.")
            found[position] = number
    return found
