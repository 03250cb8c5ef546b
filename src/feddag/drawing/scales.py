"""From the value of an edge, such as its score, to the width of its line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from feddag.drawing.layout import Graph, MarkedEdge

_SPAN_OF_A_LINEAR_SCALE = 20.0


def edge_value(forth: float, back: float, *, directed: bool) -> float:
    """Return the value of an edge, given those of both directions.

    An edge whose direction follows from other edges may have its value with the other direction.
    """
    return forth if directed and forth > 0 else max(forth, back)


def is_directed(edge: MarkedEdge) -> bool:
    """Whether the source is a cause of the target."""
    return (edge.at_source, edge.at_target) == ("tail", "arrow")


def edge_score(graph: Graph, edge: MarkedEdge) -> float:
    """Return the score of an edge of a graph; 1 for each where the graph has no scores."""
    if graph.scores is None:
        return 1.0
    i, j = graph.names.index(edge.source), graph.names.index(edge.target)
    return edge_value(float(graph.scores[i, j]), float(graph.scores[j, i]), directed=is_directed(edge))


def edge_widths(graph: Graph, edges: Iterable[MarkedEdge]) -> list[float]:
    """Return the widths of edges, in units of the layout: the higher its score, the wider."""
    return [line_width(strength) for strength in strengths([edge_score(graph, edge) for edge in edges])]


def strengths(values: Sequence[float], *, shares: bool = False) -> list[float]:
    """Scale the values of edges to 0..1.

    Shares stay as they are. Others are divided by the largest, or scaled by order of magnitude if they span several.
    """
    if shares:
        return [min(max(value, 0.0), 1.0) for value in values]
    positive = [value for value in values if value > 0]
    if not positive:
        return [0.5] * len(values)
    least, most = min(positive), max(positive)
    if most == least == min(values):
        return [0.5] * len(values)
    if most / least <= _SPAN_OF_A_LINEAR_SCALE:
        return [max(value, 0.0) / most for value in values]
    span = math.log(most / least)
    return [0.1 + 0.9 * math.log(value / least) / span if value > 0 else 0.0 for value in values]


def line_width(strength: float) -> float:
    """Return the width of a line, in units of the layout."""
    return 1.2 + 3.8 * strength
