"""Where to draw the nodes and edges of a graph: in layers, causes above their effects.

The steps are those of Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system structures",
1981): layers by longest path, dummy nodes where an edge passes a layer, fewer crossings by sweeps over the layers, and
then the places within each layer. An edge keeps to its dummies' places, so that it never runs through a node. Equal
graphs give equal drawings.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import networkx as nx
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from feddag.drawing.layers import (
    BETWEEN_NODES,
    NODE_HEIGHT,
    Adjacency,
    Edge,
    Levels,
    across,
    acyclic,
    chains_of,
    down,
    layers,
)

FONT_SIZE = 14.0
LONGEST_LABEL = 24
"""Characters; of a longer name the drawing shows the beginning and the end."""

_BETWEEN_COMPONENTS = 48.0
_BETWEEN_ENDS, _BESIDE_ENDS = 15.0, 13.0
_MARGIN = 16.0
_WIDEST = 260.0
_NARROW, _BROAD = frozenset("iIjl.,:;'|!()[]ft "), frozenset("mwMW@%&")


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
            1.9 * math.sqrt(sum((widths[node] + BETWEEN_NODES) * 2 * NODE_HEIGHT for node in alone)),
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
    corners, rows_bottom = _packed(boxes, row, BETWEEN_NODES, top)
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
        downward, self._upward = acyclic(adjacency[np.ix_(self.members, self.members)])
        chains, layer_of = chains_of(layers(len(members), downward), downward)
        levels = Levels(layer_of, chains)
        levels.reduce_crossings()
        real = len(self.members)
        thickness = np.concatenate([self._widths, np.zeros(len(layer_of) - real)])
        x = across(levels, thickness, real)
        y = down(levels, x)
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
