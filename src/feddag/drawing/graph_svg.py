"""A graph as SVG: its shapes, and a picture that stands by itself, for notebooks."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from feddag.drawing.layout import FONT_SIZE, NODE_HEIGHT, Graph, label, lay_out
from feddag.drawing.scales import edge_widths
from feddag.drawing.svg import element

Points = Float[np.ndarray, "point 2"]

_STYLE = """
.feddag-graph text { font: %gpx sans-serif; fill: #1c2430 }
.feddag-graph rect { fill: #ffffff; stroke: #5a6a82; stroke-width: 1.3 }
.feddag-graph .stroke { fill: none; stroke: #5a6a82 }
.feddag-graph .undirected .stroke { stroke-dasharray: 7 5 }
.feddag-graph polygon { fill: #5a6a82 }
"""


def draw_svg(graph: Graph) -> Markup:
    """Draw a graph in layers, causes above their effects; the wider an edge, the higher its score."""
    layout = lay_out(graph)
    edges = []
    for ((i, j), points), width in zip(layout.routes.items(), edge_widths(graph, layout.routes), strict=True):
        directed = not graph.adjacency[j, i]
        shapes = edge_shapes(points, width, directed=directed)
        title = element("title", f"{graph.names[i]} {'→' if directed else '—'} {graph.names[j]}")
        edges.append(element("g", title, *shapes, class_="edge" if directed else "edge undirected"))
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


def edge_shapes(points: Points, width: float, *, directed: bool) -> list[Markup]:
    """Draw the line of an edge and, if it is directed, its head."""
    if not directed:
        return [element("path", d=curve(points), class_="stroke", stroke_width=width)]
    tip, upwards = points[-1], points[-1][1] < points[-2][1]
    length, half = 8 + 1.1 * width, 3.4 + 0.8 * width
    base = tip[1] + (length if upwards else -length)
    corners = [(tip[0], tip[1]), (tip[0] - half, base), (tip[0] + half, base)]
    short = points.copy()
    short[-1, 1] = base + (-1 if upwards else 1)
    return [
        element("path", d=curve(short), class_="stroke", stroke_width=width),
        element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)),
    ]


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
