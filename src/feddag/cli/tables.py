"""Graphs as tables on stdout."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any, Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddag.graphs import CausalGraph
from feddag.learners import Learner

Verdict = Literal["found", "open", "missing", "extra", "reversed"]

_LOOKS: dict[Verdict, tuple[str, str]] = {
    "found": ("✓", "green"),
    "open": ("?", "cyan"),
    "missing": ("✗", "red"),
    "extra": ("+", "yellow"),
    "reversed": ("↔", "magenta"),
}


class Edge(NamedTuple):
    """An edge as the tables show it."""

    source: str
    target: str
    directed: bool

    def __str__(self) -> str:
        return f"{self.source} {'→' if self.directed else '—'} {self.target}"


class _NoTerminal(Console):
    """A console for files and pipes: it cuts no name, and leaves no blanks at the end of a line."""

    def __init__(self) -> None:
        super().__init__(highlight=False, width=10_000)

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def stdout() -> Console:
    """Make the console for results, which suits a terminal as well as a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else _NoTerminal()


def edges_of(graph: CausalGraph) -> list[Edge]:
    """List the edges of a graph, the directed ones first."""
    return [Edge(*ends, directed=True) for ends in graph.edges] + [
        Edge(*ends, directed=False) for ends in graph.undirected_edges
    ]


def judged_edges(estimate: CausalGraph, truth: CausalGraph) -> list[tuple[Edge, Verdict]]:
    """Judge every pair with an edge in either graph by the rules of `compare`.

    An edge is `open` if the truth directs it and the estimate does not.
    """
    estimated = {frozenset(edge[:2]): edge for edge in edges_of(estimate)}
    true = {frozenset(edge[:2]): edge for edge in edges_of(truth)}
    judged = []
    for pair in map(frozenset, combinations(truth.names, 2)):
        ours, theirs = estimated.get(pair), true.get(pair)
        if theirs is None and ours is not None:
            judged.append((ours, "extra"))
        elif theirs is not None and ours is None:
            judged.append((theirs, "missing"))
        elif theirs is not None and ours is not None:
            judged.append((theirs, _verdict(ours, theirs)))
    return judged


def _verdict(ours: Edge, theirs: Edge) -> Verdict:
    """Judge an estimated edge of a pair that the truth joins, too; the ends of undirected edges have no order."""
    if not ours.directed:
        return "open" if theirs.directed else "found"
    return "found" if ours == theirs else "reversed"


def edge_table(graph: CausalGraph) -> Table:
    """Make a table of the learned edges and their scores; an undirected edge has the higher of its two."""
    table = bare_table("edge")
    if graph.scores is None:
        for edge in edges_of(graph):
            table.add_row(Text(str(edge)))
        return table
    table.add_column("score", justify="right")
    index = {name: position for position, name in enumerate(graph.names)}
    for edge in edges_of(graph):
        source, target = index[edge.source], index[edge.target]
        forth, back = graph.scores[source, target], graph.scores[target, source]
        table.add_row(Text(str(edge)), f"{forth if edge.directed else max(forth, back):.2f}")
    return table


def show_edges(console: Console, learned: Learner) -> None:
    """Print the edges of a learned graph, and those that may be chance."""
    console.print(edge_table(learned.graph_))
    if learned.doubtful_edges:
        names = ", ".join(f"{cause} -> {effect}" for cause, effect in learned.doubtful_edges)
        console.print(f"Perhaps chance: {names}", markup=False, soft_wrap=True)


def verdict_table(judged: Iterable[tuple[Edge, Verdict]]) -> Table:
    """Make a table of edges and their verdicts."""
    table = bare_table("edge")
    table.add_column("")
    for edge, verdict in judged:
        sign, colour = _LOOKS[verdict]
        table.add_row(Text(str(edge)), f"[{colour}]{sign} {verdict}[/]")
    return table


def bare_table(*headings: str) -> Table:
    """Make a table without lines. These columns hold names, which are folded where the terminal is narrow."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
