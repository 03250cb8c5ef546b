"""Mean SHD and TPR of FedDAG in the paper's settings, beside the published figures.

    .venv/bin/python benchmarks/accuracy.py --seeds 2021-2025 het-10-GS gp-10-AS gp-10-GS linear-10-AS

Every setting has 10 sites with 600 rows and an ER2 graph. Seeds 1-10 are for tuning, 2021-2030 for reporting.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import mean, pstdev
from typing import Any

from feddag import FedDAG, compare, simulate
from store import seeds_of


@dataclass(frozen=True)
class Setting:
    simulation: dict[str, Any]
    learner: dict[str, Any]
    published_shd: tuple[float, float]
    published_tpr: tuple[float, float]


HETEROGENEOUS = {"heterogeneous": True}
GP = {"mechanism": "gp"}
LINEAR = {"mechanism": "linear"}
GS = {"sharing": "graph"}
AS = {"sharing": "all"}
LINEAR_AS = {"sharing": "all", "model": "linear"}

SETTINGS = {
    "het-10-GS": Setting({"nodes": 10} | HETEROGENEOUS, GS, (1.9, 1.6), (0.99, 0.02)),
    "het-20-GS": Setting({"nodes": 20} | HETEROGENEOUS, GS, (6.2, 4.7), (0.89, 0.09)),
    "het-40-GS": Setting({"nodes": 40} | HETEROGENEOUS, GS, (24.3, 10.2), (0.86, 0.09)),
    "gp-10-AS": Setting({"nodes": 10} | GP, AS, (1.8, 2.0), (0.89, 0.12)),
    "gp-10-GS": Setting({"nodes": 10} | GP, GS, (2.4, 2.0), (0.86, 0.13)),
    "linear-10-AS": Setting({"nodes": 10} | LINEAR, LINEAR_AS, (1.3, 1.5), (0.94, 0.07)),
    "linear-20-AS": Setting({"nodes": 20} | LINEAR, LINEAR_AS, (3.9, 3.1), (0.91, 0.06)),
}


def run(name: str, seeds: list[int]) -> None:
    setting = SETTINGS[name]
    found = []
    for seed in seeds:
        simulation = simulate(**setting.simulation, seed=seed)
        learner = FedDAG(**setting.learner, seed=seed).fit(simulation)
        metrics = compare(learner.graph_, simulation.truth)
        steps = learner.history_.rounds[-1].step
        print(
            f"{name} seed {seed}: SHD {metrics.shd} TPR {metrics.tpr:.2f}  {steps} steps, {learner.seconds_:.0f} s",
            flush=True,
        )
        found.append(metrics)
    shd, tpr = [m.shd for m in found], [m.tpr for m in found]
    print(
        f"{name}: SHD {mean(shd):.1f} ± {pstdev(shd):.1f} (published {setting.published_shd[0]} ± "
        f"{setting.published_shd[1]}), TPR {mean(tpr):.2f} ± {pstdev(tpr):.2f} (published "
        f"{setting.published_tpr[0]} ± {setting.published_tpr[1]}), {len(seeds)} seeds",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="+", choices=SETTINGS)
    parser.add_argument("--seeds", default="1-3", type=seeds_of, help="a range such as 2021-2025, or one seed")
    arguments = parser.parse_args()
    for name in arguments.settings:
        run(name, arguments.seeds)


if __name__ == "__main__":
    main()
