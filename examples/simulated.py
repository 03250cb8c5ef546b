"""Four simulated sites whose mechanisms differ: the graph that each finds alone, and the one they find together.

python examples/simulated.py
"""

from __future__ import annotations

import feddag
from feddag import trust


def errors(graph: feddag.CausalGraph, truth: feddag.CausalGraph) -> str:
    metrics = feddag.compare(graph, truth)
    return f"{metrics.shd} errors, {metrics.left_open} directions left open"


def main() -> None:
    simulation = feddag.simulate(nodes=6, heterogeneous=True, sites=4, rows=250, seed=1)

    alone = feddag.make_learner("search", "separate", restarts=0, seed=1).fit(simulation)
    for site, graph in alone.site_graphs_.items():
        print(f"{site} alone: {errors(graph, simulation.truth)}")

    together = feddag.EvidenceSearch(sharing="graph", restarts=0, seed=1).fit(simulation)
    print(f"together: {errors(together.graph_, simulation.truth)}")
    print(together.graph_)
    print(trust.assess(together, simulation).verdict)


if __name__ == "__main__":
    main()
