"""Run methods on the paper's settings and keep every result in `comparison.csv`, beside this file.

    .venv/bin/python benchmarks/compare.py --cells mixed-ER2-10 gp-ER2-10 --methods feddag --seeds 2021-2025

What stands in the file already is not run again, so an interrupted run is simply repeated. Every fit sees the
sites' tables alone; the true graph is opened only to count the errors.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import feddag
from cells import CELLS, DATA, Cell
from store import Store, seeds_of

STORE = Store(
    "comparison.csv",
    ("cell", "data", "method", "seed"),
    ("shd", "extra", "missing", "reversed", "shd_reported", "edges", "seconds", "version"),
)
"""`shd` has every edge directed; `shd_reported` is of the graph as reported, where open directions count as right."""


def feddag_learner(cell: Cell, seed: int) -> Any:
    """The variant with the best published figure: GS for heterogeneous sites, AS otherwise."""
    return feddag.FedDAG(
        sharing="graph" if cell.heterogeneous else "all",
        model="linear" if cell.functions == "linear" else "mlp",
        seed=seed,
    )


def search_learner(cell: Cell, seed: int) -> Any:
    return feddag.EvidenceSearch("graph" if cell.heterogeneous else "all", seed=seed)


def search_with_equal_noise(cell: Cell, seed: int) -> Any:
    return search_learner(cell, seed).set_params(noise="equal")


METHODS = {"feddag": feddag_learner, "search": search_learner, "search-equal-noise": search_with_equal_noise}


def run(cell: Cell, data: str, method: str, seed: int) -> None:
    silos, truth = cell.simulate(seed, data)  # pyright: ignore[reportArgumentType]
    started = time.monotonic()
    learner = METHODS[method](cell, seed).fit(silos)
    seconds = time.monotonic() - started
    metrics = feddag.compare(getattr(learner, "dag_", learner.graph_), truth)
    row = {
        "cell": cell.name,
        "data": data,
        "method": method,
        "seed": seed,
        "shd": metrics.shd,
        "extra": metrics.extra,
        "missing": metrics.missing,
        "reversed": metrics.reversed,
        "shd_reported": feddag.compare(learner.graph_, truth).shd,
        "edges": len(truth.edges),
        "seconds": f"{seconds:.1f}",
        "version": feddag.__version__,
    }
    STORE.keep(row)
    print(f"{cell.name} {data} {method} {seed}: SHD {row['shd']} of {row['edges']} edges, {seconds:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS), metavar="CELL")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", default="2021-2025", type=seeds_of, help="a range such as 2021-2025, or one seed")
    asked = parser.parse_args()
    done = STORE.finished()
    for seed in asked.seeds:
        for name in asked.cells:
            for data in asked.data:
                for method in asked.methods:
                    if (name, data, method, str(seed)) not in done:
                        run(CELLS[name], data, method, seed)


if __name__ == "__main__":
    main()
