"""What `simulate` accepts: one row per parameter, and one per pair of parameters that must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from feddag.constraints import Constraint, boolean, check, is_whole, none, one_of, positive, refusal, whole
from feddag.graphs import CausalGraph, is_dag
from feddag.silos.simulation.mechanisms import MECHANISMS
from feddag.silos.simulation.noise import NOISE_LAWS
from feddag.silos.simulation.random_graphs import EDGE_PROBABILITIES, ORIENTATIONS

DEFAULT_NODES = 10

MAXIMUM_NODES = 10_000
"""The graph is a matrix of all pairs, which has to fit into memory several times."""

MINIMUM_ROWS = 2
"""A single row has no variance to standardise by."""


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)


def _is_acyclic_graph(value: Any) -> bool:
    return isinstance(value, CausalGraph | np.ndarray | list) and is_dag(_adjacency(value))


def _adjacency(graph: CausalGraph | ArrayLike) -> ArrayLike:
    return graph.adjacency if isinstance(graph, CausalGraph) else graph


def _is_scale_free(parameters: SimpleNamespace) -> bool:
    return isinstance(parameters.graph, str) and parameters.graph == "SF"


CONSTRAINTS: dict[str, Constraint] = {
    "nodes": Constraint(
        f"a whole number from 2 to {MAXIMUM_NODES:,}", lambda value: is_whole(value, 2) and value <= MAXIMUM_NODES
    )
    | none,
    "graph": one_of(("ER", "SF")) | Constraint("an acyclic CausalGraph or adjacency matrix", _is_acyclic_graph),
    "edges_per_node": positive,
    "edge_probability": one_of(EDGE_PROBABILITIES),
    "orientation": one_of(ORIENTATIONS),
    "mechanism": one_of(MECHANISMS)
    | Constraint(
        "several of them",
        lambda value: (
            _is_sequence(value)
            and len(value) > 0
            and all(isinstance(kind, str) and kind in MECHANISMS for kind in value)
        ),
    )
    | none,
    "heterogeneous": boolean,
    "sites": whole(1),
    "rows": whole(MINIMUM_ROWS)
    | Constraint(
        "one such number per site",
        lambda value: _is_sequence(value) and all(is_whole(count, MINIMUM_ROWS) for count in value),
    ),
    "uneven": boolean,
    "noise": one_of(NOISE_LAWS),
    "noise_variance": positive | none,
    "noise_deviation_range": Constraint(
        "a pair of positive numbers (low, high)",
        lambda value: (
            _is_sequence(value) and len(value) == 2 and all(map(positive.accepts, value)) and value[0] <= value[1]
        ),
    )
    | none,
    "standardised": boolean,
    "shared_draws": boolean,
    "shifted": whole(0),
    "shift": one_of(("mechanism", "mean")),
    "interventions": whole(0)
    | Constraint(
        "a list of variables for each site",
        lambda value: isinstance(value, Mapping) and all(map(_is_sequence, value.values())),
    )
    | none,
    "varying": whole(0),
    "hidden": whole(0),
    "seed": whole(0),
}

_DISAGREEMENTS: tuple[tuple[str, Callable[[SimpleNamespace], bool], str], ...] = (
    (
        "nodes",
        lambda p: not isinstance(p.graph, str) and p.nodes not in (None, len(np.asarray(_adjacency(p.graph)))),
        "the size of the given graph, or be left out",
    ),
    (
        "edges_per_node",
        lambda p: _is_scale_free(p) and not is_whole(p.edges_per_node, 1),
        "a whole number for a scale-free graph",
    ),
    (
        "edges_per_node",
        lambda p: _is_scale_free(p) and p.edges_per_node >= (p.nodes or DEFAULT_NODES),
        "less than the number of nodes for a scale-free graph",
    ),
    (
        "mechanism",
        lambda p: _is_sequence(p.mechanism) and not p.heterogeneous,
        "a single one unless heterogeneous=True",
    ),
    ("rows", lambda p: _is_sequence(p.rows) and len(p.rows) != p.sites, "one number for each of the sites"),
    ("uneven", lambda p: _is_sequence(p.rows) and p.uneven, "False when rows says how many each site has"),
    (
        "noise_variance",
        lambda p: p.noise_variance is not None and p.noise_deviation_range is not None,
        "None when noise_deviation_range is given",
    ),
    *(
        (name, lambda p, name=name: bool(getattr(p, name)) and p.heterogeneous, "left out if heterogeneous=True")
        for name in ("shifted", "interventions", "varying")
    ),
    ("varying", lambda p: p.varying > p.sites, "at most the number of sites"),
    (
        "shared_draws",
        lambda p: p.shared_draws and not p.heterogeneous,
        "False unless heterogeneous=True: the rows of one model are drawn jointly",
    ),
)
"""Which parameter, when it is at odds with another one, and what it must be."""


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise on the first parameter that `simulate` cannot use."""
    check(parameters, CONSTRAINTS)
    for name, is_at_odds, wording in _DISAGREEMENTS:
        if is_at_odds(SimpleNamespace(**parameters)):
            raise refusal(name, wording, parameters[name])
