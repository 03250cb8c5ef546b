"""Methods on the Sachs data in its 9 conditions, raw and logged; kept in `sachs.csv`, beside this file.

.venv/bin/python benchmarks/sachs.py
"""

from __future__ import annotations

import time

import numpy as np

import feddag
from feddag.silos.real import sachs
from store import Store

STORE = Store(
    "sachs.csv", ("data", "method"), ("shd", "right", "undirected", "reversed", "extra", "missing", "seconds")
)
METHODS = {
    "search": ("search", None, {}),
    "FedDAG (GS)": ("feddag", None, {}),
    "NOTEARS, pooled": ("notears", "all", {}),
    "PC, pooled": ("pc", "all", {}),
    "GES, pooled": ("ges", "all", {}),
    "VarSortnRegress": ("var-sortnregress", None, {}),
    "R²-SortnRegress": ("r2-sortnregress", None, {}),
    "random": ("random", None, {}),
    "empty": ("empty", None, {}),
}


def main() -> None:
    bundled = sachs()
    done = STORE.finished()
    for data in ("raw", "logged"):
        silos = {silo.name: silo.to_frame() for silo in bundled.silos}
        if data == "logged":
            silos = {site: np.log(frame) for site, frame in silos.items()}
        for label, (name, regime, parameters) in METHODS.items():
            if (data, label) in done:
                continue
            started = time.monotonic()
            learned = feddag.make_learner(name, regime, **parameters).fit(silos).graph_
            seconds = time.monotonic() - started
            metrics = feddag.compare(learned, bundled.truth)
            true = bundled.truth.adjacency.astype(bool)
            undirected = (learned.adjacency & learned.adjacency.T).astype(bool)
            open_directions = int((true & undirected).sum())
            STORE.keep(
                {
                    "data": data,
                    "method": label,
                    "shd": metrics.shd,
                    "right": int(true.sum()) - metrics.missing - metrics.reversed - open_directions,
                    "undirected": open_directions,
                    "reversed": metrics.reversed,
                    "extra": metrics.extra,
                    "missing": metrics.missing,
                    "seconds": f"{seconds:.1f}",
                }
            )
            print(f"{data}, {label}: SHD {metrics.shd}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
