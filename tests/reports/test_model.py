"""A report has one model, and every format shows all of it."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from feddag import FeddagError, load
from feddag.cli import app
from feddag.disclosure import Disclosure
from feddag.disclosure.kept import keep
from feddag.drawing.formats import format_size, format_value
from feddag.reports import write_report
from feddag.reports.blocks import Bullets, Code, Courses, GraphDrawing, Paragraph, Subheading, Table
from feddag.reports.command import command_again
from feddag.reports.edges import describe_edges, edge_values
from feddag.reports.markdown import plain
from feddag.reports.model import build_report
from feddag.runs import Run
from feddag.runs.folder import write_record
from same_graphs import same

QUICK = {"model": "linear", "it_inner": 10, "it_fl": 5, "rho_max": 0.1}


def report_of(folder):
    return build_report(Run.open(folder))


def table(report, name):
    return next(each for each in report.find(Table) if each.name == name)


def charts(report):
    return [chart for block in report.find(Courses) for chart in block.charts]


@pytest.fixture(scope="session")
def checked_run(run_of):
    """A search with all that a run can hold."""
    folder = run_of("search", ["NA", "b", "1"], restarts=0)  # names that a table might take for gaps and numbers
    run = Run.open(folder)
    run.assess()
    run.stability(bootstraps=2)
    run.mechanisms()
    return folder


DESCRIBED = {"type": "continuous", "unit": "mg", "label": "Dose per day", "range": [0.5, 120.0]}


@pytest.fixture
def network_run(copied, notears_run):
    """A run whose tables stayed at its sites."""
    folder = copied(notears_run)
    record = Run.open(folder).record | {
        "federated": True,
        "sites": [{"name": "Basel"}, {"name": "Lyon"}],
        "data": {"missing": "error"},
        "study": {
            "name": "asthma",
            "digest": "0" * 64,
            "trust": {"assess": True},
            "privacy": {"secure_sum": True},
            "variables": dict.fromkeys(Run.open(folder).record["columns"], DESCRIBED),
        },
        "privacy": {"epsilon": 0.5, "of": 2.0, "delta": 1e-5},
        "federation": {
            "rounds": 3,
            "rows": 4321,
            "absent": {"Lyon": "not connected"},
            "refused": {},
            "from_journal": 1,
            "seconds": 90.0,
            "sums": {"Basel": 3, "Lyon": 2},
            "not_assessed": "The graph is not assessed: Lyon refused.",
        },
        "started": "2026-01-31T23:00:00+00:00",
        "finished": "2026-02-01T01:05:00+00:00",
    }
    write_record(folder, record)
    return folder


@pytest.fixture(params=["checked", "network", "alone", "hostile"])
def any_run(request, run_of):
    if request.param == "alone":
        return run_of("notears", ["a", "b", "c"], regime="voting")
    return request.getfixturevalue(f"{request.param}_run")


def texts(block):
    match block:
        case Subheading() | Paragraph() | Code():
            return [block.text]
        case Bullets():
            return list(block.items)
        case Courses():
            return [chart.title for chart in block.charts]
        case GraphDrawing():
            return list(block.graph.names)
        case _:
            return []


def test_every_format_shows_every_section_text_and_table(any_run, page_of):
    report, page = report_of(any_run), page_of(any_run).text
    markdown = write_report(any_run, format="md").read_text(encoding="utf-8")
    assert len(report.sections) == 8
    words = [report.title, report.lead, *(section.heading for section in report.sections)]
    words += [word for fact in report.facts for word in (fact.name, fact.value, fact.more)]
    words += [text for block in report.blocks() for text in texts(block)]
    for text in words:
        assert " ".join(text.split()) in page
        assert plain(text) in markdown or text in markdown  # code stands as it is
    for each in report.find(Table):
        for row in (each.headings, *(tuple(map(format_value, row)) for row in each.rows)):
            assert " ".join(" ".join(row).split()) in page
            assert f"| {' | '.join(map(plain, row))} |" in markdown


def test_checks_in_the_folder_are_shown(copied, notears_run, checked_run):
    assert "no checks" in report_of(notears_run).find(Paragraph)[1].text
    report, run = report_of(checked_run), Run.open(checked_run)
    assessment = run.assessment()
    verdict = [each.text for each in report.find(Paragraph) if each.role == "verdict"]
    assert verdict == [assessment.verdict]
    warnings = [each.items for each in report.find(Bullets) if each.role == "warnings"]
    assert not assessment.warnings or assessment.warnings in warnings
    shown = table(report, "How well the graph predicts rows held out, compared with others")
    assert [row[0] for row in shown.rows] == [each.graph for each in assessment.held_out]
    assert len(table(report, "The evidence for each edge").rows) == len(run.table("edge_evidence"))
    mechanisms = "How well its causes explain each variable, and whether sites differ in that"
    assert len(table(report, mechanisms).rows) == len(run.mechanisms_table())

    folder = copied(notears_run)
    (folder / "trust.json").write_text("{")
    with pytest.raises(FeddagError, match=r"trust\.json is not an assessment"):
        write_report(folder)


def test_what_a_study_releases_is_shown_if_the_folder_holds_it(copied, notears_run):
    folder = copied(notears_run)
    found = Disclosure("0" * 64, "Basel", 3, 2, 13, 3, protected=True, noise=False, rows=40, variables=3, fewest_rows=7)
    keep(folder, found)
    shown = table(report_of(folder), "What the study releases about the table of Basel")
    assert [row[0] for row in shown.rows] == ["Numbers per value", "Fewest sites, fewest rows", "A lying server adds"]
    (folder / "disclosure.json").write_text("{")
    with pytest.raises(FeddagError, match=r"disclosure\.json: This is no disclosure"):
        write_report(folder)


def test_stability_is_the_confidence_where_it_is_known(copied, notears_run):
    folder = copied(notears_run)
    edges = load(folder).graph_.edges
    rows = [
        {"cause": cause, "effect": effect, "frequency": 1 - k / 10, "low": 0.2, "high": 1.0, "driving_site": "Lyon"}
        for k, (cause, effect) in enumerate(edges)
    ]
    pd.DataFrame(rows).to_csv(folder / "stability.csv", index=False)
    drawing = report_of(folder).find(GraphDrawing)[0]
    assert drawing.meaning == "share of redrawn tables with the edge"
    assert [(edge.source, edge.target) for edge in drawing.edges] == edges
    assert [edge.strength for edge in drawing.edges] == pytest.approx([1 - k / 10 for k in range(len(edges))])
    assert drawing.edges[0].numbers["hangs on site"] == "Lyon"


def test_an_edge_that_redrawn_tables_often_lack_is_drawn_pale(copied, notears_run, page_of):
    folder = copied(notears_run)
    first, *others = load(folder).graph_.edges
    rows = [{"cause": cause, "effect": effect, "frequency": 1.0} for cause, effect in others]
    rows.append({"cause": first[0], "effect": first[1], "frequency": 0.5})
    pd.DataFrame(rows).to_csv(folder / "stability.csv", index=False)
    assert [(edge.source, edge.target) for edge in describe_edges(Run.open(folder)) if edge.doubtful] == [first]
    page = page_of(folder)
    assert len(page.all("g", "doubtful")) == 1
    assert "A pale line is doubtful" in page.text


def test_the_evidence_of_a_search_is_the_confidence(run_of):
    run = Run.open(run_of("search", ["a", "b", "c"], restarts=0))
    edges = describe_edges(run)
    assert edges
    assert edge_values(run)[0] == "log-evidence for the edge"
    assert all("evidence lost without it" in edge.numbers for edge in edges)
    table = next(table for table in build_report(run).find(Table) if table.name == "The evidence for each edge")
    assert table.headings[:4] == ("cause", "effect", "sure cause", "present")  # a narrow page shows these first


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("notears", {"l1": 0.03}),
        ("var-sortnregress", {}),
        ("search", {"restarts": 1, "tiers": [["a"], ["b", "c"]], "forbidden": [["c", "b"]], "start": ["a", "c", "b"]}),
        ("empty", {}),
        ("feddag", {"sharing": "none", **QUICK}),
    ],
)
def test_the_command_leads_to_the_same_parameters(run_of, tmp_path, method, parameters):
    folder = run_of(method, ["a", "b", "c"], **parameters)
    words = shlex.split(command_again(Run.open(folder)))
    words[words.index("--out") + 1] = str(tmp_path / "again")
    result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    one, other = Run.open(folder).record, Run.open(tmp_path / "again").record
    for name in ("method", "regime", "parameters", "columns"):
        assert one[name] == other[name]
    assert [site["name"] for site in one["sites"]] == [site["name"] for site in other["sites"]]
    assert same(load(folder).graph_, load(tmp_path / "again").graph_)


def test_sites_that_learned_alone_have_curves_of_their_own_and_votes(run_of):
    report = report_of(run_of("notears", ["a", "b", "c"], regime="voting"))
    assert report.find(GraphDrawing)[0].meaning == "share of the sites' votes"
    assert "sites whose own graph has it" in table(report, "Edges").headings
    assert all(set(chart.lines) == {"Basel", "Lyon"} for chart in charts(report))
    assert "Each site learned alone" in report.lead


def test_a_federation_shows_the_loss_of_each_site(run_of):
    folder = run_of("feddag", ["a", "b", "c"], **QUICK)
    report = report_of(folder)
    assert {"loss", "h"} <= {chart.identifier for chart in charts(report)}
    sites, history = table(report, "Sites"), pd.read_csv(folder / "history.csv")
    assert sites.rows[0][sites.headings.index("loss at the end")] == pytest.approx(history["loss[Basel]"].iloc[-1])


@pytest.mark.parametrize(
    ("method", "parameters"), [("feddag", QUICK), ("search", {"restarts": 0}), ("notears-admm", {"it_max": 4})]
)
def test_what_was_sent_grows_round_by_round_up_to_the_total(run_of, method, parameters):
    folder = run_of(method, ["a", "b", "c"], **parameters)
    chart = next(chart for chart in charts(report_of(folder)) if chart.identifier == "bytes_sent")
    assert (np.diff(chart.mean) >= 0).all()
    assert chart.mean[-1] == sum(load(folder).communication_.sent.values())
    assert not chart.logarithmic
    first, last = format_size(chart.mean[0]), format_size(chart.mean[-1])
    assert f"{chart.title}, from {first} to {last}" in write_report(folder).read_text()


def test_sites_that_learned_alone_have_sent_nothing(run_of):
    report = report_of(run_of("feddag", ["a", "b", "c"], sharing="none", **QUICK))
    assert "bytes_sent" not in [chart.identifier for chart in charts(report)]


def test_a_network_run_shows_what_the_server_knows(network_run):
    report = report_of(network_run)
    facts = {fact.name: (fact.value, fact.more) for fact in report.facts}
    assert facts["Rows"] == ("4,321", "in all")
    assert facts["Took"] == ("1 min 30 s", "from the first sum to the last")  # not the time of reading it
    assert facts["Sites"] == ("2", "1 absent at the end")
    assert table(report, "Sites").headings == ("site", "bytes sent", "bytes received")
    assert not report.find(Code)
    told = " ".join(each.text for each in report.find(Paragraph))
    assert "For the checks, in sums over all sites: the number of rows, and the sum of each variable" in told
    assert "ε = 0.5 was spent of 2" in told
    assert "0" * 64 in told
    assert "Sums were protected" in told
    assert "tables with missing values were refused; units are as they are" in told
    assert report.title.startswith("asthma: causal graph of ")
    shown = table(report, "Variables")
    assert shown.headings == ("variable", "type", "label", "unit", "range")
    assert shown.rows[0][1:] == ("continuous", "Dose per day", "mg", "0.5 to 120")

    warnings = [each.items for each in report.find(Bullets) if each.role == "warnings"]
    assert warnings == [
        (
            "Site 'Lyon' was out of reach at the end: not connected",
            "Site 'Lyon' is in 2 of 3 sums.",
            "1 of 3 rounds come from the server's journal: no site was asked for them again.",
            "The graph is not assessed: Lyon refused.",
        )
    ]

    record = json.loads((network_run / "run.json").read_text())
    less = {"study": {"digest": "0" * 64, "trust": {"assess": False}}, "federation": {"rows": None}}
    write_record(network_run, record | less)
    report = report_of(network_run)
    assert "For the checks" not in " ".join(each.text for each in report.find(Paragraph))
    facts = {fact.name: fact.value for fact in report.facts}
    assert "Rows" not in facts
    assert facts["Took"] == "2 h 5 min"  # of the run, where the server told no time
    assert "warnings" not in [each.role for each in report.find(Bullets)]
