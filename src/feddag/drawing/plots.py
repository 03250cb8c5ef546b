"""Plots of graphs and histories by Matplotlib, for notebooks and papers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from feddag.drawing.charts import MOST_LINES, Chart, make_charts
from feddag.drawing.graph_svg import circle_radius, edge_class, edge_points
from feddag.drawing.layout import NODE_HEIGHT, Graph, Layout, MarkedEdge, label, lay_out
from feddag.drawing.scales import edge_score, edge_widths, is_directed
from feddag.errors import FeddagError
from feddag.extras import imported

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS_PER_PLACE = 0.72
"""The layout's plane in points: 72 make an inch."""
_EDGE, _NODE, _LINE = "#5a6a82", "#ffffff", "#1f6fbf"


def plot_graph(graph: Graph, ax: Axes | None = None) -> Axes:
    """Draw the graph in layers, causes above their effects; the wider an edge, the higher its score."""
    patches, path = _matplotlib("patches"), _matplotlib("path")
    layout = lay_out(graph)
    ax = ax or _axes(layout.width * _POINTS_PER_PLACE / 72, layout.height * _POINTS_PER_PLACE / 72)
    ax.set(xlim=(0, layout.width), ylim=(layout.height, 0), aspect="equal")
    ax.set_axis_off()
    all_points = edge_points(graph.marked_edges, graph.names, layout)
    widths = edge_widths(graph, graph.marked_edges)
    for edge, points, in_layout in zip(graph.marked_edges, all_points, widths, strict=True):
        width = _POINTS_PER_PLACE * in_layout
        codes = [path.Path.MOVETO] + [path.Path.CURVE4] * (3 * (len(points) - 1))
        ax.add_patch(
            patches.FancyArrowPatch(
                path=path.Path(_bent(points), codes),
                arrowstyle=_arrow_style(edge, width),
                linestyle=(0, (4, 3)) if "undirected" in edge_class(edge) else "solid",
                linewidth=width,
                color=_EDGE,
                shrinkA=0,
                shrinkB=0,
                mutation_scale=1,
                gid=f"edge {edge.source} {edge.target}",
            )
        )
        _draw_circles(edge, points, in_layout, ax, patches)
    _draw_nodes(graph, layout, ax, patches)
    return ax


def plot_history(history: pd.DataFrame, ax: Any = None) -> Any:
    """Draw each figure of a history against the rounds, on axes of its own.

    Args:
        history: One row per round.
        ax: As many axes as there are figures, or one for the first; new ones unless given.

    Returns:
        The axes: one, or an array where there are several.
    """
    drawn = make_charts(history)
    if not drawn:
        raise FeddagError("The history holds no figures that change from round to round: there is nothing to plot.")
    if ax is None:
        columns = min(3, len(drawn))
        rows = math.ceil(len(drawn) / columns)
        size = 4.4 * columns, 2.9 * rows
        _, grid = _matplotlib("pyplot").subplots(rows, columns, figsize=size, layout="constrained")
        every = np.atleast_1d(grid).ravel()
        for unused in every[len(drawn) :]:
            unused.set_axis_off()
        axes = every[: len(drawn)]
    else:
        axes = np.atleast_1d(ax).ravel()
        if len(axes) not in (1, len(drawn)):
            raise FeddagError(f"ax must be one axes or {len(drawn)}, one for each figure. Got {len(axes)} instead.")
    for chart, each in zip(drawn, axes, strict=False):
        _draw_chart(chart, each)
    return axes[0] if len(axes) == 1 else axes


def plot_adjacency(graph: Graph, ax: Axes | None = None) -> Axes:
    """Draw the scores of all edges as a heat map: causes in rows, effects in columns, in the order of the drawing."""
    order, names = lay_out(graph).reading_order, graph.names
    shown = np.full((len(names), len(names)), np.nan)
    for edge in graph.marked_edges:
        i, j = names.index(edge.source), names.index(edge.target)
        shown[i, j] = edge_score(graph, edge)
        if not is_directed(edge):
            shown[j, i] = shown[i, j]
    side = 1.6 + 0.26 * len(names)
    ax = ax or _axes(side + 0.6, side)
    image = ax.imshow(shown[np.ix_(order, order)], cmap="Blues", vmin=0)
    labels = [label(names[k]) for k in order]
    ax.set_xticks(range(len(names)), labels, rotation=90, parse_math=False)
    ax.set_yticks(range(len(names)), labels, parse_math=False)
    ax.set(xlabel="effect", ylabel="cause")
    ax.figure.colorbar(image, ax=ax, label="edge score", shrink=0.8)
    return ax


def _arrow_style(edge: MarkedEdge, width: float) -> str:
    heads = ("<|" if edge.at_source == "arrow" else "") + "-" + ("|>" if edge.at_target == "arrow" else "")
    return heads if heads == "-" else f"{heads},head_length={3 + width},head_width={1.2 + width / 2}"


def _draw_circles(edge: MarkedEdge, points: np.ndarray, width: float, ax: Axes, patches: Any) -> None:
    radius = circle_radius(width)
    for at, next_to, mark in ((0, 1, edge.at_source), (-1, -2, edge.at_target)):
        if mark == "circle":
            x, y = points[at]
            centre = x, y + (radius if points[next_to][1] > y else -radius)
            ax.add_patch(patches.Circle(centre, radius, facecolor=_NODE, edgecolor=_EDGE, linewidth=0.9, zorder=2))


def _draw_nodes(graph: Graph, layout: Layout, ax: Axes, patches: Any) -> None:
    for name, (x, y), width in zip(graph.names, layout.centres, layout.widths, strict=True):
        ax.add_patch(
            patches.FancyBboxPatch(
                (x - width / 2 + 8, y - NODE_HEIGHT / 2 + 8),
                width - 16,
                NODE_HEIGHT - 16,
                boxstyle="round,pad=8,rounding_size=8",
                facecolor=_NODE,
                edgecolor=_EDGE,
                linewidth=0.9,
                mutation_aspect=1,
                zorder=3,
            )
        )
        # a dollar is a dollar here, not the beginning of a formula
        ax.text(x, y, label(name), ha="center", va="center", fontsize=9, zorder=4, parse_math=False)


def _draw_chart(chart: Chart, ax: Axes) -> None:
    ax.set_title(chart.title, fontsize=10, parse_math=False)
    ax.set_xlabel(chart.axis)
    if chart.logarithmic:
        ax.set_yscale("log")
    if chart.in_bytes:
        ax.yaxis.set_major_formatter(lambda value, _: chart.format(value))
    if 1 < len(chart.lines) <= MOST_LINES:
        ax.plot(chart.rounds, chart.values.T, color=_LINE, alpha=0.35, linewidth=0.8)
    elif len(chart.lines) > MOST_LINES:
        low, high = np.nanmin(chart.values, axis=0), np.nanmax(chart.values, axis=0)
        ax.fill_between(chart.rounds, low, high, color=_LINE, alpha=0.16, linewidth=0)
    ax.plot(chart.rounds, chart.mean, color=_LINE)


def _bent(points: np.ndarray) -> list[tuple[float, float]]:
    """Return curves that pass every point vertically, as in the report."""
    (x, y), *rest = points.tolist()
    path = [(x, y)]
    for next_x, next_y in rest:
        middle = (y + next_y) / 2
        path += [(x, middle), (next_x, middle), (next_x, next_y)]
        x, y = next_x, next_y
    return path


def _axes(width: float, height: float) -> Axes:
    return _matplotlib("pyplot").subplots(figsize=(max(width, 2.5), max(height, 2.0)), layout="constrained")[1]


def _matplotlib(module: str) -> Any:
    return imported(f"matplotlib.{module}", "report", "Plots need Matplotlib")
