"""Sets of nodes as the bits of a number: quick to compare, and to keep as keys."""

from __future__ import annotations

from collections.abc import Iterable


def bits(members: Iterable[int]) -> int:
    return sum(1 << int(member) for member in members)


def members(nodes: int) -> list[int]:
    found = []
    while nodes:
        lowest = nodes & -nodes
        found.append(lowest.bit_length() - 1)
        nodes ^= lowest
    return found
