"""How many numbers a study has its sites release, for each value that they hold, and how good its graph is.

    .venv/bin/python benchmarks/numbers_released.py --rows 150 600
    .venv/bin/python benchmarks/numbers_released.py --methods search --nodes 6 --sites 3 --rows 150 400 --seeds 1-10

A number is an entry of a sum that the server sees. Beside all values of all sites stand those of one site, since that
is what a site's own policy counts (`maximum_numbers_per_value`). All figures are means over seeds.
"""

from __future__ import annotations

import argparse

import numpy as np

from feddag import EvidenceSearch, FedDAG, simulate
from feddag.experiments.seeds import check_tuning, parse_seeds
from feddag.federation.counting import CountingFederation
from feddag.graphs import shd
from feddag.learners.federated import FederatedLearner
from feddag.learners.notears import NOTEARS
from feddag.silos.simulation import Simulation

METHODS: dict[str, FederatedLearner] = {
    'search, sharing = "auto"': EvidenceSearch(),
    'search, sharing = "graph"': EvidenceSearch(sharing="graph"),
    'search, sharing = "all"': EvidenceSearch(sharing="all"),
    'FedDAG, sharing = "graph"': FedDAG(),
    'FedDAG, sharing = "all"': FedDAG(sharing="all"),
    "NOTEARS": NOTEARS(),
}


def measured(learner: FederatedLearner, simulation: Simulation) -> tuple[int, int]:
    """Return the numbers released, and the distance of the graph from the true one."""
    silos = learner.check(simulation)
    with learner.in_process(silos) as federation:
        counting = CountingFederation(federation)
        learner.fit_federation(counting, silos[0].columns)
    return counting.total, shd(learner.guessed_graph.adjacency, simulation.truth.adjacency)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="", help="those whose names begin so; all otherwise")
    parser.add_argument("--mechanism", default="gp")
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--rows", type=int, nargs="+", default=[150, 600], help="of each site")
    parser.add_argument("--seeds", default="1", type=parse_seeds, help="such as 1-10, or one seed")
    asked = parser.parse_args()
    check_tuning(asked.seeds)
    print("| rows of each site | method | numbers | for each value of all sites | for each value of one site | SHD |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rows in asked.rows:
        drawn = {"mechanism": asked.mechanism, "sites": asked.sites, "rows": rows}
        simulations = [simulate(asked.nodes, **drawn, seed=seed) for seed in asked.seeds]
        for name, learner in METHODS.items():
            if name.startswith(asked.methods):
                numbers, errors = np.mean([measured(learner, each) for each in simulations], axis=0)
                each = numbers / rows / asked.nodes
                figures = (f"{numbers:.0f}", f"{each / asked.sites:.3f}", f"{each:.2f}", f"{errors:.1f}")
                print(f"| {rows} | {name} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
