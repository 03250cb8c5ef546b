"""The paper's simulated settings, by short names such as mixed-ER2-10, and the learners that compete in them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from feddag.experiments import Cell
from feddag.experiments.seeds import parse_seeds
from feddag.experiments.settings import Simulated

SETTINGS = (
    *(Simulated("mixed", graph, nodes) for nodes in (10, 20) for graph in ("ER2", "SF2", "ER4", "SF4")),
    *(Simulated("mixed", "ER2", 20, rows) for rows in (100, 300, 900)),
    *(Simulated("gp", graph, nodes) for nodes in (10, 20) for graph in ("ER2", "SF2", "ER4", "SF4")),
    *(Simulated(functions, "ER2", nodes) for nodes in (10, 20) for functions in ("mim", "mlp", "gp-add")),
    *(Simulated("linear", graph, nodes) for nodes in (10, 20) for graph in ("ER2", "SF2")),
    *(Simulated(functions, graph, 40) for functions in ("mixed", "gp") for graph in ("ER2", "SF2")),
)


def named(name: str) -> Simulated:
    """Such as gp-add-ER2-20."""
    functions, graph, nodes = name.rsplit("-", 2)
    return Simulated(functions, graph, int(nodes))


def add_arguments(parser: ArgumentParser, seeds: str, default: Sequence[str] = ()) -> None:
    """Let the user choose settings, which must be named if there is no default, and seeds."""
    parser.add_argument(
        "--settings",
        nargs="+",
        type=named,
        required=not default,
        default=[named(each) for each in default],
        metavar="SETTING",
    )
    parser.add_argument("--seeds", default=seeds, type=parse_seeds, help="such as 1-8, or one seed")


def sharing(setting: Simulated) -> str:
    """Where sites have mechanisms of their own, they share the graph alone."""
    return "graph" if setting.functions == "mixed" else "all"


def feddag(setting: Simulated, seed: int) -> Cell:
    """The variant with the best published figure: GS for heterogeneous sites, AS otherwise."""
    model = {"model": "linear"} if setting.functions == "linear" else {}
    return Cell(setting, "feddag", "federated", seed, {"sharing": sharing(setting), **model})


def search(setting: Simulated, seed: int, noise: str = "free", shared: str | None = None) -> Cell:
    """Let the search assume in common what the setting has in common, unless `shared` says otherwise."""
    parameters = {"sharing": shared or sharing(setting), "noise": noise}
    return Cell(setting, "search", "federated", seed, parameters)
