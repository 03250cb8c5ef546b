"""Graphs as tables on stdout."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddag.graphs import CausalGraph, Edge, GraphMetrics, compare
from feddag.learners import Learner

Verdict = Literal["found", "open", "missing", "extra", "reversed"]

_LOOKS: dict[Verdict, tuple[str, str]] = {
    "found": ("✓", "green"),
    "open": ("?", "cyan"),
    "missing": ("✗", "red"),
    "extra": ("+", "yellow"),
    "reversed": ("↔", "magenta"),
}


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


def shown(edge: Edge) -> str:
    """Return an edge as the tables show it."""
    return f"{edge.source} {edge.symbol} {edge.target}"


def judged_edges(estimate: CausalGraph, truth: CausalGraph) -> list[tuple[list[Edge], Verdict]]:
    """Judge every pair with an edge in either graph by the rules of `compare`.

    A pair is `open` if the estimate joins it and leaves open what the truth has there. An edge is the true one, if
    there is one; where hidden common causes are possible, a pair may have two.
    """
    judged: list[tuple[list[Edge], Verdict]] = []
    for pair in combinations(truth.names, 2):
        ours, theirs = estimate.subgraph(pair), truth.subgraph(pair)
        edges = theirs.marked_edges or ours.marked_edges
        if edges:
            judged.append((edges, _verdict(compare(ours, theirs))))
    return judged


def _verdict(metrics: GraphMetrics) -> Verdict:
    if metrics.missing:
        return "missing"
    if metrics.extra:
        return "extra"
    if metrics.reversed:
        return "reversed"
    return "open" if metrics.left_open else "found"


def edge_table(graph: CausalGraph) -> Table:
    """Make a table of the learned edges and their scores; an edge that is not directed has the higher of its two."""
    table = bare_table("edge")
    if graph.scores is not None:
        table.add_column("score", justify="right")
    for edge in graph.marked_edges:
        score = [] if graph.scores is None else [f"{graph.score_of(edge):.2f}"]
        table.add_row(Text(shown(edge)), *score)
    return table


def show_edges(console: Console, learned: Learner) -> None:
    """Print the edges as they are drawn, those that may be chance, and those that a hidden cause may explain.

    An arrow alone is a sure cause; `o->` is an effect only if nothing is hidden.
    """
    console.print(edge_table(learned.drawn_graph))
    if learned.doubtful_edges:
        names = ", ".join(f"{cause} -> {effect}" for cause, effect in learned.doubtful_edges)
        console.print(f"Perhaps chance: {names}", markup=False, soft_wrap=True)
    for state, edges in learned.confounded_edges.items():
        if edges:
            names = ", ".join(f"{cause} - {effect}" for cause, effect in edges)
            console.print(f"A hidden common cause is {state}: {names}", markup=False, soft_wrap=True)
    _show_groups(console, learned)


def _show_groups(console: Console, learned: Learner) -> None:
    """Print whether sites fall into groups with different graphs, and these."""
    if learned.groups_in_words:
        console.print(learned.groups_in_words, markup=False, soft_wrap=True)
    for words, graph in learned.graphs_of_groups.items():
        edges = ", ".join(map(shown, graph.marked_edges)) or "no edge"
        console.print(f"{words}: {edges}", markup=False, soft_wrap=True)


def verdict_table(judged: Iterable[tuple[list[Edge], Verdict]]) -> Table:
    """Make a table of edges and their verdicts."""
    table = bare_table("edge")
    table.add_column("")
    for edges, verdict in judged:
        sign, colour = _LOOKS[verdict]
        table.add_row(Text(", ".join(map(shown, edges))), f"[{colour}]{sign} {verdict}[/]")
    return table


def bare_table(*headings: str) -> Table:
    """Make a table without lines. These columns hold names, which are folded where the terminal is narrow."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
