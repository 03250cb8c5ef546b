from __future__ import annotations

import io

from rich.console import Console

from feddag import CausalGraph
from feddag.cli.tables import edge_table

PDAG = [[0, 1, 1], [1, 0, 0], [0, 0, 0]]


def lines(graph: CausalGraph) -> list[list[str]]:
    stream = io.StringIO()
    Console(file=stream, width=80).print(edge_table(graph))
    return [line.split() for line in stream.getvalue().splitlines()[1:]]


def test_an_undirected_edge_is_shown_once():
    assert lines(CausalGraph(PDAG, ["a", "b", "c"])) == [["a", "→", "c"], ["a", "—", "b"]]


def test_an_undirected_edge_has_the_higher_of_its_scores():
    scores = [[0, 0.3, 0.9], [0.8, 0, 0], [0.95, 0, 0]]
    assert lines(CausalGraph(PDAG, ["a", "b", "c"], scores)) == [["a", "→", "c", "0.90"], ["a", "—", "b", "0.80"]]
