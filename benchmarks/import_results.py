"""Bring the results of `comparison.csv` and `methods.csv` into the store of the experiments, so that none is run again.

    .venv/bin/python benchmarks/import_results.py

They were kept without graph, memory and bytes: these stay empty. What the store holds already stays as it is.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cells import CELLS
from feddag.experiments import Cell, Store
from feddag.experiments.result import METRICS, Result, identified
from feddag.experiments.settings import Simulated

HERE = Path(__file__).parent
STORE = HERE / "results.sqlite"
_UNKNOWN = ("peak_memory", "bytes_sent", "bytes_received", "graph", "history", "data_digest", "python", "machine")


def setting(cell: str, data: str = "raw") -> Simulated:
    known = CELLS[cell]
    return Simulated(known.functions, known.graph, known.nodes, known.rows, data=data.replace(" ", "-"))  # pyright: ignore[reportArgumentType]


def compared() -> Iterator[tuple[Cell, dict[str, Any], dict[str, str]]]:
    """Of `comparison.csv`: the cell, its metrics, and the row."""
    for row in rows("comparison.csv"):
        where = setting(row["cell"], row["data"])
        parameters: dict[str, Any] = {"sharing": "graph" if where.functions == "mixed" else "all"}
        if row["method"] == "feddag" and where.functions == "linear":
            parameters["model"] = "linear"
        if row["method"] == "search-equal-noise":
            parameters["noise"] = "equal"
        method = "feddag" if row["method"] == "feddag" else "search"
        edges, extra, missing, reversed_ = (int(row[name]) for name in ("edges", "extra", "missing", "reversed"))
        found = edges - missing + extra
        metrics = {
            "shd": float(row["shd"]),
            "tpr": (edges - missing - reversed_) / edges,
            "fdr": (extra + reversed_) / max(found, 1),
            "nnz": found,
            "missing": missing,
            "extra": extra,
            "reversed": reversed_,
            "true_edges": edges,
        }
        yield Cell(where, method, "federated", int(row["seed"]), parameters), metrics, row


def by_method() -> Iterator[tuple[Cell, dict[str, Any], dict[str, str]]]:
    """Of `methods.csv`."""
    for row in rows("methods.csv"):
        cell = Cell(setting(row["cell"]), row["method"], row["regime"], int(row["seed"]))  # pyright: ignore[reportArgumentType]
        yield cell, {"shd": float(row["shd"]), "tpr": float(row["tpr"])}, row


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def main() -> None:
    store = Store(STORE)
    found = [*compared(), *by_method()]
    there = store.of(cell for cell, *_ in found)
    for cell, metrics, row in found:
        if cell.key in there:
            continue
        empty = dict.fromkeys((*METRICS, "true_edges", "started", "finished", *_UNKNOWN))
        told = {**empty, **metrics, "seconds": float(row["seconds"]), "feddag": row["version"]}
        store.keep(Result(**identified(cell), **told))
    print(f"{len(found) - len(there)} results imported, {len(there)} were there already.")


if __name__ == "__main__":
    main()
