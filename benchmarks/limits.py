"""What limits the search where it errs: its score, or the search itself? Kept in `limits.csv`, beside this file.

    .venv/bin/python benchmarks/limits.py --cells mlp-ER2-20 gp-ER4-20 --seeds 2021-2022

After the fit, the true graph is scored as well. If it scores better than the graph found, the search has missed it;
if it scores worse, no search with this score would have chosen it.
"""

from __future__ import annotations

import argparse

import feddag
from cells import CELLS, Cell
from compare import search_learner
from store import Store, seeds_of

STORE = Store("limits.csv", ("cell", "seed"), ("shd", "found", "truth"))
"""`found` and `truth` are log-evidence per row."""


def run(cell: Cell, seed: int) -> None:
    silos, truth = cell.simulate(seed, "raw")
    learner = search_learner(cell, seed).fit(silos)
    found, true = learner.log_evidence(silos, learner.dag_), learner.log_evidence(silos, truth)
    shd = feddag.compare(learner.dag_, truth).shd
    STORE.keep({"cell": cell.name, "seed": seed, "shd": shd, "found": f"{found:.5f}", "truth": f"{true:.5f}"})
    limit = "search" if true > found + 1e-9 else "score"
    print(
        f"{cell.name} {seed}: SHD {shd}, log-evidence found {found:.5f}, of the truth {true:.5f}: {limit}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", choices=CELLS, required=True, metavar="CELL")
    parser.add_argument("--seeds", default="2021-2022", type=seeds_of, help="a range such as 2021-2025, or one seed")
    asked = parser.parse_args()
    done = STORE.finished()
    for seed in asked.seeds:
        for name in asked.cells:
            if (name, str(seed)) not in done:
                run(CELLS[name], seed)


if __name__ == "__main__":
    main()
