"""The report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from feddag.drawing.charts import Chart
from feddag.drawing.formats import format_value
from feddag.drawing.graph_svg import draw_svg
from feddag.drawing.scales import line_width
from feddag.reports.blocks import Courses, GraphDrawing, Report, Table, is_number
from feddag.reports.chart_svg import chart_svg
from feddag.reports.graph_svg import LEAST_WIDTH, graph_svg, view
from feddag.reports.heat_map import heat_map_svg

_BROAD = 860.0
"""From this width on, the graph has the page's whole width, and the panel of a variable stands above."""
_SHORT = 34
"""Characters that a table never breaks into lines."""


def render_html(report: Report) -> str:
    """Render a report as a page."""
    return render_page("report.html", "page.js", report=report, data=_data(report))


def render_page(template: str, program: str, *, connects: bool = False, **values: Any) -> str:
    """Render a whole page. Its policy lets nothing run but its own program, and nothing load from elsewhere.

    Args:
        template: The page's template.
        program: The asset that holds its program.
        connects: Whether the program may ask the server that the page came from.
        values: The variables of the template.
    """
    script = _asset(program)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    )
    if connects:
        policy += "; connect-src 'self'"
    return (
        _environment()
        .get_template(template)
        .render(policy=policy, style=Markup(_asset("page.css")), script=Markup(script), **values)
    )


def _asset(name: str) -> str:
    return (files("feddag.reports") / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("feddag.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.filters |= {
        "cells": _cells,
        "chart_svg": chart_svg,
        "format_value": format_value,
        "draw_svg": draw_svg,
        "graph_svg": graph_svg,
        "heat_map_svg": heat_map_svg,
        "line_width": line_width,
        "stage": _stage,
    }
    return environment


def _stage(drawing: GraphDrawing) -> dict[str, Any]:
    """Return the size of the drawing on the page."""
    _, _, width, height = view(drawing.layout)
    largest = (1.15 if width > LEAST_WIDTH else 1.4) * width
    return {
        "broad": width > _BROAD,
        "style": f"--width:{largest:.0f}px;--ratio:{width:.0f}/{height:.0f}",
    }


def _cells(table: Table) -> list[list[dict[str, str | None]]]:
    """Return the cells of a table as text, with their attributes."""
    return [[_cell(value, numeric) for value, numeric in zip(row, table.numeric, strict=True)] for row in table.rows]


def _cell(value: Any, numeric: bool) -> dict[str, str | None]:
    exact = f"{float(value):.17g}" if numeric and is_number(value) and math.isfinite(value) else None
    text = format_value(value)
    kind = "number" if numeric else "short" if len(text) <= _SHORT else None
    return {"text": text, "class": kind, "data-value": exact}


def _data(report: Report) -> dict[str, Any]:
    """Return the data of the page's program. Numbers are formatted already, since the program only shows them."""
    drawing, courses = report.find(GraphDrawing)[0], report.find(Courses)
    index = {name: k for k, name in enumerate(drawing.graph.names)}
    return {
        "names": list(drawing.graph.names),
        "meaning": drawing.meaning,
        "edges": [
            {
                "source": index[edge.source],
                "target": index[edge.target],
                "kind": edge.edge.kind,
                "symbol": edge.edge.symbol,
                "numbers": [(name, format_value(value)) for name, value in edge.numbers.items()],
            }
            for edge in drawing.edges
        ],
        "charts": [_chart_data(chart) for block in courses for chart in block.charts],
    }


def _chart_data(chart: Chart) -> dict[str, Any]:
    figures = {"value": chart.mean}
    if len(chart.lines) > 1:
        figures = {
            "mean": chart.mean,
            "lowest": np.nanmin(chart.values, axis=0),
            "highest": np.nanmax(chart.values, axis=0),
        }
    return {
        "title": chart.title,
        "axis": chart.axis,
        "rounds": [int(each) for each in chart.rounds],
        "figures": [(name, [chart.format(float(value)) for value in values]) for name, values in figures.items()],
    }
