"""The settings of the paper's tables, and three kinds of data for each: the ground of every comparison here.

The published figures are those of the paper's own tables, which `feddag.experiments` holds.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import Any, Literal

import feddag
from feddag.experiments.published import PUBLISHED

Data = Literal["raw", "standardised", "unequal noise"]
DATA: tuple[Data, ...] = ("raw", "standardised", "unequal noise")
UNEQUAL_NOISE = (0.5, 2.0)
"""Each variable's noise has a standard deviation of its own between these."""


@dataclass(frozen=True)
class Cell:
    """One published setting: 10 sites, a random graph, one kind of mechanism or a mixture that differs by site."""

    functions: str
    graph: str
    """ER2, SF2, ER4 or SF4."""
    nodes: int
    rows: int = 600
    edges_per_node: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges_per_node", int(self.graph[2:]))

    @property
    def name(self) -> str:
        rows = "" if self.rows == 600 else f"-{self.rows}rows"
        return f"{self.functions}-{self.graph}-{self.nodes}{rows}"

    @property
    def heterogeneous(self) -> bool:
        return self.functions == "mixed"

    def simulate(self, seed: int, data: Data) -> tuple[Any, feddag.CausalGraph]:
        """The sites' tables, and the true graph."""
        options: dict[str, Any] = {"heterogeneous": True} if self.heterogeneous else {"mechanism": self.functions}
        if data == "unequal noise":
            options["noise_deviation_range"] = UNEQUAL_NOISE
        simulation = feddag.simulate(
            self.nodes,
            graph=self.graph[:2],
            edges_per_node=self.edges_per_node,
            rows=self.rows,
            seed=seed,
            **options,
        )
        frames = {silo.name: silo.to_frame() for silo in simulation.silos}
        if data == "standardised":
            frames = {site: (frame - frame.mean()) / frame.std(ddof=0) for site, frame in frames.items()}
        return frames, simulation.truth

    def published_rows(self, regime: str, metric: str) -> list[dict[str, str]]:
        """The paper's figures in a regime, one for each method that has one."""
        setting = (self.functions, self.graph, str(self.nodes), str(self.rows), "1.0", regime, metric)
        names = ("functions", "graph", "nodes", "n_per_client", "participation", "regime", "metric")
        with PUBLISHED.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [row for row in rows if row["mean"] and tuple(row[name] for name in names) == setting]

    def published(self, regime: str, method: str = "") -> float | None:
        """The best published mean SHD in a regime, of methods whose name contains this."""
        figures = [float(row["mean"]) for row in self.published_rows(regime, "SHD") if method in row["method"]]
        return min(figures, default=None)


CELLS = {
    cell.name: cell
    for cell in (
        *(Cell("mixed", graph, nodes) for nodes in (10, 20) for graph in ("ER2", "SF2", "ER4", "SF4")),
        *(Cell("mixed", "ER2", 20, rows) for rows in (100, 300, 900)),
        *(Cell("gp", graph, nodes) for nodes in (10, 20) for graph in ("ER2", "SF2", "ER4", "SF4")),
        *(Cell(functions, "ER2", nodes) for nodes in (10, 20) for functions in ("mim", "mlp", "gp-add")),
        *(Cell("linear", graph, nodes) for nodes in (10, 20) for graph in ("ER2", "SF2")),
        *(Cell(functions, graph, 40) for functions in ("mixed", "gp") for graph in ("ER2", "SF2")),
    )
}
