"""The report as Markdown: the same words and tables, for documents that others build."""

from __future__ import annotations

import re

from feddag.drawing.formats import format_duration, format_size, format_value
from feddag.reports.contents import Contents, Table
from feddag.reports.words import caveats, lead, title

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")


def report_markdown(contents: Contents) -> str:
    graph, record, trust = contents.graph, contents.record, contents.trust
    sent = sum(contents.learner.communication_.sent.values())
    facts = Table(
        ("", ""),
        (
            ("Variables", len(graph.names)),
            ("Edges", len(contents.edges)),
            ("of open direction", len(graph.undirected_edges)),
            ("Sites", len(record["sites"])),
            ("Rows", contents.rows),
            ("Sent by all sites", format_size(sent)),
            ("Method", record["method"]),
            ("Regime", record["regime"]),
            ("Took", format_duration(contents.learner.seconds_)),
            ("Finished", record["finished"]),
        ),
    )
    parts = [f"# {title(contents)}", lead(contents), _table(facts), "## The edges"]
    parts.append(_table(contents.edge_table) if contents.edges else "There are none.")
    parts.append("## How far to trust it")
    if trust.verdict:
        parts.append(f"**{_plain(trust.verdict)}**")
    parts += [f"- Caution: {_plain(warning)}" for warning in trust.warnings]
    for caption, table in trust.tables.items():
        parts += [f"### {caption}", _table(table)]
    if contents.stability is not None:
        parts += [
            "### How often each edge comes back when every site draws its rows again",
            _table(Table.of(contents.stability.to_dict("records"))),
        ]
    if not trust.verdict and contents.stability is None:
        parts.append("Beyond the edges' own figures nothing was checked. Take the graph as a hypothesis.")
    parts += ["## What the graph does not mean", "\n".join(f"- {_plain(text)}" for text in caveats(contents))]
    parts += [
        "## Sites and data",
        "Only counts and sums over a site's rows are known here.",
        *([] if contents.spent_privacy is None else [contents.spent_privacy]),
        _table(contents.site_table),
    ]
    parts.append("## To learn it again")
    if contents.command is not None:
        parts.append("\n".join(f"    {line}" for line in contents.command.splitlines()))
    parts += [
        _table(Table(("parameter", "value"), tuple((name, str(value)) for name, value in contents.parameters.items()))),
        _table(Table(("software", "version"), tuple(contents.versions.items()))),
    ]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    lines = [table.headings, ("---",) * len(table.headings)]
    text = ["| " + " | ".join(each if k == 1 else _plain(each) for each in line) + " |" for k, line in enumerate(lines)]
    return "\n".join(
        [*text, *("| " + " | ".join(_plain(format_value(cell)) for cell in row) + " |" for row in table.rows)]
    )


def _plain(text: str) -> str:
    """A name stays a name, whatever Markdown or HTML would make of it."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
