"""Read and write graphs in the formats of other tools.

| format      | file name      | keeps                                                                  |
|-------------|----------------|------------------------------------------------------------------------|
| `edges`     | `*.edges.csv`  | a row per edge: `source,target` and, if there are any, `score`         |
| `adjacency` | `*.csv`        | the 0/1 matrix under a row and beside a column of names; no scores     |
| `dot`       | `*.dot`        | a drawing, for Graphviz; reads back what `write_graph` wrote           |
| `graphml`   | `*.graphml`    | nodes and edges, with the scores of the edges                          |
| `json`      | `*.json`       | everything, as networkx's node-link data; all scores                   |

An undirected edge is both of its directions, as in the adjacency (in `dot`, one line without an arrow head).
A graph that allows hidden common causes has edges of further kinds (`feddag.graphs.marks`). Then each edge stands once:
an edge list and GraphML and JSON have `source_mark` and `target_mark` (tail, arrow or circle), and the matrix
has these words in place of 0 and 1: that of row i and column j stands at j.
An edge list knows only nodes that have an edge: `read_graph` takes `names` for the others and for the order.
Where a file keeps the scores of its edges only, the other pairs are read with the score 0.
In a `.csv`, a name that a spreadsheet would run as a formula has an apostrophe before it, which is removed on reading.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from feddag.errors import FeddagError
from feddag.files import as_text, atomic_write, from_text
from feddag.graphs.causal_graph import CausalGraph
from feddag.graphs.marks import ARROW, BOTH, CIRCLE, NONE, TAIL, Edge, Mark

GraphFormat = Literal["edges", "adjacency", "dot", "graphml", "json"]

_FORMAT_OF_ENDING: dict[str, GraphFormat] = {
    ".edges.csv": "edges",  # before .csv, which it also ends in
    ".csv": "adjacency",
    ".dot": "dot",
    ".graphml": "graphml",
    ".json": "json",
}


def write_graph(
    graph: CausalGraph,
    path: str | os.PathLike[str],
    format: GraphFormat | None = None,  # noqa: A002 - the word every reader expects here
) -> None:
    """Write a graph in `format`, or in the format that the file name ends in.

    A file that exists is replaced whole or, if something fails, not at all.

    Examples:
        >>> import feddag
        >>> feddag.write_graph(feddag.CausalGraph([[0, 1], [0, 0]], ["rain", "river"]), "graph.edges.csv")
        >>> print(open("graph.edges.csv").read(), end="")
        source,target
        rain,river
    """
    text = _RENDERERS[_format_of(path, format)](graph)
    with atomic_write(path) as stream:
        stream.write(text)


def read_graph(
    path: str | os.PathLike[str],
    format: GraphFormat | None = None,  # noqa: A002
    *,
    names: Sequence[str] | None = None,
) -> CausalGraph:
    """Read a graph that `write_graph`, or another tool, wrote.

    A `.csv` whose first row begins with `source,target` is an edge list, whatever the file is called.

    `names` are the nodes in the order wanted. An edge list needs them if some node has no edge; any other
    file must have exactly these nodes.

    Examples:
        >>> import feddag
        >>> feddag.write_graph(feddag.CausalGraph([[0, 1], [0, 0]], ["rain", "river"]), "graph.edges.csv")
        >>> feddag.read_graph("graph.edges.csv", names=["river", "rain", "sun"]).edges
        [('rain', 'river')]
    """
    try:
        content = Path(path).read_bytes()
        its_format = _format_of(path, format)
        text = content.decode("utf-8-sig")  # spreadsheets put a byte order mark in front
        if format is None and its_format == "adjacency" and _names_ends(text):
            its_format = "edges"
        return _PARSERS[its_format](text, names if names is None else list(names))
    except FileNotFoundError:
        raise FeddagError(f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise FeddagError(f"{path}: the file cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise FeddagError(f"{path}: byte {error.start} is not UTF-8. Save the file as UTF-8 text.") from None
    except csv.Error as error:
        raise FeddagError(f"{path}: this is not a CSV file ({error}). Check its quotes.") from None
    except FeddagError as error:
        raise FeddagError(f"{path}: {error}") from None


def _format_of(path: str | os.PathLike[str], given: GraphFormat | None) -> GraphFormat:
    known = get_args(GraphFormat)
    if given is not None and given not in known:
        raise FeddagError(f"format must be one of {', '.join(known)}. Got {given!r} instead.")
    if given is not None:
        return given
    name = os.fspath(path).lower()
    for ending, its_format in _FORMAT_OF_ENDING.items():
        if name.endswith(ending):
            return its_format
    raise FeddagError(
        f"{path}: the file name does not tell the format. End it in one of {', '.join(_FORMAT_OF_ENDING)}, "
        f"or give format as one of {', '.join(known)}."
    )


def _names_ends(text: str) -> bool:
    """Return whether a CSV file is an edge list by its first row."""
    return next(csv.reader(io.StringIO(text, newline="")), [])[:2] == ["source", "target"]


def _render_edges(graph: CausalGraph) -> str:
    scores = graph.scores
    if graph.allows_hidden_causes:
        return _render_marked_edges(graph)
    rows = [["source", "target"] if scores is None else ["source", "target", "score"]]
    for i, j in np.argwhere(graph.adjacency):
        score = [] if scores is None else [repr(float(scores[i, j]))]
        rows.append([as_text(graph.names[i]), as_text(graph.names[j]), *score])
    return _render_csv(rows)


_MARK_COLUMNS = ("source_mark", "target_mark")


def _render_marked_edges(graph: CausalGraph) -> str:
    rows = [["source", "target", *_MARK_COLUMNS, *([] if graph.scores is None else ["score"])]]
    for edge in graph.marked_edges:
        score = [] if graph.scores is None else [repr(graph.score_of(edge))]
        rows.append([as_text(edge.source), as_text(edge.target), edge.at_source, edge.at_target, *score])
    return _render_csv(rows)


def _parse_edges(text: str, names: Sequence[str] | None) -> CausalGraph:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    columns = list(reader.fieldnames or [])
    if not {"source", "target"} <= set(columns):
        raise FeddagError(f"the first row must name the columns source and target. Got {columns} instead.")
    marked = set(_MARK_COLUMNS) <= set(columns)
    graph = nx.MultiDiGraph() if marked else nx.DiGraph()
    graph.add_nodes_from(names or [])
    for row in reader:
        ends = from_text(row["source"] or ""), from_text(row["target"] or "")
        for column, node in zip(("source", "target"), ends, strict=True):
            if not node:
                raise FeddagError(f"line {reader.line_num}, column {column!r} is empty. Name a node there.")
            if names is not None and node not in names:
                raise FeddagError(
                    f"line {reader.line_num}, column {column!r} has {node!r}, which is none of the variables: "
                    f"{', '.join(names)}. Correct the file."
                )
        if not marked and graph.has_edge(*ends):
            raise FeddagError(f"line {reader.line_num} repeats the edge {ends[0]!r} -> {ends[1]!r}. Keep one.")
        attributes: dict[str, Any] = {}
        if "score" in columns:
            attributes["score"] = _number(row["score"], reader.line_num, "score")
        if marked:
            attributes |= {column: _mark(row[column], reader.line_num, column) for column in _MARK_COLUMNS}
        graph.add_edge(*ends, **attributes)
    if not graph:
        raise FeddagError("the edge list has no edges, so it names no nodes. Give an adjacency matrix, or the names.")
    return _in_order(CausalGraph.from_networkx(graph), names)


def _mark(cell: str | None, line: int, column: str) -> str:
    if cell is None or cell not in get_args(Mark):
        raise FeddagError(f"line {line}, column {column!r} has {cell or ''!r}. Write tail, arrow or circle there.")
    return cell


_CELL_OF_MARK = {NONE: "0", TAIL: "tail", ARROW: "arrow", BOTH: "tail and arrow", CIRCLE: "circle"}
_MARK_OF_CELL = {cell: mark for mark, cell in _CELL_OF_MARK.items()}


def _render_adjacency(graph: CausalGraph) -> str:
    names = [as_text(name) for name in graph.names]
    marks = graph.marks.tolist()
    cells = [[_CELL_OF_MARK[mark] for mark in row] for row in marks] if graph.allows_hidden_causes else graph.adjacency
    rows = [[name, *map(str, entries)] for name, entries in zip(names, cells, strict=True)]
    return _render_csv([["", *names], *rows])


def _parse_adjacency(text: str, names: Sequence[str] | None) -> CausalGraph:
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, [])
    if len(header) < 2:
        raise FeddagError(f"the first row must be an empty cell and the names of the nodes. Got {header} instead.")
    columns = list(map(from_text, header[1:]))
    if _names_ends(text):
        raise FeddagError("this is an edge list. Read it with format='edges', or without a format.")
    adjacency: list[list[float]] = []
    marked = _has_marks(text)
    for row in filter(None, reader):
        expected = columns[len(adjacency)] if len(adjacency) < len(columns) else None
        name = from_text(row[0])
        if name != expected:
            raise FeddagError(
                f"line {reader.line_num} is the row of {name!r} where the first row has {expected!r}. "
                "Give rows and columns the same names in the same order."
            )
        if len(row) != len(columns) + 1:
            raise FeddagError(
                f"line {reader.line_num} has {len(row) - 1} entries for {len(columns)} columns. Give one per column."
            )
        adjacency.append([])
        for column, cell in zip(columns, row[1:], strict=True):
            entry = _MARK_OF_CELL.get(cell, -1) if marked else _number(cell, reader.line_num, column)
            if marked and entry == -1:
                raise FeddagError(
                    f"line {reader.line_num}, column {column!r} has {cell!r}. Write one of {', '.join(_MARK_OF_CELL)}."
                )
            if not marked and entry not in (0, 1):
                raise FeddagError(
                    f"line {reader.line_num}, column {column!r} has {cell!r}. Write 1 for an edge, else 0."
                )
            adjacency[-1].append(entry)
    if len(adjacency) < len(columns):
        raise FeddagError(f"there is no row of {columns[len(adjacency)]!r}. Give one row per column.")
    return _in_order((CausalGraph.from_marks if marked else CausalGraph)(adjacency, columns), names)


def _has_marks(text: str) -> bool:
    """Return whether some cell of a matrix, beside the names, is a mark in words."""
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    return any(cell in _MARK_OF_CELL and cell != "0" for row in rows for cell in row[1:])


_DOT_HEADS = {"tail": "none", "arrow": "normal", "circle": "odot"}


def _render_dot(graph: CausalGraph) -> str:
    lines = [f"  {_dot_quoted(name)};" for name in graph.names]
    for edge in graph.marked_edges:
        attributes = []
        if edge.kind == "--":
            attributes.append("dir=none")
        elif not edge.directed:
            heads = _DOT_HEADS[edge.at_source], _DOT_HEADS[edge.at_target]
            attributes.append(f"dir=both, arrowtail={heads[0]}, arrowhead={heads[1]}")
        if graph.scores is not None and edge.directed:
            attributes.append(f'label="{graph.score_of(edge):.2f}"')
        suffix = f" [{', '.join(attributes)}]" if attributes else ""
        lines.append(f"  {_dot_quoted(edge.source)} -> {_dot_quoted(edge.target)}{suffix};")
    return "\n".join(["digraph {", *lines, "}", ""])


_DOT_NAME = r'"((?:[^"\\]|\\.)*)"'
_DOT_NODE = re.compile(rf"{_DOT_NAME};")
_DOT_EDGE = re.compile(rf"{_DOT_NAME} -> {_DOT_NAME}(?: \[(.*)\])?;")
_DOT_MARKS: dict[str, Mark] = {"none": "tail", "normal": "arrow", "odot": "circle"}


def _parse_dot(text: str, names: Sequence[str] | None) -> CausalGraph:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if lines[:1] != ["digraph {"] or lines[-1:] != ["}"]:
        raise FeddagError(
            "this is not a drawing that write_graph wrote. Use GraphML or JSON for graphs of other tools."
        )
    nodes, edges = [], []
    for line in lines[1:-1]:
        if node := _DOT_NODE.fullmatch(line):
            nodes.append(_dot_unquoted(node[1]))
        elif edge := _DOT_EDGE.fullmatch(line):
            edges.append(Edge(_dot_unquoted(edge[1]), _dot_unquoted(edge[2]), *_dot_marks(edge[3] or "")))
        else:
            raise FeddagError(f"the line {line!r} is none that write_graph writes. Use GraphML or JSON instead.")
    unknown = [end for edge in edges for end in edge[:2] if end not in nodes]
    if unknown:
        raise FeddagError(f"an edge names {unknown[0]!r}, which is not among the nodes. Add a line for it.")
    return _in_order(CausalGraph.from_edges(edges, nodes), names)


def _dot_marks(attributes: str) -> tuple[Mark, Mark]:
    found = dict(re.findall(r"(\w+)=(\w+)", attributes))
    if found.get("dir") == "none":
        return "tail", "tail"
    heads = found.get("arrowtail", "none"), found.get("arrowhead", "normal")
    unknown = [head for head in heads if head not in _DOT_MARKS]
    if unknown:
        raise FeddagError(f"{unknown[0]!r} is no end of an edge. Use one of {', '.join(_DOT_MARKS)}.")
    return _DOT_MARKS[heads[0]], _DOT_MARKS[heads[1]]


def _dot_unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], text)


def _dot_quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# https://www.w3.org/TR/xml/#charsets: the characters that XML cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _render_graphml(graph: CausalGraph) -> str:
    for name in graph.names:
        if _NOT_XML.search(name):
            raise FeddagError(f"GraphML cannot hold the control character in the name {name!r}. Rename the variable.")
    buffer = io.BytesIO()
    nx.write_graphml_xml(graph.to_networkx(), buffer)
    return buffer.getvalue().decode("utf-8")


def _parse_graphml(text: str, names: Sequence[str] | None) -> CausalGraph:
    try:
        graph = nx.parse_graphml(text)
    except (ParseError, nx.NetworkXException, KeyError, ValueError) as error:
        raise FeddagError(f"this is not a GraphML file ({error}). Export it again.") from None
    return _in_order(CausalGraph.from_networkx(graph), names)


def _render_json(graph: CausalGraph) -> str:
    network = graph.to_networkx()
    if graph.scores is not None:
        network.graph["scores"] = graph.scores.tolist()
    return json.dumps(nx.node_link_data(network, edges="edges"), ensure_ascii=False, indent=1) + "\n"


def _parse_json(text: str, names: Sequence[str] | None) -> CausalGraph:
    try:
        document = json.loads(text)
        network = nx.node_link_graph(document, directed=True, multigraph=False, edges="edges")
        listed = [node["id"] for node in document["nodes"]]
        scores = document.get("graph", {}).get("scores")
        graph = CausalGraph.from_networkx(network)
    except json.JSONDecodeError as error:
        raise FeddagError(f"this is not JSON ({error}). Correct it there.") from None
    except (AttributeError, KeyError, TypeError, nx.NetworkXException) as error:
        raise FeddagError(
            f"this is not node-link data ({type(error).__name__}: {error}). "
            'Give {"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"source": "a", "target": "b"}]}.'
        ) from None
    odd = [name for name in graph.names if listed.count(name) != 1]
    if odd:
        raise FeddagError(f"nodes and edges disagree on {odd}. List every node exactly once under nodes.")
    if scores is not None:
        graph = CausalGraph.from_marks(graph.marks, graph.names, scores)
    return _in_order(graph, names)


def _render_csv(rows: list[list[str]]) -> str:
    buffer = io.StringIO(newline="")
    # The csv module quotes a cell for every special character but a lone carriage return.
    carriage_return = any("\r" in cell for row in rows for cell in row)
    quoting = csv.QUOTE_ALL if carriage_return else csv.QUOTE_MINIMAL
    csv.writer(buffer, lineterminator="\n", quoting=quoting).writerows(rows)
    return buffer.getvalue()


def _number(cell: str | None, line: int, column: str) -> float:
    try:
        return float(cell or "")
    except ValueError:
        raise FeddagError(f"line {line}, column {column!r} has {cell or ''!r}. Write a number there.") from None


def _in_order(graph: CausalGraph, names: Sequence[str] | None) -> CausalGraph:
    return graph if names is None else graph.reordered(names)


_RENDERERS: dict[GraphFormat, Callable[[CausalGraph], str]] = {
    "edges": _render_edges,
    "adjacency": _render_adjacency,
    "dot": _render_dot,
    "graphml": _render_graphml,
    "json": _render_json,
}

_PARSERS: dict[GraphFormat, Callable[[str, Sequence[str] | None], CausalGraph]] = {
    "edges": _parse_edges,
    "adjacency": _parse_adjacency,
    "dot": _parse_dot,
    "graphml": _parse_graphml,
    "json": _parse_json,
}
