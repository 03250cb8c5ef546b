"""The graph as SVG: it can be read without the page's program, which adds what moves."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from feddag.drawing.graph_svg import Points, curve, edge_class, edge_points, edge_shapes, node_shapes
from feddag.drawing.layout import Layout
from feddag.drawing.scales import line_width
from feddag.drawing.svg import element
from feddag.reports.blocks import GraphDrawing
from feddag.reports.edges import DrawnEdge

LEAST_WIDTH, LEAST_HEIGHT = 480.0, 220.0
"""The smallest view, so that a small graph is not blown up."""


def view(layout: Layout) -> tuple[float, float, float, float]:
    """Return x, y, width and height of the part of the plane that the page shows first."""
    width, height = max(layout.width, LEAST_WIDTH), max(layout.height, LEAST_HEIGHT)
    return (layout.width - width) / 2, (layout.height - height) / 2, width, height


def graph_svg(drawing: GraphDrawing) -> Markup:
    """Draw a graph. Nodes and edges carry their number in `graph.names` and `edges`."""
    graph, edges, layout = drawing.graph, drawing.edges, drawing.layout
    places = dict(zip(graph.marked_edges, edge_points(graph.marked_edges, graph.names, layout), strict=True))
    drawn = [_edge(k, edge, places[edge.edge]) for k, edge in enumerate(edges)]
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
        *node_shapes(name, x, y, width),
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
    joined = [
        (edge.target if edge.source == name else edge.source, edge.edge.kind)
        for edge in edges
        if not edge.directed and name in (edge.source, edge.target)
    ]
    hidden = [other for other, kind in joined if kind == "<->"]
    others = [other for other, kind in joined if kind != "<->"]
    parts = [
        f"{words} {', '.join(names)}"
        for words, names in (
            ("causes:", causes),
            ("effects:", effects),
            ("joined by a hidden cause:", hidden),
            ("joined, direction open:", others),
        )
        if names
    ]
    return f"{name}; {'; '.join(parts) or 'no edges'}"


def _edge(number: int, edge: DrawnEdge, points: Points) -> Markup:
    return element(
        "g",
        *edge_shapes(points, line_width(edge.strength), edge.edge),
        element("path", d=curve(points), class_="reach"),
        class_=f"{edge_class(edge.edge)} doubtful" if edge.doubtful else edge_class(edge.edge),
        data_edge=number,
    )
