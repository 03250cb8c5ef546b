"""The edges of a run's graph, with the numbers that are known of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from feddag.drawing.formats import heading
from feddag.drawing.scales import edge_value, strengths
from feddag.graphs import Edge
from feddag.runs import Run

OFTEN = 0.8
"""The share of redrawn tables below which an edge is to be distrusted."""
SITES_WITH_IT = "sites whose own graph has it"
_NO_NUMBERS = ("cause", "effect", "learned")

Values = dict[tuple[str, str], float]


@dataclass(frozen=True)
class DrawnEdge:
    """An edge of the graph, with the numbers that are known of it."""

    edge: Edge
    strength: float
    """From 0 to 1, for its width."""
    numbers: dict[str, Any]
    """By heading; the first is the one that the width stands for."""
    doubtful: bool = False
    """Whether the evidence leaves open that it is there, or redrawn tables often lack it."""

    def __str__(self) -> str:
        return f"{self.source} {self.edge.symbol} {self.target}"

    @property
    def source(self) -> str:
        """The variable that it begins at: of a directed edge, the cause."""
        return self.edge.source

    @property
    def target(self) -> str:
        """The variable that it ends at: of a directed edge, the effect."""
        return self.edge.target

    @property
    def directed(self) -> bool:
        """Whether the source is a cause of the target."""
        return self.edge.directed

    @property
    def value(self) -> float:
        """The number that the width stands for."""
        return next(iter(self.numbers.values()))


def edge_values(run: Run) -> tuple[str, Values]:
    """Return the number by which edges are compared: what it means, and its value for each pair that has one."""
    learner, stability = run.result(), run.stability_table()
    if stability is not None:
        columns = (stability[name].tolist() for name in ("cause", "effect", "frequency"))
        shares = {(cause, effect): float(share) for cause, effect, share in zip(*columns, strict=True)}
        return "share of redrawn tables with the edge", shares
    scores, names = learner.edge_scores_.to_numpy(), learner.graph_.names
    values = {(names[i], names[j]): float(scores[i, j]) for i in range(len(names)) for j in range(len(names)) if i != j}
    if run.record.get("regime") == "voting":
        return "share of the sites' votes", values
    if run.table("edge_evidence") is not None:
        return "log-evidence for the edge", values
    return "edge score", values


def describe_edges(run: Run) -> tuple[DrawnEdge, ...]:
    """Describe each edge of the graph, the strongest first."""
    learner, stability = run.result(), run.stability_table()
    meaning, values = edge_values(run)
    graph = learner.drawn_graph
    edges = graph.marked_edges
    found = [
        edge_value(
            values.get((edge.source, edge.target), 0.0),
            values.get((edge.target, edge.source), 0.0),
            directed=edge.directed,
        )
        for edge in edges
    ]
    tables = [
        (run.table("edge_evidence"), {"frequency": "share of searches with it"}),
        (stability, {"frequency": meaning}),
    ]
    drawn = []
    widths = strengths(found, shares=stability is not None)
    for edge, value, strength in zip(edges, found, widths, strict=True):
        numbers: dict[str, Any] = {meaning: value}
        for table, headings in tables:
            if table is not None:
                numbers |= _find_row(table, edge, headings)
        if learner.learned_alone:
            site_graphs = learner.site_graphs_.values()
            numbers[SITES_WITH_IT] = sum(
                bool(each.adjacency[each.names.index(edge.source), each.names.index(edge.target)])
                for each in site_graphs
            )
        unsure = numbers.get(heading("present")) in (False, "False")
        seldom = stability is not None and value < OFTEN
        drawn.append(DrawnEdge(edge, strength, numbers, doubtful=unsure or seldom))
    return tuple(sorted(drawn, key=lambda edge: -edge.strength))


def _find_row(table: pd.DataFrame, edge: Edge, headings: dict[str, str]) -> dict[str, Any]:
    """Find the numbers of an edge in a table; of an edge that is not directed in either direction."""
    ends = (edge.source, edge.target), (edge.target, edge.source)
    for cause, effect in ends[: 1 if edge.directed else 2]:
        found = table[(table["cause"] == cause) & (table["effect"] == effect)]
        if len(found):
            record = {str(name): value for name, value in found.iloc[0].dropna().items() if name not in _NO_NUMBERS}
            return {headings.get(name, heading(name)): value for name, value in record.items()}
    return {}
