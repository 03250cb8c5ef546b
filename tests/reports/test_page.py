"""The page holds what the run holds, and every name in it stays a name."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from feddag import FeddagError, load
from feddag.cli import app
from feddag.drawing.formats import format_size
from feddag.reports import write_report
from feddag.reports.contents import Contents
from feddag.reports.markup import Markup, json_script, tag
from feddag.runs import Run


class Page(HTMLParser):
    """Its elements, by name and attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    def all(self, name, class_=None):
        return [
            attributes
            for tag, attributes in self.elements
            if tag == name and (class_ is None or class_ in (attributes.get("class") or "").split())
        ]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def copied(tmp_path):
    """A run's folder that a test may write into."""

    def copy(folder):
        return shutil.copytree(folder, tmp_path / "run")

    return copy


def page_of(folder) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))


def test_the_graph_is_drawn_whole(random_run):
    folder = random_run(40)
    graph, page = load(folder).graph_, page_of(folder)
    assert len(page.all("g", "node")) == 40
    assert len(page.all("g", "edge")) == len(graph.edges)
    assert len(page.all("rect", "cell")) == len(graph.edges)


def test_undirected_edges_have_no_arrowhead(run_of):
    folder = run_of("search", ["a", "b"], restarts=0)  # linear and Gaussian: nothing tells the direction
    page = page_of(folder)
    assert load(folder).graph_.undirected_edges == [("a", "b")]
    assert len(page.all("g", "undirected")) == 1
    assert len(page.all("polygon")) == 1  # of the legend
    assert len(page.all("rect", "cell")) == 2
    assert "the data do not tell the direction" in page.text


def test_what_was_asked_and_what_came_out_stand_in_words(notears_run):
    text, learned = page_of(notears_run).text, load(notears_run)
    assert "Causal graph of 5 variables, learned from 2 sites" in text
    for name in learned.graph_.names:
        assert name in text
    for source, target in learned.graph_.edges:
        assert f"{source} → {target}" in text
    assert "Basel" in text
    assert "120" in text  # rows in all
    for name, value in json.loads(json.dumps(learned.get_params())).items():
        assert f"{name} {value}" in text
    assert "h, the distance from a DAG" in text
    assert "hypothesis" in text


def test_nothing_is_asked_of_a_network(notears_run):
    text = write_report(notears_run).read_text(encoding="utf-8")
    page = Page(text)
    links = [value for _, each in page.elements for name, value in each.items() if name in ("src", "href")]
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in text
    assert "url(" not in text
    assert not page.all("img") + page.all("iframe")
    policy = next(each["content"] for each in page.all("meta") if "http-equiv" in each)
    assert "default-src 'none'" in policy


def test_names_cannot_break_out(hostile_run):
    text = write_report(hostile_run).read_text(encoding="utf-8")
    page, names = Page(text), load(hostile_run).graph_.names
    assert not page.all("img")
    assert not page.all("b")
    assert len(page.all("script")) == 2  # the data and the program
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    assert data["names"] == list(names)
    for name in names:
        assert " ".join(name.split()) in page.text


def test_markup_escapes_all_but_itself():
    assert tag("p", "<b>", Markup("<i></i>"), title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;<i></i></p>'
    assert json_script("data", "</script>\u2028") == (
        '<script type="application/json" id="data">"\\u003c/script\\u003e\\u2028"</script>'
    )


def test_checks_in_the_folder_are_shown(copied, notears_run):
    folder = copied(notears_run)
    assert "no checks" in page_of(folder).text
    document = {
        "verdict": "Better than <nothing>.",
        "warnings": ["The order follows the variances."],
        "sortability": {"varsortability": 0.97, "r2_sortability": None},
        "held_out": [{"graph": "learned", "score": -1.25}, {"graph": "empty", "score": -2.5}],
    }
    (folder / "trust.json").write_text(json.dumps(document))
    page = page_of(folder)
    assert "Better than <nothing>." in page.text
    assert "The order follows the variances." in page.text
    assert "variance-sortability 0.97" in page.text
    assert "learned −1.25 empty −2.5" in page.text

    (folder / "trust.json").write_text(json.dumps({"held_out": [["learned", -1.5]]}))
    assert "method score learned −1.5" in page_of(folder).text
    (folder / "trust.json").write_text("{")
    with pytest.raises(FeddagError, match=r"trust\.json is not JSON"):
        write_report(folder)


def test_stability_is_the_confidence_where_it_is_known(copied, notears_run):
    folder = copied(notears_run)
    edges = load(folder).graph_.edges
    rows = [
        {"cause": cause, "effect": effect, "frequency": 1 - k / 10, "low": 0.2, "high": 1.0, "driving_site": "Lyon"}
        for k, (cause, effect) in enumerate(edges)
    ]
    pd.DataFrame(rows).to_csv(folder / "stability.csv", index=False)
    contents = Contents.of_run(folder)
    assert contents.confidence[0] == "share of redrawn tables with the edge"
    assert [(edge.source, edge.target) for edge in contents.edges] == edges
    assert [edge.strength for edge in contents.edges] == pytest.approx([1 - k / 10 for k in range(len(edges))])
    assert contents.edges[0].numbers["hangs on site"] == "Lyon"
    assert "hangs on site" in page_of(folder).text


def test_the_evidence_of_a_search_is_shown(run_of):
    folder = run_of("search", ["NA", "b", "1"], restarts=0)  # names that a table might take for gaps and numbers
    contents = Contents.of_run(folder)
    assert contents.edges
    assert contents.confidence[0] == "log-evidence for the edge"
    assert all("evidence lost without it" in edge.numbers for edge in contents.edges)
    assert "The evidence for each edge" in page_of(folder).text


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("notears", {"l1": 0.03}),
        ("var-sortnregress", {}),
        ("search", {"restarts": 1, "tiers": [["a"], ["b", "c"]], "forbidden": [["c", "b"]], "start": ["a", "c", "b"]}),
        ("empty", {}),
        ("feddag", {"model": "linear", "sharing": "none", "it_inner": 10, "it_fl": 5, "rho_max": 0.1}),
    ],
)
def test_the_command_leads_to_the_same_parameters(run_of, tmp_path, method, parameters):
    folder = run_of(method, ["a", "b", "c"], **parameters)
    words = shlex.split(Contents.of_run(folder).command)
    words[words.index("--out") + 1] = str(tmp_path / "again")
    result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    one, other = Run.open(folder).record, Run.open(tmp_path / "again").record
    for name in ("method", "regime", "parameters", "columns"):
        assert one[name] == other[name]
    assert [site["name"] for site in one["sites"]] == [site["name"] for site in other["sites"]]
    assert load(folder).graph_ == load(tmp_path / "again").graph_


def test_sites_that_learned_alone_have_curves_of_their_own_and_votes(run_of):
    quick = {"model": "linear", "it_inner": 10, "it_fl": 5, "rho_max": 0.1}
    folder = run_of("feddag", ["a", "b", "c"], regime="voting", **quick)
    contents = Contents.of_run(folder)
    assert contents.confidence[0] == "share of the sites' votes"
    assert "sites whose own graph has it" in contents.edge_table.headings
    assert all(set(chart.lines) == {"Basel", "Lyon"} for chart in contents.charts)
    assert "Each site learned alone" in page_of(folder).text


def test_a_federation_shows_the_loss_of_each_site(run_of):
    folder = run_of("feddag", ["a", "b", "c"], model="linear", it_inner=10, it_fl=5, rho_max=0.1)
    contents = Contents.of_run(folder)
    titles = [chart.title for chart in contents.charts]
    assert "Loss of each site" in titles
    assert "h, the distance from a DAG" in titles
    assert "loss at the end" in contents.site_table.headings
    history = pd.read_csv(folder / "history.csv")
    last = contents.site_table.rows[0][contents.site_table.headings.index("loss at the end")]
    assert last == pytest.approx(history["loss[Basel]"].iloc[-1])


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("feddag", {"model": "linear", "it_inner": 10, "it_fl": 5, "rho_max": 0.1}),
        ("search", {"restarts": 0}),
        ("notears-admm", {"it_max": 4}),
    ],
)
def test_what_was_sent_grows_round_by_round_up_to_the_total(run_of, method, parameters):
    folder = run_of(method, ["a", "b", "c"], **parameters)
    contents = Contents.of_run(folder)
    chart = next(chart for chart in contents.charts if chart.title == "Sent by all sites so far")
    assert (np.diff(chart.mean) >= 0).all()
    assert chart.mean[-1] == sum(contents.learner.communication_.sent.values())
    assert not chart.logarithmic
    assert (
        f"{chart.title}, from {format_size(chart.mean[0])} to {format_size(chart.mean[-1])}"
        in write_report(folder).read_text()
    )


def test_sites_that_learned_alone_have_sent_nothing(run_of):
    quick = {"model": "linear", "it_inner": 10, "it_fl": 5, "rho_max": 0.1}
    contents = Contents.of_run(run_of("feddag", ["a", "b", "c"], sharing="none", **quick))
    assert "Sent by all sites so far" not in [chart.title for chart in contents.charts]


def test_a_graph_without_edges_has_a_report(run_of):
    assert "No edges were found." in page_of(run_of("empty", ["a", "b"])).text


def test_an_unfinished_run_has_none(tmp_path, run_of):
    folder = shutil.copytree(run_of("empty", ["a", "b"]), tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"status": "running"}))
    with pytest.raises(FeddagError, match=r"has not finished\. Resume it with"):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_a_run_whose_tables_stayed_elsewhere_has_a_report(copied, notears_run):
    folder = copied(notears_run)
    record = json.loads((folder / "run.json").read_text())
    record |= {"federated": True, "sites": [{"name": "Basel"}, {"name": "Lyon"}], "data": {"missing": "error"}}
    (folder / "run.json").write_text(json.dumps(record))
    contents = Contents.of_run(folder)
    assert "For the checks" not in page_of(folder).text
    (folder / "run.json").write_text(json.dumps(record | {"study": {"digest": "0" * 64, "trust": {"assess": True}}}))
    assert "For the checks: rows, means and covariances" in page_of(folder).text
    assert contents.command is None
    assert contents.site_table.headings == ("site", "bytes sent", "bytes received")
    assert "Rows – in all" in page_of(folder).text
