"""The page holds what the run holds, and every name in it stays a name."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from feddag import FeddagError, load
from feddag.drawing.svg import element
from feddag.reports import write_report


def test_the_graph_is_drawn_whole(page_of, random_run):
    folder = random_run(40)
    graph, page = load(folder).graph_, page_of(folder)
    assert len(page.all("g", "node")) == 40
    assert len(page.all("g", "edge")) == len(graph.edges)
    assert len(page.all("rect", "cell")) == len(graph.edges)


def test_undirected_edges_have_no_arrowhead(page_of, run_of):
    folder = run_of("pc", ["a", "b"], regime="all")  # linear and Gaussian: nothing tells the direction
    page = page_of(folder)
    assert load(folder).graph_.undirected_edges == [("a", "b")]
    assert len(page.all("g", "undirected")) == 1
    assert len(page.all("polygon")) == 1  # of the legend
    assert len(page.all("rect", "cell")) == 2
    assert "the data do not show the direction" in page.text


def test_an_edge_that_a_hidden_cause_may_explain_has_a_circle(page_of, run_of):
    folder = run_of("search", ["a", "b"], restarts=0)
    page = page_of(folder)
    assert [each.kind for each in load(folder).drawn_graph.marked_edges] == ["o-o"]
    assert "a o–o b" in page.text
    assert "A circle at an end is open" in page.text


def test_what_was_asked_and_what_came_out_stand_in_words(page_of, notears_run):
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


def test_nothing_is_asked_of_a_network(page_of, notears_run):
    page = page_of(notears_run)
    links = [value for _, each in page.elements for name, value in each.items() if name in ("src", "href")]
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in page.source
    assert "url(" not in page.source
    assert not page.all("img") + page.all("iframe")
    policy = next(each["content"] for each in page.all("meta") if "http-equiv" in each)
    assert "default-src 'none'" in policy


def test_names_cannot_break_out(page_of, hostile_run):
    page, names = page_of(hostile_run), load(hostile_run).graph_.names
    assert not page.all("img")
    assert not page.all("b")
    assert len(page.all("script")) == 2  # the data and the program
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.source, re.DOTALL).group(1))
    assert data["names"] == list(names)
    for name in names:
        assert " ".join(name.split()) in page.text


def test_a_drawing_escapes_all_but_its_own_elements():
    inner = element("i")
    assert element("p", "<b>", inner, title='"x"') == '<p title="&#34;x&#34;">&lt;b&gt;<i></i></p>'


def test_a_graph_without_edges_has_a_report(page_of, run_of):
    assert "No edges were found." in page_of(run_of("empty", ["a", "b"])).text


def test_an_unfinished_run_has_none(tmp_path, run_of):
    folder = shutil.copytree(run_of("empty", ["a", "b"]), tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"status": "running"}))
    with pytest.raises(FeddagError, match=r"has not finished\. Resume it with"):
        write_report(folder)
    assert not (folder / "report.html").exists()
