"""Time, rounds and memory of the search.

    .venv/bin/python benchmarks/search_speed.py --nodes 10 20 40
    .venv/bin/python benchmarks/search_speed.py --nodes 100 --restarts 0

10 sites of 600 rows, tuning seed 1.
"""

from __future__ import annotations

import argparse
import resource
import sys

import feddag
import settings
from feddag.drawing.figures import find_figure, format_figure
from feddag.experiments.settings import Simulated
from feddag.learners.status import Status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", nargs="+", type=int, default=[10, 20, 40])
    parser.add_argument("--functions", nargs="+", default=["mixed", "gp"])
    parser.add_argument("--graph", default="ER2")
    parser.add_argument("--restarts", type=int, default=feddag.EvidenceSearch().restarts)
    asked = parser.parse_args()
    print("| setting | seconds | rounds | MB sent by a site | peak memory so far, GB | SHD |")
    print("| --- | --- | --- | --- | --- | --- |")
    for nodes in asked.nodes:
        for functions in asked.functions:
            setting = Simulated(functions, asked.graph, nodes)
            drawn = setting.draw(1)
            learner = settings.search(setting, 1).learner().set_params(restarts=asked.restarts)
            learner.fit(list(drawn.silos), progress=_tell)
            shd = feddag.compare(learner.dag_, drawn.truth).shd
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
            sent = max(learner.communication_.sent.values()) / 1e6
            rounds = len(learner.history_.rounds)
            print(file=sys.stderr)
            cells = [setting.title, f"{learner.seconds_:.1f}", rounds, f"{sent:.2f}", f"{memory:.1f}", shd]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _tell(status: Status) -> None:
    figures = ", ".join(
        f"{find_figure(name).heading} {format_figure(name, value)}" for name, value in status.figures.items()
    )
    print(f"\r{status.seconds:.0f} s: {figures}   ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
