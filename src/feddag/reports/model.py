"""The sections of a report, built once from a run: every format renders the same ones.

To add a section, write a function that returns its blocks and name it in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pandas as pd

from feddag.deployment.server import journal_note
from feddag.disclosure import figures
from feddag.disclosure.kept import kept
from feddag.drawing.charts import make_charts
from feddag.drawing.formats import format_duration, format_size, heading
from feddag.drawing.layout import lay_out
from feddag.graphs import CausalGraph
from feddag.learners.registry import METHODS
from feddag.reports.blocks import (
    Block,
    Bullets,
    Code,
    Columns,
    Courses,
    Fact,
    GraphDrawing,
    Matrix,
    Paragraph,
    Picture,
    Report,
    Section,
    Subheading,
    Table,
)
from feddag.reports.command import command_again
from feddag.reports.edges import SITES_WITH_IT, describe_edges, edge_values
from feddag.runs import Run
from feddag.trust.tasks import LEAVES_SITE as ASSESSMENT_LEAVES_SITE

_NO_DATA = ("random", "empty")


def build_report(run: Run) -> Report:
    """Build the report of a finished run.

    Raises:
        FeddagError: If the run has not finished.
    """
    learner = run.result()
    graph = learner.drawn_graph
    drawing = GraphDrawing(graph, describe_edges(run), edge_values(run)[0], lay_out(graph))
    return Report(
        _title(run),
        _lead(run),
        run.record["finished"],
        run.record["feddag"],
        tuple(_facts(run)),
        tuple(Section(name, words, tuple(build(run, drawing))) for name, (words, build) in SECTIONS.items()),
    )


def _title(run: Run) -> str:
    variables, sites = len(run.result().graph_.names), len(run.record["sites"])
    words = f"ausal graph of {variables} variables, learned from {sites} {'site' if sites == 1 else 'sites'}"
    name = (run.record.get("study") or {}).get("name")
    return f"C{words}" if name is None else f"{name}: c{words}"


def _lead(run: Run) -> str:
    if run.record["method"] in _NO_DATA:
        return "A graph for comparison: it does not depend on the data."
    if run.record["regime"] == "all":
        return "Learned from the rows of all sites in one table."
    if run.result().learned_alone:
        return "Each site learned alone, and the graph combines what they found. No row left its site."
    return "The sites learned together. No row left its site: only sums did."


def _facts(run: Run) -> list[Fact]:
    learner, record = run.result(), run.record
    graph = learner.graph_
    history, rows = learner.history_frame(), _rows(run)
    rounds = _federation(run).get("rounds", len(history) if "round" in history else 0)
    lost = len({**_federation(run).get("absent", {}), **_federation(run).get("refused", {})})
    return [
        Fact("Variables", f"{len(learner.graph_.names):,}"),
        Fact("Edges", f"{graph.edge_count:,}", _unsure(graph)),
        Fact("Sites", f"{len(record['sites']):,}", f"{lost:,} absent at the end" if lost else ""),
        *([] if rows is None else [Fact("Rows", f"{rows:,}", "in all")]),
        Fact(
            "Sent by all sites",
            format_size(sum(learner.communication_.sent.values())),
            f"in {rounds:,} rounds" if rounds > 1 else "",
        ),
        Fact("Method", record["method"], "" if record["regime"] == "federated" else record["regime"]),
        Fact("Took", format_duration(_seconds(run)), "from the first sum to the last" if _study_seconds(run) else ""),
    ]


def _federation(run: Run) -> dict[str, Any]:
    """Return what a network run knows of its federation."""
    return run.record.get("federation", {})


def _study_seconds(run: Run) -> float | None:
    return _federation(run).get("seconds")


def _unsure(graph: CausalGraph) -> str:
    """Say how many edges are not those of a cause and its effect."""
    hidden = len(graph.bidirected_edges)
    open_ = graph.edge_count - len(graph.edges) - hidden
    parts = [f"{open_:,} of open direction"] if open_ else []
    return ", ".join(parts + ([f"{hidden:,} by hidden causes"] if hidden else []))


def _rows(run: Run) -> int | None:
    """Return the rows of all sites together; `None` if a network run never asked for their sum."""
    if run.record.get("federated"):
        return _federation(run).get("rows")
    return sum(site["rows"] for site in run.record["sites"])


def _seconds(run: Run) -> float:
    """Return how long learning took. On a network that includes all waiting, and it is the study's time: a run that
    takes its result from the journal is shorter.
    """
    if (seconds := _study_seconds(run)) is not None:
        return seconds
    if not run.record.get("federated"):
        return run.result().seconds_
    started, finished = (datetime.fromisoformat(run.record[name]) for name in ("started", "finished"))
    return (finished - started).total_seconds()


def _graph(run: Run, drawing: GraphDrawing) -> list[Block]:
    if not drawing.edges:
        return [Paragraph("No edges were found.", "note"), drawing, *_groups(run)]
    undirected = drawing.graph.edge_count > len(drawing.graph.edges)
    text = "Causes stand above their effects."
    if undirected and drawing.graph.edges:
        text = "Where there is an arrow, the cause stands above its effect. Other lines have no order."
    elif undirected:
        text = "No edge goes from a cause to its effect: what stands above or below means nothing."
    return [Paragraph(text, "note"), drawing, *_groups(run)]


def _groups(run: Run) -> list[Block]:
    """Draw the graphs of groups of sites, where the method was to find such."""
    learner = run.result()
    if not learner.groups_in_words:
        return []
    blocks: list[Block] = [Subheading("Groups of sites"), Paragraph(learner.groups_in_words)]
    if learner.graphs_of_groups:
        blocks.append(Paragraph("The graph above is that of all sites together.", "note"))
    for words, graph in learner.graphs_of_groups.items():
        blocks += [Paragraph(words, "note"), Picture(graph)]
    return blocks


_READ_FIRST = ("cause", "effect", "sure_cause", "present", "directed", "confounding")
"""Columns of the evidence that a narrow page shows without scrolling."""


def _evidence_table(run: Run) -> pd.DataFrame | None:
    table = run.table("edge_evidence")
    if table is None:
        return None
    first = [name for name in _READ_FIRST if name in table]
    return table[[*first, *table.columns.drop(first)]]


def _effects_table(run: Run) -> pd.DataFrame | None:
    tables = [
        each.table().assign(cause=each.cause, effect=each.effect).set_index(["cause", "effect"]).reset_index()
        for each in run.effects_kept().values()
    ]
    return pd.concat(tables, ignore_index=True) if tables else None


def _trust(run: Run, drawing: GraphDrawing) -> list[Block]:
    blocks: list[Block] = []
    assessment = run.assessment()
    confounded = run.result().confounded_edges
    if any(confounded.values()):
        texts = [_CONFOUNDED[state].format(_listed(edges)) for state, edges in confounded.items() if edges]
        blocks.append(Bullets(tuple(texts), "warnings"))
    if assessment is None and run.result().failed_checks:
        blocks.append(Bullets(tuple(map(str, run.result().failed_checks)), "warnings"))
    if assessment is not None:
        blocks.append(Paragraph(assessment.verdict, "verdict"))
        if assessment.warnings:
            blocks.append(Bullets(assessment.warnings, "warnings"))
        sorting = {name: value for name, value in asdict(assessment.sortability).items() if value is not None}
        if sorting:
            rows = tuple((heading(name), value) for name, value in sorting.items())
            words = "How far sorting the variables gives the same order"
            blocks += [Subheading(words), Table(words, ("measure", "value"), rows)]
        if assessment.held_out:
            words = "How well the graph predicts rows held out, compared with others"
            blocks += [Subheading(words), Table.of(words, map(asdict, assessment.held_out))]
    for words, text, table in (
        ("How often each edge comes back when every site draws half of its rows", "", run.stability_table()),
        ("How well its causes explain each variable, and whether sites differ in that", "", run.mechanisms_table()),
        (
            "By how much a variable changes another in all, if the graph is right",
            "The change of the effect for a unit of the cause, adjusted for the cause's parents; a row for each set of "
            "parents that it may have. Over all sites: weighted by rows, and as a mean over sites that may differ "
            "(τ²: by how much), with its 95 % interval.",
            _effects_table(run),
        ),
        (
            "How well graphs of other parameters predict rows laid aside",
            "The mean negative log-likelihood of a row: lower is better. The graph above is that of the study's own "
            "parameters.",
            run.table("tuning"),
        ),
        (
            "The evidence for each edge",
            "How much log-evidence the graph loses without the edge, or with the edge reversed. A loss below two "
            "standard errors may be chance. A common cause that nobody measured is ruled out, possible (it explains "
            "the data as well) or likely (it explains them better). Rely only on edges that are called a sure cause: "
            "their direction is sure, and a hidden common cause is ruled out.",
            _evidence_table(run),
        ),
        (
            "Whether the data are as the method assumes them",
            "How far the causes explain the size and shape of a variable's noise beyond chance; and the share of all "
            "rows that are at sites where two columns look like copies, or few values make up most of the spread.",
            run.table("checks"),
        ),
    ):
        if table is not None:
            blocks += [
                Subheading(words),
                *([Paragraph(text, "note")] if text else []),
                Table.of(words, table.to_dict("records")),
            ]
    if not blocks:
        text = "The run holds no checks of the graph, only the edge scores. Treat the graph as a hypothesis."
        blocks.append(Paragraph(text, "note"))
    return blocks


_CONFOUNDING = heading("confounding")
_CONFOUNDED = {
    "likely": "A common cause that nobody measured is likely, rather than an effect of one on the other: {}.",
    "possible": "A common cause that nobody measured would explain the data as well as an effect: {}.",
}


def _listed(edges: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{cause} and {effect}" for cause, effect in edges)


def _meaning(run: Run, drawing: GraphDrawing) -> list[Block]:
    method = METHODS.get(run.record["method"])
    texts = [
        "An arrow means: if the method's assumptions hold, one variable acts directly on the other, given the other "
        "variables in the table. It comes from observation, not from an experiment. Treat it as a hypothesis to test.",
        _about_hidden_causes(drawing.graph),
        "A missing arrow does not prove that there is no effect: few rows do not show weak effects, and an effect may "
        "pass through other variables.",
        "The width of an edge shows how much speaks for the edge, not how large the effect is.",
        "The graph has no cycles: if two variables act on each other in turn, it shows at most one direction.",
        "One graph describes all sites. If causes differ at one of them, the graph is wrong there.",
        "If rows were selected by something that the variables act on (only patients who were admitted, for example), "
        "arrows may reflect that selection.",
    ]
    if any(edge.doubtful for edge in drawing.edges):
        texts.insert(
            1, "A pale line is doubtful: the evidence does not settle that it is there, or redrawn tables lack it."
        )
    if drawing.graph.allows_hidden_causes:
        texts.insert(1, _ABOUT_CIRCLES)
    if drawing.graph.undirected_edges:
        texts.insert(1, "A dashed line joins two variables. The data do not show which one acts on the other.")
    if method is not None and method.name not in _NO_DATA:
        texts.append(f"The method “{method.name}” assumes: {method.assumptions}")
    return [Bullets(tuple(texts), "meaning")]


_ABOUT_CIRCLES = (
    "A line with two heads (↔) stands for a common cause that nobody measured, not for an effect of one variable on "
    "the other. A circle at an end is open: the variable there may be a cause, or a hidden common cause may join both."
)


def _about_hidden_causes(graph: CausalGraph) -> str:
    if graph.allows_hidden_causes:
        return (
            "Common causes that nobody measured are allowed for. Where a line has a circle or two heads, do not take "
            "it for the effect of one variable on the other."
        )
    return (
        "A common cause that nobody measured can add an arrow, or reverse one. The method assumes that there is none."
    )


def _edges(run: Run, drawing: GraphDrawing) -> list[Block]:
    if not drawing.edges:
        return [Paragraph("There are none.", "note")]
    headings = [drawing.meaning] + ([SITES_WITH_IT] if run.result().learned_alone else [])
    if all(_CONFOUNDING in edge.numbers for edge in drawing.edges):
        headings.append(_CONFOUNDING)
    rows = tuple((str(edge), *(edge.numbers[name] for name in headings)) for edge in drawing.edges)
    return [
        Paragraph("The strongest come first. An arrow points from cause to effect.", "note"),
        Table("Edges", ("edge", *headings), rows),
    ]


def _matrix(run: Run, drawing: GraphDrawing) -> list[Block]:
    text = "Rows are causes, columns are effects, in the order of the drawing: all arrows lie above the diagonal."
    return [Paragraph(text, "note"), Matrix(drawing)]


def _history(run: Run, drawing: GraphDrawing) -> list[Block]:
    method, charts = METHODS.get(run.record["method"]), make_charts(run.result().history_frame())
    blocks: list[Block] = [] if method is None else [Paragraph(f"{method.summary} {method.reference}", "note")]
    if not charts:
        return [*blocks, Paragraph("The method recorded nothing that changes from round to round.", "note")]
    return [*blocks, Courses(tuple(charts))]


def _sites(run: Run, drawing: GraphDrawing) -> list[Block]:
    texts = [
        "This report holds only counts and sums over a site's rows.",
        _what_left_a_site(run),
        _protection(run),
        _spent_privacy(run),
        _preparation(run),
    ]
    names = drawing.graph.names
    return [
        *(Paragraph(text, "note") for text in texts if text),
        *_lost_sites(run),
        _site_table(run),
        *_disclosure(run),
        Subheading(f"The {len(names)} variables"),
        _variables(run, names),
    ]


def _variables(run: Run, names: Sequence[str]) -> Block:
    """Name the variables, with what the study says of them."""
    declared = (run.record.get("study") or {}).get("variables")
    if not declared:
        return Paragraph(", ".join(names), "names")
    keys = [key for key in ("label", "unit", "transform", "range") if any(key in each for each in declared.values())]
    rows = tuple(
        (name, declared[name]["type"], *(_in_words(declared[name].get(key)) for key in keys)) for name in names
    )
    return Table("Variables", ("variable", "type", *keys), rows)


def _in_words(value: Any) -> str:
    return " to ".join(f"{each:g}" for each in value) if isinstance(value, list) else str(value or "")


def _protection(run: Run) -> str:
    """Say what protected the sums of a network run."""
    terms = (run.record.get("study") or {}).get("privacy")
    if not run.record.get("federated") or terms is None:
        return ""
    if terms["secure_sum"]:
        return "Sums were protected: nobody, the server included, could see one site's numbers."
    return "Sums were not protected: the server saw each site's numbers before it summed them."


def _preparation(run: Run) -> str:
    prepared = run.preparation
    missing = {
        "error": "tables with missing values were refused",
        "drop": "rows with missing values were left out",
        "impute": "missing values were replaced by values of the site's own that go with the rest of the row",
    }[prepared.missing]
    scale = {
        "none": "units are as they are",
        "site": "each site scaled its columns by its own moments",
        "federated": "columns were scaled by the moments of all sites",
    }[prepared.scale]
    return f"Preparation: {missing}; {scale}."


def _disclosure(run: Run) -> list[Block]:
    """Show what the study releases about one site's table, if the run's folder holds the figures."""
    found = kept(run.folder)
    if found is None:
        return []
    words = f"What the study {'has released' if found.took_place else 'releases'} about the table of {found.site}"
    rows = tuple((figure.name, figure.value, figure.sentence) for figure in figures(found))
    return [Subheading(words), Table(words, ("figure", "value", "meaning"), rows)]


def _lost_sites(run: Run) -> list[Block]:
    federation = _federation(run)
    texts = [
        f"Site {site!r} {words}: {reason}"
        for name, words in (("absent", "was out of reach at the end"), ("refused", "did not go on"))
        for site, reason in federation.get(name, {}).items()
    ]
    rounds, sums = federation.get("rounds", 0), federation.get("sums", {})
    texts += [f"Site {site!r} is in {count} of {rounds} sums." for site, count in sums.items() if count < rounds]
    if federation.get("from_journal"):
        texts.append(journal_note(federation["from_journal"], rounds))
    if federation.get("not_assessed"):
        texts.append(federation["not_assessed"])
    account = federation.get("tables", {}).get("account")
    texts += federation.get("tables", {}).get("warnings", [])
    return [
        *([Paragraph(f"{account}.")] if account else []),
        *([Bullets(tuple(texts), "warnings")] if texts else []),
    ]


def _what_left_a_site(run: Run) -> str:
    parts, study = [run.result().leaves_site()], run.record.get("study") or {}
    if run.record.get("federated") and study.get("trust", {}).get("assess"):
        parts.append(ASSESSMENT_LEAVES_SITE)
    return " ".join(["What left a site:", *parts])


def _spent_privacy(run: Run) -> str:
    privacy = run.record.get("privacy")
    if privacy is None:
        return ""
    return (
        f"Differential privacy of each {privacy.get('of_each', 'site')}: "
        f"ε = {privacy['epsilon']:.3g} was spent of {privacy['of']:g}, "
        f"at δ = {privacy['delta']:g}."
    )


def _site_table(run: Run) -> Table:
    learner, sites = run.result(), [site["name"] for site in run.record["sites"]]
    history, sent, received = learner.history_frame(), learner.communication_.sent, learner.communication_.received
    last: Any = history.iloc[-1] if len(history) else {}
    columns: dict[str, list[Any]] = {"site": sites}
    if not run.record.get("federated"):
        columns["rows"] = [site["rows"] for site in run.record["sites"]]
    accounts = run.accounts()
    for words, counts in (
        ("rows left out", {site: account.rows_dropped for site, account in accounts.items()}),
        ("values put in", {site: sum(account.imputed.values()) for site, account in accounts.items()}),
    ):
        if any(counts.values()):
            columns[words] = [counts.get(site) for site in sites]
    for name, words in (("loss", "loss at the end"), ("fit", "of this, misfit")):
        if any(f"{name}[{site}]" in last for site in sites):
            columns[words] = [last.get(f"{name}[{site}]") for site in sites]
    columns["bytes sent"] = [sent.get(site, 0) for site in sites]
    columns["bytes received"] = [received.get(site, 0) for site in sites]
    return Table("Sites", tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _again(run: Run, drawing: GraphDrawing) -> list[Block]:
    record, command = run.record, command_again(run)
    started, finished = (record[name].replace("T", " ").replace("+00:00", " UTC") for name in ("started", "finished"))
    blocks: list[Block] = [] if command is None else [Code(command)]
    if record.get("study"):
        blocks.append(Paragraph(f"The sites agreed on a study. Its digest is {record['study']['digest']}."))
    blocks.append(Paragraph(f"Started {started}, finished {finished}."))
    parameters = tuple((name, str(value)) for name, value in record["parameters"].items())
    versions = tuple({"feddag": record["feddag"], **record.get("versions", {})}.items())
    tables = (
        Table("Parameters", ("parameter", "value"), parameters),
        Table("Versions", ("software", "version"), versions),
    )
    return [*blocks, Columns(tuple((Subheading(table.name), table) for table in tables if table.rows))]


SECTIONS: dict[str, tuple[str, Callable[[Run, GraphDrawing], list[Block]]]] = {
    "graph": ("The graph", _graph),
    "trust": ("How far to trust it", _trust),
    "meaning": ("What the graph does not mean", _meaning),
    "edges": ("The edges", _edges),
    "matrix": ("As a matrix", _matrix),
    "history": ("How it was learned", _history),
    "sites": ("Sites and data", _sites),
    "again": ("To learn it again", _again),
}
"""By identifier, in the order of the report."""
