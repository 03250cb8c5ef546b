"""A learner that takes its time and writes down each fit: which cells were computed, and in which process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

from feddag import constraints
from feddag.errors import FeddagError
from feddag.experiments import Cell, Store, run
from feddag.experiments.settings import Simulated
from feddag.learners import registry
from feddag.learners.base import SEED
from feddag.learners.baselines import DataFree

METHOD = registry.Method("counting", "counting_learner:Counting", "Counts.", "None.", "None.")
SETTING = Simulated("linear", "ER2", nodes=4, rows=20, sites=2)


class Counting(DataFree):
    parameter_constraints: ClassVar = {
        "log": constraints.Constraint("a path", lambda value: isinstance(value, str)),
        "pause": constraints.at_least_zero,
        "seed": SEED,
    }

    def __init__(self, *, log: str = "", pause: float = 0.0, seed: int = 0) -> None:
        self.log = log
        self.pause = pause
        self.seed = seed

    def draw(self, nodes):
        if self.seed == 13:
            raise FeddagError("No luck with 13.")
        if self.seed == 14:
            raise KeyError("a slip")
        if self.log:
            with open(self.log, "a") as stream:
                stream.write(f"{self.seed} {os.getpid()}\n")
        time.sleep(self.pause)
        return np.zeros((nodes, nodes), dtype=np.int8)


def cells(log: Path, pause: float, seeds: range | list[int]) -> list[Cell]:
    return [Cell(SETTING, "counting", "federated", seed, {"log": str(log), "pause": pause}) for seed in seeds]


def fits(log: Path) -> list[tuple[int, int]]:
    """Seed and process of each fit that was begun."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(seed), int(process)) for seed, process in map(str.split, lines)]


if __name__ == "__main__":
    registry.METHODS["counting"] = METHOD
    store, log, pause, count = sys.argv[1:]
    run(cells(Path(log), float(pause), range(1, int(count) + 1)), Store(store))
