"""What 50 bootstraps cost beside the fit: seconds, rounds and bytes of a study with secure sums, all in one process.

The sites' ends and the server's are those of a network; calls between them are function calls. CPU seconds are those of
the server and all sites together, each of which follows the method to verify its questions.

Type: python benchmarks/stability_cost.py [--variables 10] [--sites 4] [--rows 300] [--bootstraps 50]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import studies
from feddag import simulate
from feddag.silos.simulation import Simulation


def main() -> None:
    """Run the study without bootstraps and with them, and print the cost of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("variables", 10), ("sites", 4), ("rows", 300), ("bootstraps", 50), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    simulation = simulate(options.variables, mechanism="gp", sites=options.sites, rows=options.rows, seed=options.seed)
    print("| bootstraps | CPU s | rounds | MB that sites send | receive | numbers per value |")
    print("|---|---|---|---|---|---|")
    costs = []
    for bootstraps in (0, options.bootstraps):
        costs.append(cost(simulation, bootstraps))
        seconds, rounds, sent, received, numbers = costs[-1]
        cells = (f"{bootstraps}", f"{seconds:.0f}", f"{rounds:.0f}", f"{sent / 1e6:.1f}", f"{received / 1e6:.1f}")
        print(f"| {' | '.join(cells)} | {numbers:.1f} |", flush=True)
    without, having = costs
    ratios = (f"{(more - less) / less:.1f}" for less, more in zip(without, having, strict=True))
    print(f"| the bootstraps alone, over the fit | {' | '.join(ratios)} |")


def cost(simulation: Simulation, bootstraps: int) -> tuple[float, ...]:
    """Return the CPU seconds, rounds, bytes sent and received, and numbers per value of one study."""
    study = studies.study_of('name = "search"', simulation, f"[trust]\nbootstraps = {bootstraps}\n")
    with TemporaryDirectory() as folder:
        ended = studies.run(study, simulation, Path(folder), report=print)
    sent, received = (sum(each.values()) for each in (ended.ledger.sent, ended.ledger.received))
    return ended.seconds, ended.result.record["federation"]["rounds"], sent, received, ended.numbers_per_value


if __name__ == "__main__":
    main()
