"""Where to draw the nodes and edges of a graph: in layers, causes above their effects.

The steps are those of Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system structures",
1981): layers by longest path, dummy nodes where an edge passes a layer, fewer crossings by sweeps over the layers, and
then the places within each layer. An edge keeps to its dummies' places, so that it never runs through a node. Equal
graphs give equal drawings.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Protocol

import networkx as nx
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

NODE_HEIGHT = 34.0
FONT_SIZE = 14.0
LONGEST_LABEL = 24
"""Characters; of a longer name the drawing shows the beginning and the end."""

_BETWEEN_NODES, _BESIDE_DUMMY, _BETWEEN_DUMMIES = 26.0, 16.0, 11.0
_BETWEEN_LAYERS, _MOST_BETWEEN_LAYERS = 52.0, 150.0
_BETWEEN_COMPONENTS = 48.0
_BETWEEN_ENDS, _BESIDE_ENDS = 15.0, 13.0
_MARGIN = 16.0
_WIDEST = 260.0
_SWEEPS, _PLACING_SWEEPS = 24, 60
_NARROW, _BROAD = frozenset("iIjl.,:;'|!()[]ft "), frozenset("mwMW@%&")

Edge = tuple[int, int]
Adjacency = NDArray[np.int8]


class MarkedEdge(Protocol):
    """An edge with what stands at each of its ends: "tail", "arrow" or "circle"."""

    @property
    def source(self) -> str:
        """Return one end."""
        ...

    @property
    def target(self) -> str:
        """Return the other end."""
        ...

    @property
    def at_source(self) -> str:
        """Return the mark at the source."""
        ...

    @property
    def at_target(self) -> str:
        """Return the mark at the target."""
        ...

    @property
    def symbol(self) -> str:
        """Return the arrow that people read."""
        ...


class Graph(Protocol):
    """What can be drawn: a `feddag.CausalGraph`, which draws itself by this package."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the nodes."""
        ...

    @property
    def marked_edges(self) -> Sequence[MarkedEdge]:
        """Return every edge once; a pair may have two."""
        ...

    @property
    def scores(self) -> NDArray[np.float64] | None:
        """Return how much speaks for each edge, if that is known."""
        ...


@dataclass(frozen=True)
class Layout:
    """Places in a plane whose y grows downwards."""

    width: float
    height: float
    centres: Float[np.ndarray, "node 2"]
    widths: Float[np.ndarray, "node"]
    """The widths of the nodes; all are `NODE_HEIGHT` high."""
    routes: dict[Edge, Float[np.ndarray, "point 2"]]
    """By (source, target), the points that an edge passes, each of them vertically; undirected ones stand once."""

    def route(self, source: int, target: int) -> Float[np.ndarray, "point 2"]:
        """Return the points that an edge of a pair passes from source to target."""
        if (source, target) in self.routes:
            return self.routes[source, target]
        return self.routes[target, source][::-1]

    @property
    def reading_order(self) -> list[int]:
        """The nodes row by row, from the left in each."""
        return np.lexsort((self.centres[:, 0], self.centres[:, 1])).tolist()


def label(name: str) -> str:
    """Shorten a name to what fits into a node."""
    name = " ".join(name.split()) or name
    half = LONGEST_LABEL // 2
    return name if len(name) <= LONGEST_LABEL else f"{name[:half]}…{name[-half + 1 :]}"


def text_width(text: str, font_size: float = FONT_SIZE) -> float:
    """Estimate how wide common sans-serif fonts set a text, rather more than less."""
    return font_size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.36
    if character in _BROAD:
        return 0.95
    return 0.7 if character.isupper() else 0.59


def lay_out(graph: Graph) -> Layout:
    """Place each connected part by itself, the largest first; variables without an edge come last, in rows."""
    nodes = len(graph.names)
    adjacency = _drawn_directions(graph)
    widths = np.array([max(46.0, text_width(label(name)) + 26) for name in graph.names])
    ends = np.maximum(adjacency.sum(axis=0), adjacency.sum(axis=1))
    widths = np.maximum(widths, np.minimum((ends - 1) * _BETWEEN_ENDS + 2 * _BESIDE_ENDS, _WIDEST))
    joined = nx.from_numpy_array(adjacency | adjacency.T)
    parts = sorted((sorted(part) for part in nx.connected_components(joined)), key=lambda part: (-len(part), part))
    drawn = [_Part(part, adjacency, widths) for part in parts if len(part) > 1]
    alone = [part[0] for part in parts if len(part) == 1]

    row = max(
        [
            1.5 * math.sqrt(sum(part.width * part.height for part in drawn)),
            *(part.width for part in drawn),
            1.9 * math.sqrt(sum((widths[node] + _BETWEEN_NODES) * 2 * NODE_HEIGHT for node in alone)),
        ]
    )
    centres = np.zeros((nodes, 2))
    routes: dict[Edge, Float[np.ndarray, "point 2"]] = {}
    corners, bottom = _packed([(part.width, part.height) for part in drawn], row, _BETWEEN_COMPONENTS, _MARGIN)
    for part, corner in zip(drawn, corners, strict=True):
        centres[part.members] = part.centres + corner
        routes |= {edge: points + corner for edge, points in part.routes.items()}
    boxes = [(float(widths[node]), NODE_HEIGHT) for node in alone]
    top = bottom + _BETWEEN_COMPONENTS if drawn else _MARGIN
    corners, rows_bottom = _packed(boxes, row, _BETWEEN_NODES, top)
    for node, corner in zip(alone, corners, strict=True):
        centres[node] = corner + np.array([widths[node], NODE_HEIGHT]) / 2

    # a curve bends by less than the distance of its ends, so that the points tell how much room all takes
    right = max([*(centres[:, 0] + widths / 2), *(points[:, 0].max() for points in routes.values())])
    height = (rows_bottom if alone else bottom) + _MARGIN
    return Layout(float(right + _MARGIN), float(height), centres, widths, routes)


def _drawn_directions(graph: Graph) -> Adjacency:
    """Return who stands above whom: 1 at [i, j] where an arrow at j alone says so, else at [j, i], too."""
    index = {name: k for k, name in enumerate(graph.names)}
    above = np.zeros((len(index), len(index)), dtype=np.int8)
    for edge in graph.marked_edges:
        i, j = index[edge.source], index[edge.target]
        downward, upward = edge.at_source != "arrow", edge.at_target != "arrow"
        if downward != upward:
            above[i, j], above[j, i] = downward, upward
        elif not (above[i, j] or above[j, i]):  # in a pair with two edges, the directed one comes first
            above[i, j] = above[j, i] = 1
    return above


def _packed(
    boxes: Sequence[tuple[float, float]], row: float, gap: float, top: float
) -> tuple[list[Float[np.ndarray, "2"]], float]:
    """Set boxes in rows, like words; return their upper left corners and where the last row ends."""
    corners, x, y, bottom = [], _MARGIN, top, top
    for width, height in boxes:
        if x > _MARGIN and x + width > _MARGIN + row:
            x, y = _MARGIN, bottom + gap
        corners.append(np.array([x, y]))
        x += width + gap
        bottom = max(bottom, y + height)
    return corners, bottom


class _Part:
    """The drawing of a connected part, from (0, 0)."""

    def __init__(self, members: Sequence[int], adjacency: Adjacency, widths: Float[np.ndarray, "all"]) -> None:
        self.members = list(members)
        self._widths = widths[self.members]
        downward, self._upward = _acyclic(adjacency[np.ix_(self.members, self.members)])
        chains, layer_of = _chains(_layers(len(members), downward), downward)
        levels = _Levels(layer_of, chains)
        levels.reduce_crossings()
        real = len(self.members)
        thickness = np.concatenate([self._widths, np.zeros(len(layer_of) - real)])
        x = _across(levels, thickness, real)
        y = _down(levels, x)
        self.centres = np.column_stack([x, y])[:real]
        self.routes = self._routed(chains, x, y)
        sides = (self.centres[:, 0] - self._widths / 2, self.centres[:, 0] + self._widths / 2)
        reached = np.concatenate([*sides, *(points[:, 0] for points in self.routes.values())])
        left, right = reached.min(), reached.max()
        self.centres = self.centres - [left, 0]
        self.routes = {edge: points - [left, 0] for edge, points in self.routes.items()}
        self.width, self.height = float(right - left), float(y.max() + NODE_HEIGHT / 2)

    def _routed(
        self, chains: dict[Edge, list[int]], x: Float[np.ndarray, "place"], y: Float[np.ndarray, "place"]
    ) -> dict[Edge, Float[np.ndarray, "point 2"]]:
        """Route edges straight through each layer on the way; spread their ends over the sides of the nodes."""
        below = self._spread({edge: x[chain[1]] for edge, chain in chains.items()}, x, end=0)
        above = self._spread({edge: x[chain[-2]] for edge, chain in chains.items()}, x, end=1)
        half, routes = NODE_HEIGHT / 2, {}
        for edge, chain in chains.items():
            points = [(below[edge], y[edge[0]] + half)]
            for dummy in chain[1:-1]:
                points += [(x[dummy], y[dummy] - half), (x[dummy], y[dummy] + half)]
            points.append((above[edge], y[edge[1]] - half))
            names = self.members[edge[0]], self.members[edge[1]]
            turned = edge in self._upward
            routes[names[::-1] if turned else names] = np.array(points[::-1] if turned else points)
        return routes

    def _spread(self, towards: dict[Edge, float], x: Float[np.ndarray, "place"], end: int) -> dict[Edge, float]:
        """Place the ends of edges on the side of their node, in the order of where they come from or go to."""
        at: dict[int, list[Edge]] = {}
        for edge in sorted(towards, key=lambda edge: (towards[edge], edge)):
            at.setdefault(edge[end], []).append(edge)
        places = {}
        for node, edges in at.items():
            gap = min(_BETWEEN_ENDS, (self._widths[node] - 2 * _BESIDE_ENDS) / max(len(edges) - 1, 1))
            for k, edge in enumerate(edges):
                places[edge] = float(x[node] + (k - (len(edges) - 1) / 2) * gap)
        return places


def _acyclic(adjacency: Adjacency) -> tuple[list[Edge], set[Edge]]:
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


def _layers(nodes: int, edges: Sequence[Edge]) -> list[int]:
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


def _chains(layer: list[int], edges: Sequence[Edge]) -> tuple[dict[Edge, list[int]], list[int]]:
    """Return the places that each edge passes, one per layer, and the layer of every place: nodes, then dummies."""
    layer_of, chains = list(layer), {}
    for i, j in edges:
        dummies = range(len(layer_of), len(layer_of) + layer[j] - layer[i] - 1)
        layer_of += range(layer[i] + 1, layer[j])
        chains[i, j] = [i, *dummies, j]
    return chains, layer_of


class _Levels:
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


def _across(levels: _Levels, thickness: Float[np.ndarray, "place"], real: int) -> Float[np.ndarray, "place"]:
    """Place nodes as near to the mean of their neighbours as the order in a layer allows; keep long edges straight.

    Keeping the order and the distances is an isotonic regression, which is exact for each layer.
    """
    x = np.zeros(len(thickness))
    offsets = []
    for row in levels.rows:
        is_node = np.array(row) < real
        gaps = np.where(
            is_node[:-1] & is_node[1:],
            _BETWEEN_NODES,
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


def _down(levels: _Levels, x: Float[np.ndarray, "place"]) -> Float[np.ndarray, "place"]:
    """Place the layers; the wider edges reach, the further apart."""
    y, at = np.zeros(len(x)), NODE_HEIGHT / 2
    for row in levels.rows:
        y[row] = at
        reach = max((abs(x[place] - x[each]) for place in row for each in levels.below[place]), default=0.0)
        crowd = sum(len(levels.below[place]) for place in row)
        between = min(_BETWEEN_LAYERS + 0.10 * reach + 0.8 * crowd, _MOST_BETWEEN_LAYERS)
        at += NODE_HEIGHT + between
    return y
