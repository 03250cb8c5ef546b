"""How often a direction that the search calls sure is wrong, where the data tell little or are not as it takes them.

    .venv/bin/python benchmarks/directions.py --seeds 1-10

Linear Gaussian graphs of six variables, of which the data tell the equivalence class alone; and pairs in which the
effect is the cause and as much noise, one of them or both not normal. The true graph is opened only to count.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from feddag import CausalGraph, EvidenceSearch, simulate
from feddag.experiments.seeds import parse_seeds

Law = Callable[[np.random.Generator, int], np.ndarray]
"""Of mean 0 and variance 1."""
NORMAL: Law = np.random.Generator.standard_normal
LAWS: dict[str, Law] = {
    "uniform": lambda rng, rows: rng.uniform(-np.sqrt(3), np.sqrt(3), rows),
    "exponential": lambda rng, rows: rng.exponential(size=rows) - 1,
    "Laplace": lambda rng, rows: rng.laplace(scale=np.sqrt(0.5), size=rows),
}
SITES, ROWS = 3, 600


def linear(seed: int) -> tuple[Sequence[object], CausalGraph]:
    """Two sites of 300 rows."""
    drawn = simulate(6, mechanism="linear", sites=2, rows=300, seed=seed, noise_deviation_range=(0.5, 1.5))
    return drawn.silos, drawn.truth


def pair(cause: Law, noise: Law, seed: int) -> tuple[Sequence[object], CausalGraph]:
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(SITES):
        a = cause(rng, ROWS)
        tables.append(pd.DataFrame({"a": a, "b": a + noise(rng, ROWS)}))
    return tables, CausalGraph([[0, 1], [0, 0]], ("a", "b"))


def counted(draw: Callable[[int], tuple[Sequence[object], CausalGraph]], seeds: Sequence[int]) -> Counter[str]:
    """The edges found: with an open direction, sure and right, sure and wrong."""
    found: Counter[str] = Counter()
    for seed in seeds:
        tables, truth = draw(seed)
        for edge in EvidenceSearch("all").fit(tables).edge_evidence_.itertuples():
            sure = "right" if (edge.cause, edge.effect) in truth.edges else "wrong"
            found[sure if edge.directed else "open"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-10", type=parse_seeds, help="such as 1-10, or one seed")
    asked = parser.parse_args()
    data = {"linear Gaussian, 6 variables, 2 sites of 300": linear}
    for name, law in LAWS.items():
        data[f"pair, {name} cause, normal noise, {SITES} sites of {ROWS}"] = partial(pair, law, NORMAL)
        data[f"pair, {name} cause and noise, {SITES} sites of {ROWS}"] = partial(pair, law, law)
    print("| data | left open | sure and right | sure and wrong |")
    print("| --- | --- | --- | --- |")
    for title, draw in data.items():
        found = counted(draw, asked.seeds)
        print(f"| {title} | {found['open']} | {found['right']} | {found['wrong']} |", flush=True)


if __name__ == "__main__":
    main()
