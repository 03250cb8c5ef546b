"""Time, rounds and memory of the search with its defaults.

    .venv/bin/python benchmarks/search_speed.py --nodes 10 20 40

10 sites of 600 rows, ER2 graphs, tuning seed 1.
"""

from __future__ import annotations

import argparse
import resource

import feddag
import settings
from feddag.experiments.settings import Simulated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", nargs="+", type=int, default=[10, 20, 40])
    parser.add_argument("--functions", nargs="+", default=["mixed", "gp"])
    asked = parser.parse_args()
    for nodes in asked.nodes:
        for functions in asked.functions:
            setting = Simulated(functions, nodes=nodes)
            drawn = setting.draw(1)
            learner = settings.search(setting, 1).learner().fit(list(drawn.silos))
            metrics = feddag.compare(learner.dag_, drawn.truth)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            sent = max(learner.communication_.sent.values()) / 1e6
            print(
                f"{setting.title}: {learner.seconds_:.1f} s, {len(learner.history_.rounds)} rounds, "
                f"{sent:.2f} MB sent by a site, peak memory so far {memory:.0f} MB, SHD {metrics.shd}",
                flush=True,
            )


if __name__ == "__main__":
    main()
