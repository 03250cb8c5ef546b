"""Real tables of several sites, bundled with the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

from feddag.graphs import CausalGraph, read_graph
from feddag.silos.reading import as_silos
from feddag.silos.silo import Silo


@dataclass(frozen=True)
class RealData:
    """Sites' tables, the graph that the literature agrees on, and where they come from."""

    silos: tuple[Silo, ...]
    truth: CausalGraph
    source: str
    licence: str


def sachs() -> RealData:
    """11 proteins of human T cells under 9 experimental conditions, 7,466 cells in all; raw, not logged.

    Each condition perturbs the cells differently: conditions 3 to 7, and parts of 8 and 9, are interventions.
    """
    with as_file(files(__name__) / "sachs") as folder:
        tables = sorted(path for path in folder.glob("*.csv") if path.stem != "truth_edges")
        silos = as_silos(tables)
        truth = read_graph(folder / "truth_edges.csv", format="edges", names=silos[0].columns)
    return RealData(
        silos,
        truth,
        "Sachs et al., Causal Protein-Signaling Networks Derived from Multiparameter Single-Cell Data, Science 2005.",
        "CC0",
    )
