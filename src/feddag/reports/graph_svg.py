"""The graph as SVG: it can be read without the page's program, which adds what moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from feddag.drawing.layout import FONT_SIZE, NODE_HEIGHT, Layout, label
from feddag.drawing.scales import line_width
from feddag.reports.blocks import GraphDrawing
from feddag.reports.edges import DrawnEdge
from feddag.reports.svg import element

LEAST_WIDTH, LEAST_HEIGHT = 480.0, 220.0
"""The smallest view, so that a small graph is not blown up."""


def view(layout: Layout) -> tuple[float, float, float, float]:
    """Return x, y, width and height of the part of the plane that the page shows first."""
    width, height = max(layout.width, LEAST_WIDTH), max(layout.height, LEAST_HEIGHT)
    return (layout.width - width) / 2, (layout.height - height) / 2, width, height


def graph_svg(drawing: GraphDrawing) -> Markup:
    """Draw a graph. Nodes and edges carry their number in `graph.names` and `edges`."""
    graph, edges, layout = drawing.graph, drawing.edges, drawing.layout
    index = {name: k for k, name in enumerate(graph.names)}
    drawn = [_edge(k, edge, index, layout) for k, edge in enumerate(edges)]
    nodes = [_node(k, name, edges, layout) for k, name in enumerate(graph.names)]
    # from the top, as people read, which is also the order of the tab key
    return element(
        "svg",
        element("g", *reversed(drawn), class_="edges"),
        element("g", *(nodes[k] for k in layout.reading_order), class_="nodes"),
        viewBox=" ".join(f"{each:.1f}" for each in view(layout)),
        id="drawing",
        role="group",
        aria_label=f"Graph of {len(graph.names)} variables and {len(edges)} edges",
    )


def _node(number: int, name: str, edges: Sequence[DrawnEdge], layout: Layout) -> Markup:
    x, y = map(float, layout.centres[number])
    width = float(layout.widths[number])
    return element(
        "g",
        element("rect", x=x - width / 2, y=y - NODE_HEIGHT / 2, width=width, height=NODE_HEIGHT, rx=9),
        element("text", label(name), x=x, y=y + 0.35 * FONT_SIZE, text_anchor="middle"),
        class_="node",
        tabindex=0,
        role="button",
        aria_pressed="false",
        aria_label=_described(name, edges),
        data_node=number,
    )


def _described(name: str, edges: Sequence[DrawnEdge]) -> str:
    causes = [edge.source for edge in edges if edge.directed and edge.target == name]
    effects = [edge.target for edge in edges if edge.directed and edge.source == name]
    others = [
        edge.target if edge.source == name else edge.source
        for edge in edges
        if not edge.directed and name in (edge.source, edge.target)
    ]
    parts = [
        f"{words} {', '.join(names)}"
        for words, names in (("causes:", causes), ("effects:", effects), ("joined, direction open:", others))
        if names
    ]
    return f"{name}; {'; '.join(parts) or 'no edges'}"


def _edge(number: int, edge: DrawnEdge, index: dict[str, int], layout: Layout) -> Markup:
    ends = index[edge.source], index[edge.target]
    points = layout.routes[ends] if ends in layout.routes else layout.routes[ends[1], ends[0]]
    width = line_width(edge.strength)
    tip, upwards = points[-1], points[-1][1] < points[-2][1]
    parts = []
    path = curve(points)
    if edge.directed:
        length, half = 8 + 1.1 * width, 3.4 + 0.8 * width
        base = tip[1] + (length if upwards else -length)
        corners = [(tip[0], tip[1]), (tip[0] - half, base), (tip[0] + half, base)]
        parts.append(element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)))
        short = points.copy()
        short[-1, 1] = base + (-1 if upwards else 1)
        path = curve(short)
    return element(
        "g",
        element("path", d=path, class_="stroke", stroke_width=width),
        *parts,
        element("path", d=curve(points), class_="reach"),
        class_="edge" if edge.directed else "edge undirected",
        data_edge=number,
    )


def curve(points: Float[np.ndarray, "point 2"]) -> str:
    """Draw a path that passes every point vertically, so that it meets nodes from above and below."""
    (x, y), *rest = points.tolist()
    path = f"M{x:.1f} {y:.1f}"
    for next_x, next_y in rest:
        if abs(next_x - x) < 0.05:
            path += f"V{next_y:.1f}"
        else:
            middle = (y + next_y) / 2
            path += f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}"
        x, y = next_x, next_y
    return path
