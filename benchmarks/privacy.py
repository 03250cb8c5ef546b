"""What differential privacy of sites costs: mean SHD of linear FedDAG against ε.

    .venv/bin/python benchmarks/privacy.py --nodes 5 --sites 10 --clip 1 --rounds 10 --epsilons 10,100,1000

Every site has 600 rows of linear equations over an ER2 graph. The first line of each table is without noise, but with
the limit on a site's change (`clip`); an empty graph's SHD, the number of true edges, is what is to be beaten. Seeds
1-10 are for tuning. Noise is drawn from the seed here, so that figures can be repeated: it protects nobody.
"""

from __future__ import annotations

import argparse
import math
from statistics import mean
from typing import Any

import numpy as np

from feddag import FedDAG, compare, simulate
from feddag.experiments.seeds import parse_seeds
from feddag.federation import InProcess
from feddag.federation.differential_privacy import Accountant, PrivacyBudget, PrivateSite, noise_multiplier_for

DELTA = 1e-5


class OutOfSight:
    """A federation whose sites the learner cannot look into, as on a network."""

    local_sites = ()

    def __init__(self, federation: InProcess) -> None:
        self._federation = federation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)


def shd(seed: int, epsilon: float, arguments: argparse.Namespace) -> tuple[int, int]:
    """Of what FedDAG learns within the budget, and of an empty graph."""
    simulation = simulate(arguments.nodes, mechanism="linear", sites=arguments.sites, rows=600, seed=seed)
    learner = FedDAG(
        "all", "linear", it_max=arguments.rounds, it_inner=200, it_fl=200, rho_update="once", seed=seed, workers=1
    )
    private = math.isfinite(epsilon)
    budget = PrivacyBudget(epsilon if private else 1.0, DELTA)  # without noise there is none to keep within
    multiplier = noise_multiplier_for(budget, arguments.rounds)
    sites = [
        PrivateSite(
            learner.site(silo, position),
            Accountant(budget),
            clip=arguments.clip,
            noise_multiplier=multiplier,
            sites=arguments.sites,
            noise=np.random.default_rng([seed, position]).standard_normal if private else np.zeros,
        )
        for position, silo in enumerate(simulation.silos)
    ]
    with InProcess(sites, 1) as federation:
        learner.fit_federation(OutOfSight(federation), simulation.silos[0].columns)
    return compare(learner.graph_, simulation.truth).shd, int(simulation.truth.adjacency.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--clip", type=float, default=1.0, help="the length to which a site's change is limited")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epsilons", default="10,100,1000", help="separated by commas")
    parser.add_argument("--seeds", default="1-3", type=parse_seeds, help="a range such as 1-3, or one seed")
    arguments = parser.parse_args()
    print(f"{arguments.nodes} nodes, {arguments.sites} sites, clip {arguments.clip:g}, {arguments.rounds} rounds")
    for epsilon in (math.inf, *map(float, arguments.epsilons.split(","))):
        found = [shd(seed, epsilon, arguments) for seed in arguments.seeds]
        learned, empty = (mean(column) for column in zip(*found, strict=True))
        print(f"ε {epsilon:8g}  SHD {learned:5.1f}  (empty graph {empty:.1f})", flush=True)


if __name__ == "__main__":
    main()
