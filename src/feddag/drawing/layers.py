"""The layers of a drawing: which node is in which, in what order within it, and where each of them stands.

The steps, and where they are from, are in `feddag.drawing.layout`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

NODE_HEIGHT = 34.0
BETWEEN_NODES = 26.0
_BESIDE_DUMMY, _BETWEEN_DUMMIES = 16.0, 11.0
_BETWEEN_LAYERS, _MOST_BETWEEN_LAYERS = 52.0, 150.0
_SWEEPS, _PLACING_SWEEPS = 24, 60

Edge = tuple[int, int]
Adjacency = NDArray[np.int8]


def acyclic(adjacency: Adjacency) -> tuple[list[Edge], set[Edge]]:
    """Turn edges so that none closes a cycle; return all edges, and those that were turned.

    An undirected edge goes along the order of the others, and is never turned: it has no direction.
    """
    directed = [(int(i), int(j)) for i, j in np.argwhere((adjacency == 1) & (adjacency.T == 0))]
    undirected = [(int(i), int(j)) for i, j in np.argwhere(np.triu(adjacency & adjacency.T))]
    position = _positions(len(adjacency), directed)
    along = {edge for edge in directed if position[edge[0]] < position[edge[1]]}
    turned = {(j, i) for i, j in directed if (i, j) not in along}
    open_ends = {(i, j) if position[i] < position[j] else (j, i) for i, j in undirected}
    return sorted(along | turned | open_ends), turned


def _positions(nodes: int, edges: Sequence[Edge]) -> list[int]:
    """Order nodes along the edges; in a cycle, go on with the node that has the most children left."""
    children: list[list[int]] = [[] for _ in range(nodes)]
    waiting = [0] * nodes
    for i, j in edges:
        children[i].append(j)
        waiting[j] += 1
    ready = [node for node in range(nodes) if not waiting[node]]
    heapify(ready)
    position: dict[int, int] = {}
    while len(position) < nodes:
        if not ready:
            left = [node for node in range(nodes) if node not in position]
            ready = [max(left, key=lambda node: (len(children[node]) - waiting[node], -node))]
        node = heappop(ready)
        if node in position:
            continue
        position[node] = len(position)
        for child in children[node]:
            waiting[child] -= 1
            if not waiting[child] and child not in position:
                heappush(ready, child)
    return [position[node] for node in range(nodes)]


def layers(nodes: int, edges: Sequence[Edge]) -> list[int]:
    """Assign layers by longest path, then move each node as near to its neighbours as the layers allow."""
    parents: list[list[int]] = [[] for _ in range(nodes)]
    children: list[list[int]] = [[] for _ in range(nodes)]
    for i, j in edges:
        children[i].append(j)
        parents[j].append(i)
    position = _positions(nodes, edges)
    order = sorted(range(nodes), key=position.__getitem__)
    most = max(6, round(1.6 * math.sqrt(nodes)))
    layer, room = [0] * nodes, dict.fromkeys(range(2 * nodes), most)
    for node in order:
        level = max((layer[parent] + 1 for parent in parents[node]), default=0)
        while not room[level]:
            level += 1
        layer[node] = level
        room[level] -= 1
    moved = True
    while moved:  # every move shortens the edges in all, so this ends
        moved = False
        for node in reversed(order):
            pull = len(children[node]) - len(parents[node])
            if pull > 0:
                levels = range(min(layer[child] for child in children[node]) - 1, layer[node], -1)
            elif pull < 0:
                levels = range(max(layer[parent] for parent in parents[node]) + 1, layer[node])
            else:
                continue
            level = next((level for level in levels if room[level]), None)
            if level is not None:
                room[layer[node]] += 1
                room[level] -= 1
                layer[node], moved = level, True
    used = {level: k for k, level in enumerate(sorted(set(layer)))}
    return [used[level] for level in layer]


def chains_of(layer: list[int], edges: Sequence[Edge]) -> tuple[dict[Edge, list[int]], list[int]]:
    """Return the places that each edge passes, one per layer, and the layer of every place: nodes, then dummies."""
    layer_of, chains = list(layer), {}
    for i, j in edges:
        dummies = range(len(layer_of), len(layer_of) + layer[j] - layer[i] - 1)
        layer_of += range(layer[i] + 1, layer[j])
        chains[i, j] = [i, *dummies, j]
    return chains, layer_of


class Levels:
    """The places of each layer, from left to right."""

    def __init__(self, layer_of: list[int], chains: dict[Edge, list[int]]) -> None:
        self.above: list[list[int]] = [[] for _ in layer_of]
        self.below: list[list[int]] = [[] for _ in layer_of]
        for chain in chains.values():
            for one, other in pairwise(chain):
                self.below[one].append(other)
                self.above[other].append(one)
        self.rows: list[list[int]] = [[] for _ in range(max(layer_of) + 1)]
        for place in self._by_depth():
            self.rows[layer_of[place]].append(place)

    def _by_depth(self) -> list[int]:
        """Order places depth first, so that connected ones begin side by side."""
        seen: dict[int, None] = {}
        for root in range(len(self.above)):
            stack = [root]
            while stack:
                place = stack.pop()
                if place not in seen:
                    seen[place] = None
                    stack += [*reversed(self.above[place]), *reversed(self.below[place])]
        return list(seen)

    @cached_property
    def _column(self) -> list[int]:
        column = [0] * len(self.above)
        for row in self.rows:
            for k, place in enumerate(row):
                column[place] = k
        return column

    def _set(self, level: int, row: list[int]) -> None:
        self.rows[level] = row
        for k, place in enumerate(row):
            self._column[place] = k

    def reduce_crossings(self) -> None:
        """Sort layers by the middle of their neighbours, to and fro, and exchange neighbours; the best order stays."""
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(_SWEEPS):
            if not fewest:
                break
            downwards = sweep % 2 == 0
            neighbours = self.above if downwards else self.below
            for level in range(len(self.rows))[:: 1 if downwards else -1]:
                self._sort(level, neighbours, median=sweep % 4 < 2)
            self._exchange()
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        for level, row in enumerate(best):
            self._set(level, row)

    def _sort(self, level: int, neighbours: list[list[int]], *, median: bool) -> None:
        row, column = self.rows[level], self._column
        key = {}
        for place in row:
            at = sorted(column[each] for each in neighbours[place])
            if not at:
                key[place] = float(column[place])
            elif median:
                key[place] = (at[(len(at) - 1) // 2] + at[len(at) // 2]) / 2
            else:
                key[place] = sum(at) / len(at)
        self._set(level, sorted(row, key=lambda place: (key[place], column[place])))

    def _exchange(self) -> None:
        for level in range(len(self.rows)):
            row, changed = list(self.rows[level]), True
            for _ in range(len(row)):
                if not changed:
                    break
                changed = False
                for k in range(len(row) - 1):
                    one, other = row[k], row[k + 1]
                    if self._gain(one, other) > 0:
                        row[k], row[k + 1], changed = other, one, True
            self._set(level, row)

    def _gain(self, one: int, other: int) -> int:
        """Return how many crossings go if two neighbours in a layer change places."""
        column, gain = self._column, 0
        for neighbours in (self.above, self.below):
            for a in neighbours[one]:
                for b in neighbours[other]:
                    gain += (column[a] > column[b]) - (column[a] < column[b])
        return gain

    def _crossings(self) -> int:
        """Count the pairs of edges between two layers whose ends are in opposite order."""
        count = 0
        for row in self.rows[:-1]:
            ends = [end for place in row for end in sorted(self._column[each] for each in self.below[place])]
            count += _inversions(ends)
        return count


def _inversions(values: list[int]) -> int:
    """Count the pairs that stand in falling order."""
    seen: list[int] = []
    count = 0
    for value in values:
        place = bisect_right(seen, value)
        count += len(seen) - place
        seen.insert(place, value)
    return count


def across(levels: Levels, thickness: Float[np.ndarray, "place"], real: int) -> Float[np.ndarray, "place"]:
    """Place nodes as near to the mean of their neighbours as the order in a layer allows; keep long edges straight.

    Keeping the order and the distances is an isotonic regression, which is exact for each layer.
    """
    x = np.zeros(len(thickness))
    offsets = []
    for row in levels.rows:
        is_node = np.array(row) < real
        gaps = np.where(
            is_node[:-1] & is_node[1:],
            BETWEEN_NODES,
            np.where(is_node[:-1] | is_node[1:], _BESIDE_DUMMY, _BETWEEN_DUMMIES),
        )
        half = thickness[row] / 2
        offset = np.concatenate([[0.0], np.cumsum(half[:-1] + half[1:] + gaps)])
        offsets.append(offset)
        x[row] = offset - offset[-1] / 2

    def weight(one: int, other: int) -> float:
        return (1.0, 2.0, 8.0)[(one >= real) + (other >= real)]

    above = [[(each, weight(place, each)) for each in each_above] for place, each_above in enumerate(levels.above)]
    below = [[(each, weight(place, each)) for each in each_below] for place, each_below in enumerate(levels.below)]
    both = [one + other for one, other in zip(above, below, strict=True)]
    for sweep in range(_PLACING_SWEEPS):
        downwards = sweep % 2 == 0
        joint = sweep >= _PLACING_SWEEPS // 3
        for level in range(len(levels.rows))[:: 1 if downwards else -1]:
            row, offset = levels.rows[level], offsets[level]
            wanted, weights = np.empty(len(row)), np.empty(len(row))
            for k, place in enumerate(row):
                pulls = both[place] if joint else (above if downwards else below)[place]
                total = sum(pull for _, pull in pulls)
                wanted[k] = sum(x[each] * pull for each, pull in pulls) / total if total else x[place]
                weights[k] = total or 0.01
            x[row] = isotonic_regression(wanted - offset, weights=weights).x + offset
    return x


def down(levels: Levels, x: Float[np.ndarray, "place"]) -> Float[np.ndarray, "place"]:
    """Place the layers; the wider edges reach, the further apart."""
    y, at = np.zeros(len(x)), NODE_HEIGHT / 2
    for row in levels.rows:
        y[row] = at
        reach = max((abs(x[place] - x[each]) for place in row for each in levels.below[place]), default=0.0)
        crowd = sum(len(levels.below[place]) for place in row)
        between = min(_BETWEEN_LAYERS + 0.10 * reach + 0.8 * crowd, _MOST_BETWEEN_LAYERS)
        at += NODE_HEIGHT + between
    return y
