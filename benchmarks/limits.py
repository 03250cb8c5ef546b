"""What limits a method where it errs: its score, or its search for the best score?

    .venv/bin/python benchmarks/limits.py --settings mlp-ER2-20 gp-ER4-20 --seeds 2021-2022
    .venv/bin/python benchmarks/limits.py --method notears --settings linear-ER2-10 --seeds 2021-2030

After the fit, the true graph is scored as well: by the search's log-evidence per row, or by NOTEARS's objective. If it
scores better than the graph found, the method has missed it; if worse, no search with this score would have chosen it;
if both score the same, the data do not tell them apart.
"""

from __future__ import annotations

import argparse

import numpy as np

import settings
from feddag import compare
from feddag.experiments.settings import Simulated
from feddag.graphs import CausalGraph, threshold_to_dag
from feddag.learners.notears import NOTEARS

SAME = 1e-5


def of_search(setting: Simulated, seed: int) -> tuple[int, float, float]:
    """The SHD, and the log-evidence of the graph found and of the truth: the greater the better."""
    drawn = setting.draw(seed)
    learner = settings.search(setting, seed).learner().fit(list(drawn.silos))
    found, true = (learner.log_evidence(list(drawn.silos), graph) for graph in (learner.dag_, drawn.truth))
    return compare(learner.dag_, drawn.truth).shd, found, true


def of_notears(setting: Simulated, seed: int) -> tuple[int, float, float]:
    """The same of NOTEARS on pooled rows, with the sign of its objective turned."""
    drawn = setting.draw(seed)
    truth = drawn.truth
    covariance = np.cov(np.concatenate([silo.values for silo in drawn.silos]).T, bias=True)

    def solved(forbidden: list[tuple[str, str]]) -> tuple[CausalGraph, float]:
        notears = NOTEARS(forbidden=forbidden)
        weights = notears.solve(covariance, notears.knowledge_of(truth.names))  # as fit would
        remainder = np.eye(len(weights)) - weights
        objective = np.sum(remainder * (covariance @ remainder)) / 2 + notears.l1 * np.abs(weights).sum()
        return CausalGraph(threshold_to_dag(np.abs(weights), notears.threshold), truth.names), -float(objective)

    absent = [(i, j) for i in truth.names for j in truth.names if i != j and (i, j) not in truth.edges]
    (graph, found), (_, true) = solved([]), solved(absent)
    return compare(graph, truth).shd, found, true


METHODS = {"search": of_search, "notears": of_notears}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_arguments(parser, "2021-2022")
    parser.add_argument("--method", choices=METHODS, default="search")
    asked = parser.parse_args()
    print("| setting | seed | SHD | score of the graph found | of the truth | limited by |")
    print("| --- | --- | --- | --- | --- | --- |")
    for seed in asked.seeds:
        for setting in asked.settings:
            shd, found, true = METHODS[asked.method](setting, seed)
            tie = abs(true - found) <= SAME
            limit = "" if shd == 0 else "neither" if tie else "search" if true > found else "score"
            print(f"| {setting.title} | {seed} | {shd} | {found:.5f} | {true:.5f} | {limit} |", flush=True)


if __name__ == "__main__":
    main()
