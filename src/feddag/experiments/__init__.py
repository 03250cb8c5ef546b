"""Run the tables and figures of the paper, and more: declared as data, run once, kept in one store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feddag.lazy import names_from

if TYPE_CHECKING:
    from feddag.experiments.cell import Cell
    from feddag.experiments.experiment import Experiment, experiments, find_experiment
    from feddag.experiments.running import run
    from feddag.experiments.store import Store

__all__ = ["Cell", "Experiment", "Store", "experiments", "find_experiment", "run"]

_HOMES = {
    "feddag.experiments.cell": ("Cell",),
    "feddag.experiments.experiment": ("Experiment", "experiments", "find_experiment"),
    "feddag.experiments.running": ("run",),
    "feddag.experiments.store": ("Store",),
}

# a list of the experiments needs no numerical library
__getattr__ = names_from(_HOMES, __name__)
