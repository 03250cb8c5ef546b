"""Whether any method could find the edges that the search misses in GP data: exact evidence of all rows together.

    .venv/bin/python benchmarks/exact_gp.py --settings gp-ER4-20 --seeds 1-2

For each variable whose parents the search got wrong, the log-evidence of a Gaussian-process regression on its true
parents, less that on the parents found: with the kernel that the data were drawn with, and all rows in one place. No
federation could compute it; a difference near 0 says that the data do not tell, a large one that the score's
approximation is what limits. Some seconds and half a gigabyte for each family.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist

import settings

NOISES = (0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
"""Variances of the noise over that of the function, of which the best counts."""


def log_evidence(rows: Float[np.ndarray, "row node"], child: int, parents: Sequence[int]) -> float:
    """Of a function with the RBF kernel of length-scale one, its scale at its best value."""
    y = rows[:, child] - rows[:, child].mean()
    if not parents:
        return _with_best_scale(y, 0.0)
    kernel = np.exp(-cdist(rows[:, parents], rows[:, parents], "sqeuclidean") / 2)
    return max(_of_kernel(y, kernel, noise) for noise in NOISES)


def _of_kernel(y: Float[np.ndarray, " row"], kernel: Float[np.ndarray, "row row"], noise: float) -> float:
    factor = cholesky(kernel + noise * np.eye(len(y)), lower=True, overwrite_a=True, check_finite=False)
    whitened = solve_triangular(factor, y, lower=True, check_finite=False)
    return _with_best_scale(whitened, float(np.log(factor.diagonal()).sum()))


def _with_best_scale(whitened: Float[np.ndarray, " row"], half_log_determinant: float) -> float:
    return -len(whitened) / 2 * (np.log(2 * np.pi * np.mean(whitened**2)) + 1) - half_log_determinant


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_arguments(parser, "1-2")
    asked = parser.parse_args()
    print("| setting | seed | variable | true parents | parents found | truth ahead by (nats) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for seed in asked.seeds:
        for setting in asked.settings:
            drawn = setting.draw(seed)
            rows = np.concatenate([silo.values for silo in drawn.silos])
            dag = settings.search(setting, seed).learner().fit(list(drawn.silos)).dag_
            for child, name in enumerate(drawn.truth.names):
                true, found = (list(np.flatnonzero(graph.adjacency[:, child])) for graph in (drawn.truth, dag))
                if true != found:
                    ahead = log_evidence(rows, child, true) - log_evidence(rows, child, found)
                    right = len(set(true) & set(found))
                    cells = [setting.title, seed, name, len(true), f"{len(found)}, {right} right", f"{ahead:.0f}"]
                    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
