"""The report as Markdown: the same sections, for documents that others build."""

from __future__ import annotations

import math
import re

from feddag.drawing.formats import format_value
from feddag.reports import blocks
from feddag.reports.blocks import Courses, GraphDrawing, Matrix, Report, Table

_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&]|^[#+=-]")
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")


def render_markdown(report: Report) -> str:
    """Render a report as Markdown."""
    facts = tuple((fact.name, f"{fact.value} ({fact.more})" if fact.more else fact.value) for fact in report.facts)
    parts = [f"# {plain(report.title)}", plain(report.lead), _table(Table("Facts", ("", ""), facts))]
    for section in report.sections:
        parts += [f"## {plain(section.heading)}", *map(_render, section.blocks)]
    return "\n\n".join(filter(None, parts)) + "\n"


def plain(text: str) -> str:
    """Escape whatever Markdown or HTML would not show as it is."""
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", " ".join(text.split())))


def _render(block: blocks.Block) -> str:  # noqa: PLR0911 - one for each kind of block
    match block:
        case blocks.Subheading(text):
            return f"### {plain(text)}"
        case blocks.Paragraph(text, role):
            return f"**{plain(text)}**" if role == "verdict" else plain(text)
        case blocks.Bullets(items, role):
            before = "**Caution:** " if role == "warnings" else ""
            return "\n".join(f"- {before}{plain(item)}" for item in items)
        case blocks.Code(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case blocks.Columns(parts):
            return "\n\n".join(_render(each) for part in parts for each in part)
        case Table():
            return _table(block)
        case Courses():
            return _courses(block)
        case GraphDrawing():
            return _graph_drawing(block)
        case blocks.Picture(graph):
            return "\n".join(f"- {plain(str(edge))}" for edge in graph.marked_edges) or "No edges."
        case Matrix():
            return _matrix(block)


def _table(block: Table) -> str:
    rule = ("---:" if numeric else "---" for numeric in block.numeric)
    rows = ((plain(format_value(cell)) for cell in row) for row in block.rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (map(plain, block.headings), rule, *rows))


def _courses(block: Courses) -> str:
    rows = []
    for chart in block.charts:
        course = [value for value in chart.mean.tolist() if math.isfinite(value)]
        rows.append((chart.title, chart.format(course[0]), chart.format(course[-1])))
    return _table(Table("Courses", ("figure", "at first", "at the end"), tuple(rows)))


def _graph_drawing(block: GraphDrawing) -> str:
    """List the variables with the effects of each, from the top of the drawing."""
    lines = []
    for name in (block.graph.names[k] for k in block.layout.reading_order):
        begun: dict[str, list[str]] = {}
        for edge in sorted(block.edges, key=lambda edge: not edge.directed):
            if edge.source == name:
                begun.setdefault(edge.edge.symbol, []).append(edge.target)
        lines += [f"- {plain(name)} {sign} {', '.join(map(plain, ends))}" for sign, ends in begun.items()]
    return "\n".join(lines)


def _matrix(block: Matrix) -> str:
    drawing = block.drawing
    names = [drawing.graph.names[k] for k in drawing.layout.reading_order]
    values = {(edge.source, edge.target): edge.value for edge in drawing.edges}
    values |= {(edge.target, edge.source): edge.value for edge in drawing.edges if not edge.directed}
    rows = tuple(
        (
            f"{k} {cause}",
            *(format_value(values[cause, effect]) if (cause, effect) in values else "" for effect in names),
        )
        for k, cause in enumerate(names, start=1)
    )
    return _table(Table("Matrix", ("", *(str(k) for k in range(1, len(names) + 1))), rows))
