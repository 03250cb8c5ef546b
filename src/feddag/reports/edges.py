"""The edges of a run's graph, with the numbers that are known of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from feddag.drawing.formats import heading
from feddag.drawing.scales import edge_value, strengths
from feddag.runs import Run

SITES_WITH_IT = "sites whose own graph has it"
_NO_NUMBERS = ("cause", "effect", "learned")

Values = dict[tuple[str, str], float]


@dataclass(frozen=True)
class DrawnEdge:
    """An edge of the graph, with the numbers that are known of it."""

    source: str
    target: str
    directed: bool
    strength: float
    """From 0 to 1, for its width."""
    numbers: dict[str, Any]
    """By heading; the first is the one that the width stands for."""

    def __str__(self) -> str:
        return f"{self.source} {'→' if self.directed else '—'} {self.target}"

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
    graph = learner.graph_
    pairs = [(*edge, True) for edge in graph.edges] + [(*edge, False) for edge in graph.undirected_edges]
    found = [
        edge_value(values.get((i, j), 0.0), values.get((j, i), 0.0), directed=directed) for i, j, directed in pairs
    ]
    tables = [
        (run.table("edge_evidence"), {"frequency": "share of searches with it"}),
        (stability, {"frequency": meaning}),
    ]
    drawn = []
    widths = strengths(found, shares=stability is not None)
    for (source, target, directed), value, strength in zip(pairs, found, widths, strict=True):
        numbers: dict[str, Any] = {meaning: value}
        for table, headings in tables:
            if table is not None:
                numbers |= _find_row(table, source, target, directed, headings)
        if learner.learned_alone:
            site_graphs = learner.site_graphs_.values()
            numbers[SITES_WITH_IT] = sum(
                bool(each.adjacency[each.names.index(source), each.names.index(target)]) for each in site_graphs
            )
        drawn.append(DrawnEdge(source, target, directed, strength, numbers))
    return tuple(sorted(drawn, key=lambda edge: -edge.strength))


def _find_row(
    table: pd.DataFrame, source: str, target: str, directed: bool, headings: dict[str, str]
) -> dict[str, Any]:
    """Find the numbers of an edge in a table; of an undirected edge in either direction."""
    for cause, effect in ((source, target), (target, source))[: 1 if directed else 2]:
        found = table[(table["cause"] == cause) & (table["effect"] == effect)]
        if len(found):
            record = {str(name): value for name, value in found.iloc[0].dropna().items() if name not in _NO_NUMBERS}
            return {headings.get(name, heading(name)): value for name, value in record.items()}
    return {}
