"""Time, rounds and memory of the search.

    .venv/bin/python benchmarks/search_speed.py --nodes 10 20 40
    .venv/bin/python benchmarks/search_speed.py --nodes 100 --restarts 0
    .venv/bin/python benchmarks/search_speed.py --nodes --tables 20000x50 200000x50 1000000x10

10 sites of 600 rows, tuning seed 1; `--tables` has 3 sites of so many rows and columns, straight lines with Laplace
noise and three edges for two columns. The longest silence is the longest time without a line of progress.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

import feddag
import settings
from feddag.drawing.figures import find_figure, format_figure
from feddag.experiments.settings import Simulated
from feddag.learners.status import Status
from other_generators import linear_laplace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", nargs="*", type=int, default=[10, 20, 40])
    parser.add_argument("--functions", nargs="+", default=["mixed", "gp"])
    parser.add_argument("--graph", default="ER2")
    parser.add_argument("--sharing", choices=["auto", "graph", "all"], help="what the setting has, by default")
    parser.add_argument("--tables", nargs="*", default=[], metavar="ROWSxCOLUMNS")
    parser.add_argument("--restarts", type=int, default=feddag.EvidenceSearch().restarts)
    asked = parser.parse_args()
    print("| setting | CPU seconds | seconds | longest silence | rounds | MB sent by a site | peak GB so far | SHD |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for nodes in asked.nodes:
        for functions in asked.functions:
            setting = Simulated(functions, asked.graph, nodes)
            drawn = setting.draw(1)
            learner = settings.search(setting, 1, shared=asked.sharing).learner().set_params(restarts=asked.restarts)
            assert drawn.truth is not None
            measure(setting.title, learner, drawn.silos, drawn.truth)
    for size in asked.tables:
        rows, columns = map(int, size.split("x"))
        tables, truth = linear_laplace(np.random.default_rng(1), columns, 3 * columns // 2, rows, 3)
        learner = feddag.EvidenceSearch(asked.sharing or "auto", restarts=asked.restarts)
        measure(f"3 sites of {rows:,} rows, {columns} columns", learner, tables, truth)


def measure(title: str, learner: feddag.EvidenceSearch, silos: object, truth: ArrayLike | feddag.CausalGraph) -> None:
    """Fit, and print a row."""
    times, begun = [time.monotonic()], time.process_time()
    learner.fit(silos, progress=_teller(times))
    cpu = time.process_time() - begun
    if not isinstance(truth, feddag.CausalGraph):
        truth = feddag.CausalGraph(np.asarray(truth), learner.dag_.names)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    sent = max(learner.communication_.sent.values()) / 1e6
    silence = np.diff([*times, time.monotonic()]).max()
    shd = feddag.compare(learner.dag_, truth).shd
    figures = [f"{cpu:.1f}", f"{learner.seconds_:.1f}", f"{silence:.1f}", len(learner.history_.rounds), f"{sent:.2f}"]
    print(file=sys.stderr)
    print(f"| {' | '.join(map(str, [title, *figures, f'{memory:.1f}', shd]))} |", flush=True)


def _teller(times: list[float]) -> Callable[[Status], None]:
    def tell(status: Status) -> None:
        times.append(time.monotonic())
        figures = ", ".join(
            f"{find_figure(name).heading} {format_figure(name, value)}" for name, value in status.figures.items()
        )
        print(f"\r{status.seconds:.0f} s: {figures}   ", end="", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    main()
