"""The report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from feddag.drawing.charts import Chart
from feddag.drawing.formats import format_duration, format_size, format_value
from feddag.drawing.layout import Layout, lay_out
from feddag.drawing.scales import line_width
from feddag.reports.chart_svg import chart_svg
from feddag.reports.contents import Contents, Table
from feddag.reports.graph_svg import LEAST_WIDTH, graph_svg, view
from feddag.reports.heat_map import heat_map_svg
from feddag.reports.markup import Markup, joined, json_script, tag
from feddag.reports.words import caveats, lead, title

_BROAD = 860.0
"""From this width on, the graph has the page's whole width, and what is told of a variable stands above."""
_SHORT = 34
"""Characters that a table never breaks into lines."""


def report_page(contents: Contents) -> str:
    layout = lay_out(contents.graph)
    sections = {
        "graph": ("The graph", _graph(contents, layout)),
        "trust": ("How far to trust it", _trust(contents)),
        "meaning": ("What the graph does not mean", _meaning(contents)),
        "edges": ("The edges", _edges(contents)),
        "adjacency": ("As a matrix", _adjacency(contents, layout)),
        "history": ("How it was learned", _history(contents)),
        "sites": ("Sites and data", _sites(contents)),
        "again": ("To learn it again", _again(contents)),
    }
    body = [
        tag("a", "Skip the graph", href="#trust", class_="skip"),
        _header(contents, {name: words for name, (words, _) in sections.items()}),
        tag(
            "main",
            *(
                tag(
                    "section", tag("h2", words, id=f"{name}-heading"), inner, id=name, aria_labelledby=f"{name}-heading"
                )
                for name, (words, inner) in sections.items()
            ),
        ),
        tag("footer", tag("p", f"Written by feddag {contents.record['feddag']}. This page needs no network.")),
        tag("div", id="tip", role="tooltip", hidden=""),
        json_script("data", _data(contents)),
    ]
    return document(title(contents), joined(*body), "page.js")


def document(name: str, body: Markup, program: str, *, connects: bool = False) -> str:
    """A whole page. Its policy lets nothing run but its own program, and nothing be asked for from elsewhere."""
    script = asset(program)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    )
    if connects:
        policy += "; connect-src 'self'"
    head = joined(
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'),
        tag("title", name),
        Markup(f"<style>{asset('page.css')}</style>"),
    )
    code = Markup(f"<script>{script}</script>")
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}{code}</body>\n</html>\n'


def asset(name: str) -> str:
    return (files("feddag.reports") / "assets" / name).read_text(encoding="utf-8")


def _header(contents: Contents, sections: dict[str, str]) -> Markup:
    graph, record = contents.graph, contents.record
    directed, undirected = len(graph.edges), len(graph.undirected_edges)
    sent = sum(contents.learner.communication_.sent.values())
    rounds = len(contents.history) if "round" in contents.history else 0
    facts: list[tuple[str, str, str]] = [
        ("Variables", f"{len(graph.names):,}", ""),
        ("Edges", f"{directed + undirected:,}", f"{undirected:,} of open direction" if undirected else "all directed"),
        ("Sites", f"{len(record['sites']):,}", ""),
        ("Rows", format_value(contents.rows), "in all"),
        ("Sent by all sites", format_size(sent), f"{rounds:,} rounds" if rounds > 1 else ""),
        ("Method", record["method"], "" if record["regime"] == "federated" else record["regime"]),
        ("Took", format_duration(contents.learner.seconds_), ""),
    ]
    return tag(
        "header",
        tag(
            "div",
            tag("span", f"feddag report · {_day(record['finished'])}"),
            tag("button", "Dark", id="theme", type="button", hidden="", aria_label="Change between light and dark"),
            class_="over",
        ),
        tag("h1", title(contents)),
        tag("p", lead(contents), class_="lead"),
        tag(
            "dl",
            *(
                tag("div", tag("dt", name), tag("dd", value, *([tag("small", more)] if more else [])))
                for name, value, more in facts
            ),
            class_="facts",
        ),
        tag(
            "nav",
            *(tag("a", words, href=f"#{name}") for name, words in sections.items()),
            aria_label="Parts of this page",
        ),
    )


def _graph(contents: Contents, layout: Layout) -> Markup:
    toolbar = tag(
        "div",
        Markup('<input type="search" id="search" placeholder="Find a variable" aria-label="Find a variable">'),
        tag("output", id="count", aria_live="polite"),
        tag(
            "div",
            tag("button", "−", id="further", type="button", aria_label="Zoom out"),
            tag("button", "+", id="closer", type="button", aria_label="Zoom in"),
            tag("button", "Fit", id="fit", type="button", aria_label="Show the whole graph"),
            class_="zoom",
        ),
        class_="toolbar",
    )
    _, _, width, height = view(layout)
    largest = 1.15 if width > LEAST_WIDTH else 1.4
    drawing = tag(
        "div",
        graph_svg(contents.graph, contents.edges, layout),
        class_="stage",
        style=f"--width:{largest * width:.0f}px;--ratio:{width:.0f}/{height:.0f}",
    )
    panel = tag(
        "div",
        tag("p", "Choose a variable to see its causes and effects.", class_="note"),
        id="panel",
        class_="panel",
        aria_live="polite",
    )
    return joined(
        tag("p", "Causes stand above their effects.", class_="note"),
        toolbar,
        tag("div", panel, drawing, class_="drawing broad" if width > _BROAD else "drawing"),
        _legend(contents),
        tag(
            "p",
            "Drag to move, Ctrl and wheel to zoom. With the keyboard: Tab to a variable, Enter to choose it, arrow "
            "keys to go along edges, Escape to leave.",
            class_="note screen-only",
        ),
    )


def _legend(contents: Contents) -> Markup:
    if not contents.edges:
        return tag("p", "No edges were found.", class_="note")
    meaning, _ = contents.confidence
    strongest, weakest = contents.edges[0], contents.edges[-1]
    ends = [weakest] if strongest.strength == weakest.strength else [weakest, strongest]
    items = [
        tag("li", _sample(line_width(edge.strength)), f"{meaning}: {format_value(next(iter(edge.numbers.values())))}")
        for edge in ends
    ]
    if contents.graph.undirected_edges:
        items.append(tag("li", _sample(2.0, undirected=True), "the data do not tell the direction"))
    return tag("ul", *items, class_="legend")


def _sample(width: float, *, undirected: bool = False) -> Markup:
    line = tag("path", d="M2 9H38", stroke_width=width, class_="undirected" if undirected else None)
    head = [] if undirected else [tag("polygon", points="48,9 37,4 37,14")]
    return tag("svg", line, *head, width=50, height=18, aria_hidden="true")


def _trust(contents: Contents) -> Markup:
    trust = contents.trust
    parts: list[Markup] = []
    if trust.verdict:
        parts.append(tag("p", trust.verdict, class_="verdict"))
    if trust.warnings:
        parts.append(tag("ul", *(tag("li", warning) for warning in trust.warnings), class_="warnings"))
    for caption, table in trust.tables.items():
        parts += [tag("h3", caption), _table(table, caption)]
    if contents.stability is not None:
        caption = "How often each edge comes back when every site draws its rows again"
        parts += [tag("h3", caption), _table(Table.of(contents.stability.to_dict("records")), caption)]
    if contents.mechanisms is not None:
        caption = "How well its causes explain each variable, and whether sites differ in that"
        parts += [tag("h3", caption), _table(Table.of(contents.mechanisms.to_dict("records")), caption)]
    if contents.edge_evidence is not None:
        caption = "The evidence for each edge"
        text = (
            "By how much the logarithm of the evidence falls without an edge, or with the edge reversed. A difference "
            "of less than two standard errors may be chance."
        )
        parts += [
            tag("h3", caption),
            tag("p", text, class_="note"),
            _table(Table.of(contents.edge_evidence.to_dict("records")), caption),
        ]
    if not parts:
        text = "This run's folder holds no checks of the graph beyond the edge scores. Take it as a hypothesis."
        parts.append(tag("p", text, class_="note"))
    return joined(*parts)


def _meaning(contents: Contents) -> Markup:
    return tag("ul", *(tag("li", text) for text in caveats(contents)), class_="meaning")


def _edges(contents: Contents) -> Markup:
    if not contents.edges:
        return tag("p", "There are none.", class_="note")
    text = "The strongest first; a click on a heading sorts. An arrow points from cause to effect."
    return joined(tag("p", text, class_="note screen-only"), _table(contents.edge_table, "Edges"))


def _adjacency(contents: Contents, layout: Layout) -> Markup:
    text = "Each row is a cause, each column an effect; the stronger, the fuller. All arrows lie above the diagonal."
    if contents.graph.undirected_edges:
        text += " Edges of open direction have two cells, in another colour."
    return joined(tag("p", text, class_="note"), heat_map_svg(contents.graph, contents.edges, layout.reading_order))


def _history(contents: Contents) -> Markup:
    method = contents.method
    said = [] if method is None else [tag("p", f"{method.summary} {method.reference}", class_="note")]
    if not contents.charts:
        return joined(*said, tag("p", "The method took down no course of its figures.", class_="note"))
    many = any(len(chart.lines) > 1 for chart in contents.charts)
    more = " Thin lines, or the band, are the sites; the thick line is their mean." if many else ""
    return joined(
        *said,
        tag("p", f"Each figure in its course.{more}", class_="note"),
        tag(
            "div",
            *(
                tag("figure", tag("figcaption", chart.title), chart_svg(chart, k))
                for k, chart in enumerate(contents.charts)
            ),
            class_="charts",
        ),
    )


def _sites(contents: Contents) -> Markup:
    left = f" What left a site: {contents.left_a_site}" if contents.left_a_site else ""
    return joined(
        tag("p", f"Only counts and sums over a site's rows are known here.{left}", class_="note"),
        "" if contents.spent_privacy is None else tag("p", contents.spent_privacy, class_="note"),
        _table(contents.site_table, "Sites"),
        tag("h3", f"The {len(contents.graph.names)} variables"),
        tag("p", ", ".join(contents.graph.names), class_="names"),
    )


def _again(contents: Contents) -> Markup:
    parts = []
    if contents.command is not None:
        parts.append(tag("pre", contents.command, tabindex=0))
    if contents.study_digest is not None:
        parts.append(tag("p", f"The sites had agreed on a study, whose digest is {contents.study_digest}."))
    parts.append(
        tag("p", f"Started {_moment(contents.record['started'])}, finished {_moment(contents.record['finished'])}.")
    )
    parameters = Table(("parameter", "value"), tuple((name, str(value)) for name, value in contents.parameters.items()))
    versions = Table(("software", "version"), tuple(contents.versions.items()))
    parts.append(
        tag(
            "div",
            tag("div", tag("h3", "Parameters"), _table(parameters, "Parameters")),
            tag("div", tag("h3", "Versions"), _table(versions, "Versions")),
            class_="columns",
        )
    )
    return joined(*parts)


def _table(table: Table, name: str) -> Markup:
    numeric = [_is_numeric([row[k] for row in table.rows]) for k in range(len(table.headings))]
    head = [
        tag("th", heading, scope="col", class_="number" if number else None)
        for heading, number in zip(table.headings, numeric, strict=True)
    ]
    rows = [
        tag("tr", *(_cell(value, number) for value, number in zip(row, numeric, strict=True))) for row in table.rows
    ]
    whole = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows))
    return tag("div", whole, class_="scroll", role="region", aria_label=name, tabindex=0)


def _cell(value: Any, numeric: bool) -> Markup:
    exact = f"{float(value):.17g}" if numeric and _is_number(value) and math.isfinite(value) else None
    text = format_value(value)
    kind = "number" if numeric else "short" if len(text) <= _SHORT else None
    return tag("td", text, class_=kind, data_value=exact)


def _is_numeric(values: Sequence[Any]) -> bool:
    return any(map(_is_number, values)) and all(value is None or _is_number(value) for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _data(contents: Contents) -> dict[str, Any]:
    """For the page's program. Numbers are words here already, as it does nothing but show them."""
    index = {name: k for k, name in enumerate(contents.graph.names)}
    return {
        "names": list(contents.graph.names),
        "meaning": contents.confidence[0],
        "edges": [
            {
                "source": index[edge.source],
                "target": index[edge.target],
                "directed": edge.directed,
                "numbers": [(name, format_value(value)) for name, value in edge.numbers.items()],
            }
            for edge in contents.edges
        ],
        "charts": [_chart_data(chart) for chart in contents.charts],
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


def _day(moment: str) -> str:
    return moment.partition("T")[0]


def _moment(moment: str) -> str:
    return moment.replace("T", " ").replace("+00:00", " UTC")
