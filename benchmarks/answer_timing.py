"""How far the time of an answer tells how many rows a site has: one of 4 sites gets larger, the others stay.

    .venv/bin/python benchmarks/answer_timing.py

A server sees when each site replies, whatever protects the reply. Each row of the table is a study in one process,
whose sites reply one after the other, as if each had a machine of its own; the figures are means over all rounds.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import feddag
import studies
from feddag.experiments.formats import markdown_table
from feddag.federation.site_endpoint import SiteEndpoint
from verification_cost import METHODS, SITES

TIMED = ("FedDAG, all shared (AS), linear", "search, own mechanisms")
OTHERS = 300


def measured(method: str, nodes: int, rows: int) -> list[str]:
    """Return the mean seconds until the one site answers, and until the others do."""
    simulation = feddag.simulate(nodes, mechanism="linear", sites=SITES, rows=[rows] + [OTHERS] * (SITES - 1), seed=1)
    seconds: dict[str, list[float]] = {}
    one_at_a_time = threading.Lock()

    def ask(site: SiteEndpoint, name: str, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
        with one_at_a_time:
            started = time.perf_counter()
            reply = site.reply(request, content)
            if request == "work":
                seconds.setdefault(name, []).append(time.perf_counter() - started)
            return reply

    with TemporaryDirectory() as folder:
        studies.run(studies.study_of(method, simulation), simulation, Path(folder), ask)
    first = simulation.silos[0].name
    others = [each for name, times in seconds.items() if name != first for each in times]
    return [f"{statistics.fmean(seconds[first]):.3f}", f"{statistics.fmean(others):.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 3_000, 30_000])
    asked = parser.parse_args()
    table = [[name, f"{rows:,}", *measured(METHODS[name], asked.nodes, rows)] for name in TIMED for rows in asked.rows]
    header = ["method", "rows of one site", "seconds until it answers", f"until a site of {OTHERS} rows does"]
    print(markdown_table(header, table))


if __name__ == "__main__":
    main()
