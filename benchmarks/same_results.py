"""Run cells of the store again, and say whether today's code gives the same results, bit for bit.

    .venv/bin/python benchmarks/same_results.py
    .venv/bin/python benchmarks/same_results.py --cells search:mixed-ER2-10:2021 notears:linear-ER2-10:2021 --jobs 2

A cell is METHOD:SETTING:SEED; of the cells that the experiments declare under this name, the fastest in the store is
run, if possible one whose data were the same to the last digit: simulated data differ there from one kind of processor
to another, and so does the course of FedDAG with networks, whose programs are compiled for the processor. Where that
alone differs, compare two versions of the code on one machine. The script compares data, parameters, graph, metrics,
bytes that travelled, and the course of the optimisation; without the same data, only the graph and its metrics. The
store is only read. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import settings
from feddag.experiments import Cell, Store, experiments, run
from feddag.experiments.result import METRICS, Result, history_of

STORE = Path(__file__).parent / "results.sqlite"
CHEAP = (
    "search:mim-ER2-10:2021",
    "search:mlp-ER2-10:2024",
    "feddag:mim-ER2-10:2022",
    "feddag:linear-SF2-10:2025",
    "notears:mim-ER2-10:2021",
    "pc:mim-ER2-10:2021",
)
"""Six cells that take a minute or two together."""
OF_THE_GRAPH = ("parameters", "graph", "true_edges", *METRICS)
OF_THE_COURSE = ("bytes_sent", "bytes_received")


def find_cell(name: str, store: Store) -> Cell:
    """Find the fastest of the cells that the experiments declare under this name and the store holds."""
    method, setting, seed = name.split(":")
    wanted = settings.named(setting)
    rows = [row for each in experiments().values() if wanted in each.settings for row in each.rows]
    cells = {cell.key: cell for row in rows if row.method == method for cell in [row.cell(wanted, int(seed))]}
    kept = store.results_of(cells.values())
    if not kept:
        raise SystemExit(f"{store.path} has no result of {name}. Name a cell as METHOD:SETTING:SEED, of those it has.")
    here = wanted.draw(int(seed)).digest()
    return cells[min(kept.values(), key=lambda result: (result.data_digest != here, result.seconds)).key]


def differences(before: Result, now: Result) -> list[str]:
    """List the parts in which two results differ; results of older code may lack a part."""
    found = []
    same_data = before.data_digest == now.data_digest
    for name in (*OF_THE_GRAPH, *(OF_THE_COURSE if same_data else ())):
        old, new = getattr(before, name), getattr(now, name)
        if isinstance(old, dict):  # a new parameter, or a new part of the graph, is no other result
            new = {part: new.get(part) for part in old}
        if old != new:
            found.append(name)
    if same_data and not _same_course(history_of(before), history_of(now)):
        found.append("history")
    return found


def _same_course(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Compare two courses of the optimisation in all columns of the earlier one, but for the time that they took."""
    columns = set(before["rounds"]) - {"seconds"}
    rounds = all(before["rounds"][name] == now["rounds"].get(name) for name in columns)
    return rounds and before["graphs"] == now["graphs"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CHEAP, metavar="METHOD:SETTING:SEED", help="cells to run again")
    parser.add_argument("--store", type=Path, default=STORE, help="the results to compare with")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(shutil.copy(options.store, folder))  # a copy, since even a reader leaves files beside a store
        cells = [find_cell(name, store) for name in options.cells]
        anew = Store(Path(folder) / "anew.sqlite")
        outcome = run(cells, anew, jobs=options.jobs, progress=lambda standing: print(standing.last or "Running"))
        old, new = store.results_of(cells), anew.results_of(cells)
    for failure in outcome.failures:
        print(f"FAILED     {failure.cell.title}: {failure.reason}")
    changed = False
    for cell in (cell for cell in cells if cell.key in new):
        earlier, now = old[cell.key], new[cell.key]
        parts = differences(earlier, now)
        changed |= bool(parts)
        limits = "" if earlier.data_digest == now.data_digest else " (graph only: data of another kind of processor)"
        print(f"DIFFERENT  {cell.title}: {', '.join(parts)}" if parts else f"same       {cell.title}{limits}")
    sys.exit(1 if outcome.failures or changed else 0)


if __name__ == "__main__":
    main()
