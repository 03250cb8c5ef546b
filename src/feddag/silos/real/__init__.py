"""Real tables of several sites: bundled with the package, or read from a folder of the user's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph, read_graph
from feddag.silos.reading import read_silos
from feddag.silos.silo import Silo

_TRUTH = "truth_edges.csv"
HIPPOCAMPUS_DAYS, HIPPOCAMPUS_ROWS, HIPPOCAMPUS_REGIONS = 10, 500, 6


@dataclass(frozen=True)
class RealData:
    """Sites' tables, the graph that the literature agrees on if there is one, and where they come from."""

    silos: tuple[Silo, ...]
    truth: CausalGraph | None
    source: str
    licence: str
    exogenous: tuple[str, ...] = ()
    """Variables that nothing can have caused: an edge into one of them is wrong, whatever the truth."""


def sachs() -> RealData:
    """11 proteins of human T cells under 9 experimental conditions, 7,466 cells in all; raw, not logged.

    Each condition perturbs the cells differently: conditions 3 to 7, and parts of 8 and 9, are interventions.
    """
    with as_file(files(__name__) / "data" / "sachs") as folder:
        silos, truth = _tables_of(folder)
    return RealData(
        silos,
        truth,
        "Sachs et al., Causal Protein-Signaling Networks Derived from Multiparameter Single-Cell Data, Science 2005.",
        "CC0",
    )


def fmri9() -> RealData:
    """8 regions of the brain and the stimulus `I`, of 9 people who judged whether words rhyme; 160 scans of each.

    Nobody knows the true graph, but that nothing in the brain causes the stimulus.
    """
    with as_file(files(__name__) / "data" / "fmri9") as folder:
        silos, _ = _tables_of(folder)
    return RealData(
        silos, None, "Ramsey et al., Six Problems for Causal Inference from fMRI, NeuroImage 2010.", "CC0", ("I",)
    )


def hippocampus(folder: Path) -> RealData:
    """Read the paper's real data from a folder: 6 regions around the hippocampus on 10 days, 500 scans of each.

    The recording (Poldrack et al. 2015, 84 days) may not be passed on, so it is not bundled. The folder has a table for
    each day (.csv), of which the first 10 by name are taken (day2 before day10), and of each the first 500 rows; and
    `truth_edges.csv`, the anatomical graph as an edge list.
    """
    if not folder.is_dir():
        raise FeddagError(f"{folder} is not a folder. Name one with a table for each day, and {_TRUTH}.")
    silos, truth = _tables_of(folder)
    if len(silos) < HIPPOCAMPUS_DAYS:
        raise FeddagError(f"{folder}: {len(silos)} tables are too few. Give one for each of {HIPPOCAMPUS_DAYS} days.")
    silos = silos[:HIPPOCAMPUS_DAYS]
    for silo in silos:
        if len(silo.columns) != HIPPOCAMPUS_REGIONS or silo.rows < HIPPOCAMPUS_ROWS:
            raise FeddagError(
                f"Site {silo.name!r}: {folder} must have {HIPPOCAMPUS_REGIONS} columns and at least {HIPPOCAMPUS_ROWS} "
                f"rows a day. Got {len(silo.columns)} columns and {silo.rows} rows instead."
            )
    if truth is None:
        raise FeddagError(f"{folder} has no {_TRUTH}. Put the anatomical graph there, one edge per line.")
    return RealData(
        tuple(Silo(silo.name, silo.columns, silo.values[:HIPPOCAMPUS_ROWS]) for silo in silos),
        truth,
        "Poldrack et al., Long-Term Neural and Physiological Phenotyping of a Single Human, Nature Commun. 2015.",
        "the user's own",
    )


def _tables_of(folder: Path) -> tuple[tuple[Silo, ...], CausalGraph | None]:
    """Read a site from each file, in the order of their numbers, and the true graph where the folder has one."""
    tables = sorted((path for path in folder.glob("*.csv") if path.name != _TRUTH), key=_numbered)
    if not tables:
        raise FeddagError(f"{folder} has no .csv file. Name a folder with a table for each site.")
    silos = read_silos(tables)
    truth = folder / _TRUTH
    return silos, read_graph(truth, format="edges", names=silos[0].columns) if truth.exists() else None


def _numbered(path: Path) -> list[tuple[int, str]]:
    """Sort day2 before day10."""
    parts = re.split(r"(\d+)", path.stem)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
