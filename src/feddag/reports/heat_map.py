"""The adjacency as a heat map: causes in rows, effects in columns, both in the order of the drawing."""

from __future__ import annotations

from markupsafe import Markup

from feddag.drawing.layout import label, text_width
from feddag.drawing.svg import element
from feddag.reports.blocks import GraphDrawing

_FONT_SIZE = 11.0


def heat_map_svg(drawing: GraphDrawing) -> Markup:
    """Draw a cell for each edge, as dark as the edge is wide; an undirected edge has two."""
    graph, edges, order = drawing.graph, drawing.edges, drawing.layout.reading_order
    nodes = len(order)
    cell = max(12.0, min(30.0, 620.0 / nodes))
    font = min(_FONT_SIZE, cell - 1)
    names = [label(graph.names[k]) for k in order]
    side = max(text_width(name, font) for name in names) + 12
    full = side + nodes * cell
    place = {graph.names[k]: row for row, k in enumerate(order)}
    rows = [
        element("text", name, x=side - 7, y=side + (k + 0.5) * cell + 0.35 * font, text_anchor="end")
        for k, name in enumerate(names)
    ]
    columns = [
        element(
            "text", name, transform=f"translate({side + (k + 0.5) * cell + 0.35 * font:.1f} {side - 7:.1f}) rotate(-90)"
        )
        for k, name in enumerate(names)
    ]
    lines = [
        element("path", d=f"M{side:.1f} {at:.1f}H{full:.1f}M{at:.1f} {side:.1f}V{full:.1f}", class_="grid")
        for at in (side + k * cell for k in range(nodes + 1))
    ]
    diagonal = [
        element("rect", x=side + k * cell, y=side + k * cell, width=cell, height=cell, class_="self")
        for k in range(nodes)
    ]
    cells = []
    for number, edge in enumerate(edges):
        pairs = [(edge.source, edge.target)] + ([] if edge.directed else [(edge.target, edge.source)])
        cells += [
            element(
                "rect",
                x=side + place[effect] * cell + 0.5,
                y=side + place[cause] * cell + 0.5,
                width=cell - 1,
                height=cell - 1,
                class_="cell" if edge.directed else "cell undirected",
                fill_opacity=f"{0.25 + 0.75 * edge.strength:.2f}",
                data_edge=number,
            )
            for cause, effect in pairs
        ]
    return element(
        "svg",
        *diagonal,
        *lines,
        *cells,
        *rows,
        *columns,
        viewBox=f"0 0 {full + 2:.0f} {full + 2:.0f}",
        class_="heat-map",
        style=f"max-width:{full + 2:.0f}px;font-size:{font:.1f}px",
        role="img",
        aria_label=f"Adjacency matrix of {nodes} variables with {len(edges)} edges; the table of edges holds the same",
    )
