"""What FedDAG's `patience` saves, and whether it changes the graph: the rule is replayed on complete fits.

    .venv/bin/python benchmarks/patience.py --settings mim-ER2-10 linear-ER2-10 --seeds 1-3

For each patience a line has the share of the sub-problems that it saves, and in how many edges the graph differs.
"""

from __future__ import annotations

import argparse
import time

import settings
from feddag import FedDAG, compare
from feddag.experiments.seeds import check_tuning
from feddag.experiments.settings import Simulated
from feddag.graphs import CausalGraph, threshold_to_dag
from feddag.learners import FedDAGHistory
from feddag.learners.feddag.outer_loop import settled

PATIENCE = (1, 2, 3, 4)


def run(setting: Simulated, seed: int) -> None:
    """Fit once, and print what each patience would have done."""
    learner = settings.feddag(setting, seed).learner()
    assert isinstance(learner, FedDAG)
    started = time.process_time()
    learner.fit(list(setting.draw(seed).silos))
    seconds = time.process_time() - started
    history = learner.history_
    assert isinstance(history, FedDAGHistory)
    plan = learner.plan(list(learner.feature_names_in_), len(learner.sites_))
    scores = [plan.objective.model.edge_scores(graph) for graph in history.graphs]
    ends = {each.sub_problem: each.h for each in history.rounds}
    figures = []
    for patience in PATIENCE:
        end = next(
            (k for k in ends if settled([each > plan.threshold for each in scores[:k]], ends[k], patience)), len(ends)
        )
        graph = CausalGraph(threshold_to_dag(scores[end - 1], plan.threshold), learner.graph_.names)
        figures.append(f"{1 - end / len(ends):.0%}, {compare(graph, learner.graph_).shd}")
    print(f"| {setting.title} | {seed} | {len(ends)} | {seconds:.0f} | {' | '.join(figures)} |", flush=True)


def main() -> None:
    """Print a table with a line for each setting and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_arguments(parser, "1-3", ["mim-ER2-10", "linear-ER2-10"])
    asked = parser.parse_args()
    check_tuning(asked.seeds)
    heads = " | ".join(f"patience {patience}" for patience in PATIENCE)
    print(f"| setting | seed | sub-problems | CPU seconds | {heads} |")
    print(f"| --- | --- | --- | --- | {' | '.join('---' for _ in PATIENCE)} |")
    for setting in asked.settings:
        for seed in asked.seeds:
            run(setting, seed)


if __name__ == "__main__":
    main()
