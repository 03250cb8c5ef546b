"""A graph as SVG: its shapes, and a picture that stands by itself, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from feddag.drawing.layout import FONT_SIZE, NODE_HEIGHT, Graph, Layout, MarkedEdge, label, lay_out
from feddag.drawing.scales import edge_widths
from feddag.drawing.svg import element

Points = Float[np.ndarray, "point 2"]

_STYLE = """
.feddag-graph text { font: %gpx sans-serif; fill: #1c2430 }
.feddag-graph rect { fill: #ffffff; stroke: #5a6a82; stroke-width: 1.3 }
.feddag-graph .stroke { fill: none; stroke: #5a6a82 }
.feddag-graph .undirected .stroke { stroke-dasharray: 7 5 }
.feddag-graph polygon { fill: #5a6a82 }
.feddag-graph circle { fill: #ffffff; stroke: #5a6a82; stroke-width: 1.6 }
"""
_BESIDE_SECOND_EDGE = 11.0


def draw_svg(graph: Graph) -> Markup:
    """Draw a graph in layers, causes above their effects; the wider an edge, the higher its score."""
    layout = lay_out(graph)
    edges = []
    all_points = edge_points(graph.marked_edges, graph.names, layout)
    widths = edge_widths(graph, graph.marked_edges)
    for edge, points, width in zip(graph.marked_edges, all_points, widths, strict=True):
        title = element("title", f"{edge.source} {edge.symbol} {edge.target}")
        edges.append(element("g", title, *edge_shapes(points, width, edge), class_=edge_class(edge)))
    nodes = [
        element("g", element("title", name), *node_shapes(name, float(x), float(y), float(width)), class_="node")
        for name, (x, y), width in zip(graph.names, layout.centres, layout.widths, strict=True)
    ]
    return element(
        "svg",
        element("style", Markup(_STYLE % FONT_SIZE)),
        *edges,
        *nodes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {layout.width:.1f} {layout.height:.1f}",
        width=layout.width,
        height=layout.height,
        style="max-width: 100%; height: auto",
        class_="feddag-graph",
        role="img",
        aria_label=f"Graph of {len(graph.names)} variables and {len(edges)} edges",
    )


def node_shapes(name: str, x: float, y: float, width: float) -> tuple[Markup, ...]:
    """Draw the box of a node around a centre, and its label."""
    return (
        element("rect", x=x - width / 2, y=y - NODE_HEIGHT / 2, width=width, height=NODE_HEIGHT, rx=9),
        element("text", label(name), x=x, y=y + 0.35 * FONT_SIZE, text_anchor="middle"),
    )


def edge_points(edges: Sequence[MarkedEdge], names: Sequence[str], layout: Layout) -> list[Points]:
    """Return the points that each edge passes; the second edge of a pair runs beside the first."""
    index = {name: k for k, name in enumerate(names)}
    drawn: set[frozenset[str]] = set()
    found = []
    for edge in edges:
        points, pair = layout.route(index[edge.source], index[edge.target]), frozenset((edge.source, edge.target))
        found.append(points + np.array([_BESIDE_SECOND_EDGE, 0]) if pair in drawn else points)
        drawn.add(pair)
    return found


def edge_class(edge: MarkedEdge) -> str:
    """Return the classes of an edge: undirected ones are dashed."""
    return "edge undirected" if edge.at_source == edge.at_target == "tail" else "edge"


def edge_shapes(points: Points, width: float, edge: MarkedEdge) -> list[Markup]:
    """Draw the line of an edge, with a head at each end that has an arrow and a ring at each with a circle."""
    short, ends = points.copy(), []
    for at, next_to, mark in ((0, 1, edge.at_source), (-1, -2, edge.at_target)):
        x, tip = points[at]
        inward = 1 if points[next_to][1] > tip else -1
        if mark == "arrow":
            half, base = 3.4 + 0.8 * width, tip + inward * (8 + 1.1 * width)
            corners = [(x, tip), (x - half, base), (x + half, base)]
            short[at, 1] = base - inward
            ends.append(element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)))
        elif mark == "circle":
            radius = circle_radius(width)
            short[at, 1] = tip + 2 * inward * radius
            ends.append(element("circle", cx=x, cy=tip + inward * radius, r=radius))
    return [element("path", d=curve(short), class_="stroke", stroke_width=width), *ends]


def circle_radius(width: float) -> float:
    """Return the radius of the ring at the end of an edge."""
    return 3.6 + 0.5 * width


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
