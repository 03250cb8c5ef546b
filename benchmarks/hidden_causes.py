"""Measure methods where hidden variables act on the observed ones.

    python benchmarks/hidden_causes.py [--methods admg feddag-linear fci] [--seeds 1 2 3] [--hidden 3]
    python benchmarks/hidden_causes.py --bow-free            # linear, with noise drawn as for bow-free graphs

For each method, the mean over all seeds of the F1 of adjacencies, arrow heads, edges -> and edges <->, against the true
ADMG; of adjacencies and arrow heads between the PAGs of both; and, over all seeds, how many of the pairs that are only
confounded it calls cause and effect, in its graph and in the PAG of it. `fci` is causal-learn's, on pooled rows; it
returns a PAG, so that it has no figures of the first kind.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from causallearn.graph.Endpoint import Endpoint
from causallearn.search.ConstraintBased.FCI import fci

import feddag
from feddag.graphs import CausalGraph, compare_marks
from feddag.graphs.marks import ARROW, CIRCLE, TAIL
from other_generators import random_graph

NODES, EDGES, SITES, ROWS = 10, 15, 5, 400
Tables = dict[str, np.ndarray]


def simulated(seed: int, hidden: int, mechanism: str) -> tuple[Tables, CausalGraph]:
    """Draw sites by `feddag.simulate`."""
    graph = random_graph(np.random.default_rng(seed), NODES, EDGES)
    simulation = feddag.simulate(graph=graph, mechanism=mechanism, hidden=hidden, sites=SITES, rows=ROWS, seed=seed)
    return {silo.name: silo.values for silo in simulation.silos}, simulation.admg


def bow_free(seed: int) -> tuple[Tables, CausalGraph]:
    """Draw a bow-free graph, and weights, noise variances and covariances between usual bounds."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(NODES)
    weights = np.zeros((NODES, NODES))
    weights[np.ix_(order, order)] = np.triu(rng.random((NODES, NODES)) < 0.2, k=1)
    joined = np.triu(rng.random((NODES, NODES)) < 0.12, k=1) & (weights + weights.T == 0)
    weights *= rng.uniform(0.5, 2.0, weights.shape) * rng.choice([-1, 1], weights.shape)
    shared = joined * rng.uniform(0.4, 0.7, joined.shape) * rng.choice([-1, 1], joined.shape)
    shared = shared + shared.T
    noise = shared + np.diag(rng.uniform(0.7, 1.2, NODES) + np.abs(shared).sum(axis=0))
    drawn = rng.multivariate_normal(np.zeros(NODES), noise, SITES * ROWS) @ np.linalg.inv(np.eye(NODES) - weights)
    tables = {f"site-{k}": table for k, table in enumerate(np.split(drawn, SITES))}
    return tables, CausalGraph.admg(weights != 0, shared != 0)


def learn_fci(tables: Tables) -> CausalGraph:
    """Return causal-learn's PAG of the pooled rows."""
    graph, _ = fci(np.concatenate(list(tables.values())), "fisherz", 0.01, show_progress=False)
    ends = {Endpoint.ARROW.value: ARROW, Endpoint.TAIL.value: TAIL, Endpoint.CIRCLE.value: CIRCLE, 0: 0}
    return CausalGraph.from_marks(np.vectorize(ends.__getitem__)(graph.graph.T))


METHODS: dict[str, Callable[[Tables], CausalGraph]] = {
    "admg": lambda tables: feddag.make_learner("admg").fit(tables).graph_,
    "feddag-linear": lambda tables: feddag.FedDAG("all", "linear").fit(tables).graph_,
    "search": lambda tables: feddag.EvidenceSearch().fit(tables).graph_,
    "fci": learn_fci,
}


def measure(name: str, cases: list[tuple[Tables, CausalGraph]]) -> str:
    """Return a row of the table."""
    figures, called, surely, pairs, started = [], 0, 0, 0, time.monotonic()
    for tables, truth in cases:
        found = METHODS[name](tables)
        found = CausalGraph.from_marks(found.marks, truth.names)
        is_pag = any("circle" in edge[2:] for edge in found.marked_edges)
        parts = [] if is_pag else [compare_marks(found, truth)]
        own = found if is_pag or found.undirected_edges else found.to_pag()
        of_pag = compare_marks(own, truth.to_pag())
        row = [
            getattr(each, kind).f1 for each in parts for kind in ("adjacency", "arrowhead", "directed", "bidirected")
        ]
        figures.append([*(row or [np.nan] * 4), of_pag.adjacency.f1, of_pag.arrowhead.f1])
        confounded = truth.bidirected_edges
        called += sum(pair in found.edges or pair[::-1] in found.edges for pair in confounded)
        surely += sum(pair in own.edges or pair[::-1] in own.edges for pair in confounded)
        pairs += len(confounded)
    means = " ".join(f"{value:6.2f}" for value in np.mean(figures, axis=0))
    seconds = (time.monotonic() - started) / len(cases)
    return f"{name:15} {means}   {called:3} and {surely:3} of {pairs:3}   {seconds:6.1f} s"


def main() -> None:
    """Print a row for each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["admg", "feddag-linear", "fci"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--hidden", type=int, default=3)
    parser.add_argument("--mechanism", default="linear")
    parser.add_argument("--bow-free", action="store_true")
    given = parser.parse_args()
    cases = [
        bow_free(seed) if given.bow_free else simulated(seed, given.hidden, given.mechanism) for seed in given.seeds
    ]
    print("F1:               joined  heads     ->    <->  PAG: joined, heads   confounded called causes")
    for name in given.methods:
        print(measure(name, cases), flush=True)


if __name__ == "__main__":
    main()
