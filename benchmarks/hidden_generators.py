"""Draw tables with common causes that no table has: by the package's simulator, and by generators of their own.

Those of their own differ from the simulator in what could matter: hidden variables act as strongly as observed ones, no
pair is joined by two of them, columns have units of their own, and without hidden variables the same model is drawn
with their effects left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from feddag import CausalGraph, simulate
from feddag.graphs import project
from other_generators import LAWS, Tables, causal_order, draw_weights, in_units_of_bulk, random_graph, smooth_function

SITES, ROWS, EDGES_PER_NODE = 5, 400, 1.5


@dataclass(frozen=True)
class Case:
    """Tables, and the ADMG behind them."""

    tables: dict[str, np.ndarray]
    truth: CausalGraph


Draw = Callable[[int, int, int, bool], Case]
"""By seed, observed and hidden variables, and whether the hidden ones act."""


def simulated(options: dict[str, Any], seed: int, nodes: int, hidden: int, acts: bool) -> Case:
    """Draw by `feddag.simulate`."""
    drawn = simulate(
        nodes,
        hidden=hidden if acts else 0,
        seed=seed,
        edges_per_node=EDGES_PER_NODE,
        edge_probability="exact",
        sites=SITES,
        rows=ROWS,
        **options,
    )
    return Case({silo.name: silo.values for silo in drawn.silos}, drawn.admg)


def hidden_effects(rng: np.random.Generator, observed: np.ndarray, hidden: int) -> list[list[int]]:
    """Draw for each hidden variable two or three observed ones without an edge between them, no pair of them twice."""
    taken, found = (observed | observed.T).astype(bool), []
    while len(found) < hidden:
        effects = sorted(rng.choice(len(observed), size=int(rng.integers(2, 4)), replace=False).tolist())
        pairs = list(combinations(effects, 2))
        if not any(taken[pair] for pair in pairs):
            found.append(effects)
            for one, other in pairs:
                taken[one, other] = taken[other, one] = True
    return found


def linear(rng: np.random.Generator, causes: list[np.ndarray], shown: int) -> np.ndarray:
    """Add weighted causes."""
    weights = draw_weights(rng, len(causes))
    return sum((w * x for w, x in zip(weights[:shown], causes, strict=False)), np.zeros(len(causes[0])))


def bent(rng: np.random.Generator, causes: list[np.ndarray], shown: int) -> np.ndarray:
    """Add a bent function of each cause."""
    bends = (np.tanh, np.square, np.abs, lambda x: np.sin(2 * x))
    total = np.zeros(len(causes[0]))
    for k, cause in enumerate(causes):
        part = bends[rng.integers(len(bends))](rng.uniform(0.7, 1.5) * in_units_of_bulk(cause))
        size = rng.uniform(0.8, 1.5) / 0.7
        if k < shown:
            total += size * (part - part.mean()) / part.std()
    return total


def smooth(rng: np.random.Generator, causes: list[np.ndarray], shown: int) -> np.ndarray:
    """Take a smooth function of all causes together."""
    return smooth_function(rng, np.column_stack(causes[:shown])) / 0.6 if shown else np.zeros(len(causes[0]))


def own(
    mechanism: Callable[[np.random.Generator, list[np.ndarray], int], np.ndarray],
    law: str,
    seed: int,
    nodes: int,
    hidden: int,
    acts: bool,
) -> Case:
    """Draw a graph, hidden variables, coefficients and noise, each from a stream of its own."""
    graph, coefficients, chance, units = np.random.default_rng([seed, nodes, hidden]).spawn(4)
    observed = random_graph(graph, nodes, round(EDGES_PER_NODE * nodes))
    effects, rows = hidden_effects(graph, observed, hidden), SITES * ROWS
    shared = [LAWS[law](chance, rows) for _ in range(hidden)]
    values = np.empty((rows, nodes))
    for node in causal_order(observed):
        parents = np.flatnonzero(observed[:, node]).tolist()
        causes = [values[:, k] for k in parents] + [shared[k] for k in range(hidden) if node in effects[k]]
        noise = coefficients.uniform(0.7, 1.3) * LAWS[law](chance, rows)
        shown = len(causes) if acts else len(parents)
        values[:, node] = noise + (mechanism(coefficients, causes, shown) if causes else 0)
    values *= units.uniform(0.3, 3, nodes)
    whole = np.zeros((nodes + hidden,) * 2, dtype=np.int8)
    whole[:nodes, :nodes] = observed
    for k, chosen in enumerate(effects):
        whole[nodes + k, chosen] = acts
    truth = CausalGraph.from_marks(project(whole, range(nodes)), [f"x{k:02}" for k in range(nodes)])
    return Case(_by_site(np.split(values, SITES)), truth)


def bow_free(seed: int, nodes: int = 10) -> Case:
    """Draw a linear model with correlated normal noise, in which no pair has both an effect and a hidden cause.

    Weights, covariances and variances of noise have the bounds that are usual for such graphs; every variance exceeds
    the sum of its covariances.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(nodes)
    weights = np.zeros((nodes, nodes))
    weights[np.ix_(order, order)] = np.triu(rng.random((nodes, nodes)) < 0.2, k=1)
    joined = np.triu(rng.random((nodes, nodes)) < 0.12, k=1) & (weights + weights.T == 0)
    weights *= rng.uniform(0.5, 2.0, weights.shape) * rng.choice([-1, 1], weights.shape)
    shared = joined * rng.uniform(0.4, 0.7, joined.shape) * rng.choice([-1, 1], joined.shape)
    shared = shared + shared.T
    noise = shared + np.diag(rng.uniform(0.7, 1.2, nodes) + np.abs(shared).sum(axis=0))
    values = rng.multivariate_normal(np.zeros(nodes), noise, SITES * ROWS) @ np.linalg.inv(np.eye(nodes) - weights)
    names = [f"x{k:02}" for k in range(nodes)]
    return Case(_by_site(np.split(values, SITES)), CausalGraph.admg(weights != 0, shared != 0, names))


def _by_site(tables: Tables) -> dict[str, np.ndarray]:
    return {f"site-{number}": table for number, table in enumerate(tables, start=1)}


DATA: dict[str, Draw] = {
    "linear, normal noise": partial(simulated, {"mechanism": "linear", "noise_deviation_range": (0.7, 1.4)}),
    "linear, exponential noise": partial(simulated, {"mechanism": "linear", "noise": "exponential"}),
    "linear, uniform noise": partial(simulated, {"mechanism": "linear", "noise": "uniform"}),
    "linear, Laplace noise": partial(simulated, {"mechanism": "linear", "noise": "laplace"}),
    "Gaussian process, normal noise": partial(simulated, {"mechanism": "gp"}),
    "index functions, normal noise": partial(simulated, {"mechanism": "mim"}),
    "own: linear, normal noise": partial(own, linear, "normal"),
    "own: linear, exponential noise": partial(own, linear, "exponential"),
    "own: linear, Laplace noise": partial(own, linear, "Laplace"),
    "own: bent sums, normal noise": partial(own, bent, "normal"),
    "own: smooth together, normal noise": partial(own, smooth, "normal"),
}
