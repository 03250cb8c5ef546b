"""The learned graph for DoWhy (`CausalModel(..., graph="graph.gml")`), which estimates and refutes effects further."""

from __future__ import annotations

import os

import networkx as nx

from feddag.errors import FeddagError
from feddag.files import atomic_write
from feddag.graphs import CausalGraph, dag_extension


def write_dowhy(graph: CausalGraph, path: str | os.PathLike[str]) -> None:
    """Write the graph as GML, the format DoWhy prefers; it tells the format by the file's name.

    DoWhy takes DAGs alone: open directions become those of a DAG that the graph stands for, and an edge <-> becomes a
    hidden node that acts on both, which DoWhy knows by its having no column in the data. All stands in one line, so
    that the text itself is accepted as a graph, too.

    Raises:
        FeddagError: An edge has a circle, which no DAG has.
    """
    if not os.fspath(path).endswith(".gml"):
        raise FeddagError(f"{path}: DoWhy knows a file by its ending. End it in .gml.")
    open_ = [edge for edge in graph.marked_edges if "circle" in (edge.at_source, edge.at_target)]
    if open_:
        raise FeddagError(f"DoWhy takes no circles, and the graph has {open_[0]}. Decide such edges by knowledge.")
    network = CausalGraph(dag_extension(graph.adjacency), graph.names).to_networkx()
    for one, other in graph.bidirected_edges:
        hidden = f"hidden cause of {one} and {other}"
        network.add_edges_from([(hidden, one), (hidden, other)])
    with atomic_write(path) as stream:
        stream.write(" ".join(line.strip() for line in nx.generate_gml(network)) + "\n")
