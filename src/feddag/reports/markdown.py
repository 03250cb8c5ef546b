"""The report as Markdown: the same sections, for documents that others build."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from feddag.drawing.formats import format_value
from feddag.reports.blocks import (
    Block,
    Bullets,
    Code,
    Columns,
    Courses,
    GraphDrawing,
    Matrix,
    Paragraph,
    Report,
    Subheading,
    Table,
)

_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&]|^[#+=-]")
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")


def render_markdown(report: Report) -> str:
    """Render a report as Markdown."""
    facts = tuple((fact.name, " ".join(filter(None, (fact.value, fact.more)))) for fact in report.facts)
    parts = [f"# {plain(report.title)}", plain(report.lead), _table(Table("Facts", ("", ""), facts))]
    for section in report.sections:
        parts += [f"## {plain(section.heading)}", *map(_render, section.blocks)]
    return "\n\n".join(filter(None, parts)) + "\n"


def plain(text: str) -> str:
    """Escape whatever Markdown or HTML would not show as it is."""
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", " ".join(text.split())))


def _render(block: Block) -> str:
    return _RENDERERS[type(block)](block)


def _subheading(block: Subheading) -> str:
    return f"### {plain(block.text)}"


def _paragraph(block: Paragraph) -> str:
    return f"**{plain(block.text)}**" if block.role == "verdict" else plain(block.text)


def _bullets(block: Bullets) -> str:
    before = "**Caution:** " if block.role == "warnings" else ""
    return "\n".join(f"- {before}{plain(item)}" for item in block.items)


def _code(block: Code) -> str:
    return "\n".join(f"    {line}" for line in block.text.splitlines())


def _table(block: Table) -> str:
    rule = ("---:" if numeric else "---" for numeric in block.numeric)
    rows = ((plain(format_value(cell)) for cell in row) for row in block.rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (map(plain, block.headings), rule, *rows))


def _columns(block: Columns) -> str:
    return "\n\n".join(_render(each) for part in block.parts for each in part)


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
        effects = [edge.target for edge in block.edges if edge.directed and edge.source == name]
        others = [edge.target for edge in block.edges if not edge.directed and edge.source == name]
        for sign, ends in (("→", effects), ("—", others)):
            if ends:
                lines.append(f"- {plain(name)} {sign} {', '.join(map(plain, ends))}")
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


_RENDERERS: dict[type, Callable[[Any], str]] = {
    Subheading: _subheading,
    Paragraph: _paragraph,
    Bullets: _bullets,
    Code: _code,
    Table: _table,
    Columns: _columns,
    Courses: _courses,
    GraphDrawing: _graph_drawing,
    Matrix: _matrix,
}
