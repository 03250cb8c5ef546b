"""What is known of the graph beforehand: edges that must be, edges that cannot be, and an order of tiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from feddag import parameters as must_be
from feddag.errors import FeddagError
from feddag.graphs.dag import is_dag
from feddag.learners.search.scores import bits

Edges = Sequence[tuple[str, str]]


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _are_lists_of_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_are_names(each) for each in value)


NAMES = must_be.Constraint("a list of names", _are_names)
TIERS = must_be.Constraint("a list of tiers, each a list of names", _are_lists_of_names)
EDGES = must_be.Constraint(
    "a list of (cause, effect) pairs of names",
    lambda value: _are_lists_of_names(value) and all(len(pair) == 2 for pair in value),
)


@dataclass(frozen=True)
class Knowledge:
    """Of each node, as bits: the parents it must have, those it may have, and the nodes that must precede it."""

    required: tuple[int, ...]
    allowed: tuple[int, ...]
    before: tuple[int, ...]

    @classmethod
    def of(cls, names: Sequence[str], required: Edges, forbidden: Edges, tiers: Sequence[Sequence[str]]) -> Self:
        """Refuses what contradicts itself.

        `tiers`: nothing in a later tier causes anything in an earlier one; variables in no tier are free.
        """
        must, cannot = _matrix(names, required, "required"), _matrix(names, forbidden, "forbidden")
        tier_of = _tiers(names, tiers)
        for i, later in tier_of.items():
            for j, earlier in tier_of.items():
                if later > earlier:
                    cannot[i, j] = True
        np.fill_diagonal(cannot, True)
        clash = np.argwhere(must & cannot)
        if len(clash):
            i, j = clash[0]
            raise FeddagError(
                f"The edge {names[i]} -> {names[j]} is required, and forbidden (or against the tiers). Leave out one."
            )
        if not is_dag(must):
            raise FeddagError("The required edges form a cycle. Leave out one of them.")
        closure = must.copy()
        for k in range(len(names)):
            closure |= np.outer(closure[:, k], closure[k])

        def columns(matrix: np.ndarray) -> tuple[int, ...]:
            return tuple(bits(np.flatnonzero(column).tolist()) for column in matrix.T)

        return cls(columns(must), columns(~cannot), columns(closure))


def _position(names: Sequence[str], name: str, parameter: str) -> int:
    if name not in names:
        raise FeddagError(f"{parameter} names {name!r}, which is no variable. There are {', '.join(names)}.")
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
