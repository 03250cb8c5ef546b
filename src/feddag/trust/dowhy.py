"""The learned graph for DoWhy (`CausalModel(..., graph="graph.gml")`), which estimates and refutes effects further."""

from __future__ import annotations

import os

import networkx as nx

from feddag.errors import FeddagError
from feddag.files import atomic_write
from feddag.graphs import CausalGraph, dag_extension


def write_dowhy(graph: CausalGraph, path: str | os.PathLike[str]) -> None:
    """Write the graph as GML, the format DoWhy prefers; it tells the format by the file's name.

    DoWhy takes DAGs alone: open directions become those of a DAG that the graph stands for. All stands in one line, so
    that the text itself is accepted as a graph, too.
    """
    if not os.fspath(path).endswith(".gml"):
        raise FeddagError(f"{path}: DoWhy knows a file by its ending. End it in .gml.")
    dag = CausalGraph(dag_extension(graph.adjacency), graph.names)
    with atomic_write(path) as stream:
        stream.write(" ".join(line.strip() for line in nx.generate_gml(dag.to_networkx())) + "\n")
