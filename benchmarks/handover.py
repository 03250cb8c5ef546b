"""Whether the search and FedDAG help each other: the search from FedDAG's order, and FedDAG with the search's order.

    .venv/bin/python benchmarks/handover.py --cells mixed-ER2-10 gp-ER2-10 --seeds 1-3

FedDAG gets the order as tiers of one variable each. Every line has the SHD of the four graphs, and the search's score
from its own order and from FedDAG's: the lower is the better. The true graph is opened only to count the errors.
"""

from __future__ import annotations

import argparse

import networkx as nx

import feddag
from cells import CELLS, Cell
from compare import feddag_learner, search_learner
from store import seeds_of


def order_of(graph: feddag.CausalGraph) -> list[str]:
    return list(nx.lexicographical_topological_sort(graph.to_networkx()))


def run(cell: Cell, seed: int) -> None:
    silos, truth = cell.simulate(seed, "raw")
    alone = feddag_learner(cell, seed).fit(silos)
    search = search_learner(cell, seed).fit(silos)
    started = search_learner(cell, seed).set_params(start=order_of(alone.graph_)).fit(silos)
    ordered = feddag_learner(cell, seed).set_params(tiers=[[name] for name in order_of(search.dag_)]).fit(silos)
    errors = [feddag.compare(graph, truth).shd for graph in (alone.graph_, ordered.graph_, search.dag_, started.dag_)]
    scores = f"{search.score_:.5f} | {started.score_:.5f}"
    print(f"| {cell.name} | {seed} | {' | '.join(map(str, errors))} | {scores} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=["mixed-ER2-10", "gp-ER2-10"], metavar="CELL")
    parser.add_argument("--seeds", default="1-3", type=seeds_of, help="a range such as 1-3, or one seed")
    asked = parser.parse_args()
    print(
        "| setting | seed | FedDAG | with the search's order | search | from FedDAG's order | score | from FedDAG's |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in asked.cells:
        for seed in asked.seeds:
            run(CELLS[name], seed)


if __name__ == "__main__":
    main()
