"""Whether the search and FedDAG help each other: the search from FedDAG's order, and FedDAG with the search's order.

    .venv/bin/python benchmarks/handover.py --settings mixed-ER2-10 gp-ER2-10 --seeds 1-3

FedDAG gets the order as tiers of one variable each. Every line has the SHD of the four graphs, and the search's score
from its own order and from FedDAG's: the lower is the better. The true graph is opened only to count the errors.
"""

from __future__ import annotations

import argparse

import networkx as nx

import feddag
import settings
from feddag.experiments.settings import Simulated


def order_of(graph: feddag.CausalGraph) -> list[str]:
    return list(nx.lexicographical_topological_sort(graph.to_networkx()))


def run(setting: Simulated, seed: int) -> None:
    drawn = setting.draw(seed)
    silos = list(drawn.silos)
    feddag_cell, search_cell = settings.feddag(setting, seed), settings.search(setting, seed)
    alone = feddag_cell.learner().fit(silos)
    search = search_cell.learner().fit(silos)
    started = search_cell.learner().set_params(start=order_of(alone.graph_)).fit(silos)
    ordered = feddag_cell.learner().set_params(tiers=[[name] for name in order_of(search.dag_)]).fit(silos)
    graphs = (alone.graph_, ordered.graph_, search.dag_, started.dag_)
    errors = [feddag.compare(graph, drawn.truth).shd for graph in graphs]
    scores = f"{search.score_:.5f} | {started.score_:.5f}"
    print(f"| {setting.title} | {seed} | {' | '.join(map(str, errors))} | {scores} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_arguments(parser, "1-3", ["mixed-ER2-10", "gp-ER2-10"])
    asked = parser.parse_args()
    print(
        "| setting | seed | FedDAG | with the search's order | search | from FedDAG's order | score | from FedDAG's |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for setting in asked.settings:
        for seed in asked.seeds:
            run(setting, seed)


if __name__ == "__main__":
    main()
