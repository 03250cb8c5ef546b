"""What sums of products of many functions over few rows tell about single rows: why the search has a budget of numbers.

    .venv/bin/python benchmarks/leakage.py --numbers-per-value 4 1 0.5 0.25 0.125

The server of a search with common mechanisms knows the mean over all rows of the products of all coarse functions, so
many numbers for each value of the tables, and here tries two things with it. Whose rows are they: rows of the tables
and new ones are told apart by their leverage (the figure is the chance that a new row has more of it; 0.5 is guessing).
And what is hidden: of a row all values but one are known, and the one with the least leverage is the guess; beside it
stands the error of this guess for new rows.
"""

from __future__ import annotations

import argparse

import numpy as np
from feddag.learners.search.budget import summed_numbers
from jaxtyping import Float

from feddag import simulate
from feddag.regression.features import FUNCTIONS, Features

NODES, HIDDEN, TRIED = 20, 7, 100
GUESSES = np.linspace(-3, 3, 301)


def attacked(rows: int) -> tuple[float, float, float]:
    """The chance to tell rows apart, and the median error of a hidden value, in deviations, of rows and of new ones."""
    *silos, new = simulate(NODES, mechanism="gp", sites=4, rows=rows // 3, seed=1).silos
    table = np.concatenate([silo.values for silo in silos])
    mean, deviation = table.mean(axis=0), table.std(axis=0)

    def functions(values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row function"]:
        return Features((values - mean) / deviation).coarse()

    summed = functions(table)
    size, axes = np.linalg.eigh(summed.T @ summed)
    axes = axes / np.sqrt(np.maximum(size, size.max() * 1e-13))

    def leverage(values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, " row"]:
        return ((functions(values) @ axes) ** 2).sum(axis=1)

    def error(row: Float[np.ndarray, " node"]) -> float:
        guessed = np.repeat(row[None], len(GUESSES), axis=0)
        guessed[:, HIDDEN] = mean[HIDDEN] + GUESSES * deviation[HIDDEN]
        best = guessed[leverage(guessed).argmin(), HIDDEN]
        return abs(best - row[HIDDEN]) / deviation[HIDDEN]

    ours, others = table[:: len(table) // TRIED][:TRIED], new.values[:TRIED]
    told_apart = float((leverage(ours)[:, None] < leverage(others)).mean())
    return told_apart, *(float(np.median([error(row) for row in rows])) for rows in (ours, others))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers-per-value", nargs="+", type=float, default=[4.0, 1.0, 0.5, 0.25, 0.125])
    print("| numbers per value | rows | rows told apart from new ones | hidden value, median error | of new rows |")
    print("| --- | --- | --- | --- | --- |")
    for each in parser.parse_args().numbers_per_value:
        rows = round(summed_numbers(NODES, FUNCTIONS) / NODES / each)
        told_apart, ours, others = attacked(rows)
        print(f"| {each:g} | {rows} | {told_apart:.2f} | {ours:.2f} | {others:.2f} |", flush=True)


if __name__ == "__main__":
    main()
