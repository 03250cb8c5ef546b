"""Sets of nodes as the bits of a number: quick to compare, and to keep as keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int8


def bits(members: Iterable[int]) -> int:
    """Return a set of nodes as the bits of a number."""
    return sum(1 << int(member) for member in members)


def members(nodes: int) -> list[int]:
    """List the nodes of a set, smallest first."""
    found = []
    while nodes:
        lowest = nodes & -nodes
        found.append(lowest.bit_length() - 1)
        nodes ^= lowest
    return found


def parents_of(adjacency: np.ndarray) -> list[int]:
    """Return the set of parents of each node."""
    return [bits(np.flatnonzero(column).tolist()) for column in adjacency.T]


def adjacency_of(parents: Sequence[int]) -> Int8[np.ndarray, "node node"]:
    """Return the graph in which each node has these parents."""
    adjacency = np.zeros((len(parents), len(parents)), dtype=np.int8)
    for child, chosen in enumerate(parents):
        adjacency[members(chosen), child] = 1
    return adjacency
