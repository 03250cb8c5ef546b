"""What privacy of every row costs: mean SHD of private-search against ε, beside NOTEARS on a noisy covariance.

    .venv/bin/python benchmarks/row_privacy.py --cases linear gp-large gp mixed --seeds 2021-2023
    .venv/bin/python benchmarks/row_privacy.py --curve linear gp --seeds 2021-2022
    .venv/bin/python benchmarks/row_privacy.py --sure --seeds 1-10

δ is 1e-6. Ranges are declared from rows that are in no table: their mean and three standard deviations to either side,
as somebody who knows the field would declare them. SHD is that of the reported graph by the rule that counts open
directions as right; `strict` counts each as an error. Noise is drawn from the seed, so that figures can be repeated: it
protects nobody. Seeds 1-10 are for tuning.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import mean
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from feddag import CausalGraph, FeddagError, PrivateSearch, compare, simulate
from feddag.experiments.seeds import parse_seeds
from feddag.federation.discrete_gaussian import simulated_noise
from feddag.learners.notears import NOTEARS
from feddag.learners.search.released import Release
from feddag.regression.moments import Moments
from feddag.silos.simulation.random_graphs import erdos_renyi

DELTA = 1e-6
NO_NOISE = 1e4
PILOT = 200
"""Rows of each site that are in no table, and tell which values are plausible."""


@dataclass(frozen=True)
class Data:
    """Tables, the graph behind them, and what is declared about them."""

    tables: dict[str, pd.DataFrame]
    truth: CausalGraph
    ranges: dict[str, tuple[float, float]]
    levels: dict[str, int]

    @property
    def rows(self) -> int:
        """The rows of all sites."""
        return sum(map(len, self.tables.values()))

    def learner(self, epsilon: float, seed: int, **options: Any) -> PrivateSearch:
        """Return a learner with these declarations."""
        return PrivateSearch(
            epsilon, DELTA, self.ranges, levels=self.levels, expected_rows=self.rows, noise_seed=seed, **options
        )

    def fit(self, learner: PrivateSearch) -> PrivateSearch:
        """Learn from these tables."""
        kinds = {name: {"type": "categorical", "levels": list(range(count))} for name, count in self.levels.items()}
        return learner.fit(self.tables, kinds=kinds or None)


def simulated(mechanism: str, sites: int, rows: int, seed: int, nodes: int = 10, noise: str = "gaussian") -> Data:
    """Draw tables of numbers over an ER2 graph."""
    simulation = simulate(nodes, mechanism=mechanism, noise=noise, sites=sites, rows=rows + PILOT, seed=seed)
    frames = {silo.name: silo.to_frame() for silo in simulation.silos}
    return _data(frames, simulation.truth, {})


def mixed(sites: int, rows: int, seed: int) -> Data:
    """Draw tables of four numbers and four variables of three levels, over an ER2 graph."""
    rng = np.random.default_rng([seed, 25])
    nodes, levels = 8, 3
    adjacency = erdos_renyi(nodes, 2, "published", rng)
    names = [f"x{k}" for k in range(nodes)]
    truth = CausalGraph(adjacency, names)
    discrete = rng.permutation(nodes)[: nodes // 2].tolist()
    total = sites * (rows + PILOT)
    values = np.zeros((total, nodes))
    for node in nx.topological_sort(nx.DiGraph(adjacency)):
        parents = np.flatnonzero(adjacency[:, node]).tolist()
        effects = np.zeros((total, levels if node in discrete else 1))
        for parent in parents:
            if parent in discrete:
                effects += rng.normal(0, 1.2, (levels, effects.shape[1]))[values[:, parent].astype(int)]
            else:
                bent = np.tanh(rng.uniform(1, 2) * values[:, parent]) + 0.5 * np.cos(2 * values[:, parent])
                effects += bent[:, None] * rng.choice([-1.0, 1.0], effects.shape[1]) * rng.uniform(0.8, 1.6)
        if node in discrete:
            values[:, node] = (effects + rng.gumbel(size=effects.shape)).argmax(axis=1)
        else:
            values[:, node] = effects[:, 0] + rng.standard_normal(total)
    parts = np.split(values, sites)
    frames = {f"site-{k}": pd.DataFrame(part, columns=names) for k, part in enumerate(parts)}
    return _data(frames, truth, {names[node]: levels for node in discrete})


def _data(frames: dict[str, pd.DataFrame], truth: CausalGraph, levels: dict[str, int]) -> Data:
    pilot = pd.concat([frame.iloc[:PILOT] for frame in frames.values()])
    tables = {name: frame.iloc[PILOT:].reset_index(drop=True) for name, frame in frames.items()}
    middle, deviation = pilot.mean(), pilot.std()
    ranges = {
        name: (float(middle[name] - 3 * deviation[name]), float(middle[name] + 3 * deviation[name]))
        for name in pilot.columns
        if name not in levels
    }
    return Data(tables, truth, ranges, levels)


CASES = {
    "linear": (lambda seed: simulated("linear", 10, 600, seed), (1.0, 3.0), {"mechanisms": "linear", "noise": "equal"}),
    "gp-large": (lambda seed: simulated("gp", 10, 6000, seed), (3.0,), {}),
    "gp": (lambda seed: simulated("gp", 10, 600, seed), (10.0,), {}),
    "mixed": (lambda seed: mixed(5, 2000, seed), (3.0,), {}),
}


def notears(data: Data, epsilon: float, seed: int) -> CausalGraph:
    """Learn by NOTEARS from the covariance of a release of straight lines: a baseline that one would write."""
    columns = tuple(data.ranges)
    learner = data.learner(epsilon, seed, mechanisms="linear")
    features = learner.features(columns)
    deviation = learner.privacy.multiplier * features.sensitivity
    exact = sum(features.products(frame[list(columns)].to_numpy()) for frame in data.tables.values())
    release = Release.of(features, exact + simulated_noise(seed, 0)(features.entries, round(deviation)), deviation)
    own = np.arange(features.nodes) * features.width
    covariance = release.correlations[np.ix_(own, own)] * np.outer(release.deviations, release.deviations)
    return NOTEARS().learn_moments(Moments(round(release.rows), columns, covariance), lambda figures: None)


def show(label: str, epsilon: float, graphs: list[tuple[CausalGraph, CausalGraph]]) -> None:
    """Print one line: mean SHD, strictly, and of an empty graph."""
    found = [compare(graph, truth) for graph, truth in graphs]
    shd, strict = mean(each.shd for each in found), mean(each.strict_shd for each in found)
    empty = mean(len(truth.edges) for _, truth in graphs)
    name = "none" if epsilon == NO_NOISE else f"{epsilon:g}"
    each = [one.shd for one in found]
    print(f"{label:28} ε {name:>5}  SHD {shd:5.1f}  strict {strict:5.1f}  empty {empty:5.1f}  {each}", flush=True)


def table(cases: list[str], seeds: tuple[int, ...]) -> None:
    """Print the table of the documentation."""
    for case in cases:
        draw, epsilons, options = CASES[case]
        drawn = {seed: draw(seed) for seed in seeds}
        for epsilon in (*epsilons, NO_NOISE):
            fitted = [(each.fit(each.learner(epsilon, seed, **options)), each.truth) for seed, each in drawn.items()]
            show(case, epsilon, [(learner.graph_, truth) for learner, truth in fitted])
        for epsilon in epsilons if case != "mixed" else ():
            graphs = [(notears(each, epsilon, seed), each.truth) for seed, each in drawn.items()]
            show(f"{case}, NOTEARS", epsilon, graphs)


def curve(mechanisms: list[str], seeds: tuple[int, ...]) -> None:
    """Print SHD against ε for several numbers of rows."""
    for rows in (1_000, 10_000, 100_000, 1_000_000):
        for mechanism in mechanisms:
            if mechanism == "gp" and rows > 10_000:
                continue  # drawing so many rows of a Gaussian process takes too long
            options = CASES[mechanism][2]
            drawn = {seed: simulated(mechanism, 10, rows // 10, seed) for seed in seeds}
            for epsilon in (0.3, 1.0, 3.0, 10.0):
                graphs = []
                for seed, each in drawn.items():
                    try:
                        graph = each.fit(each.learner(epsilon, seed, **options)).graph_
                    except FeddagError:  # the release itself says that there are too few rows
                        graph = CausalGraph(np.zeros_like(each.truth.adjacency), each.truth.names)
                    graphs.append((graph, each.truth))
                show(f"{mechanism}, {rows:,} rows", epsilon, graphs)


def sure(seeds: tuple[int, ...]) -> None:
    """Print how many of the edges, and of the directions, that are reported as sure are false."""
    lines = {"mechanisms": "linear"}
    cases = {
        "linear, 1,000 rows": (lambda seed: simulated("linear", 10, 100, seed), 1.0, {**lines, "noise": "equal"}),
        "linear, 6,000 rows": (lambda seed: simulated("linear", 10, 600, seed), 1.0, {**lines, "noise": "equal"}),
        "linear, 6,000 rows ": (lambda seed: simulated("linear", 10, 600, seed), 0.3, {**lines, "noise": "equal"}),
        "exponential noise": (lambda seed: simulated("linear", 10, 600, seed, 8, "exponential"), 3.0, lines),
        "uniform noise": (lambda seed: simulated("linear", 10, 600, seed, 8, "uniform"), 3.0, lines),
        "mixed": (lambda seed: mixed(5, 2000, seed), 3.0, {}),
    }
    for case, (draw, epsilon, options) in cases.items():
        edges = directions = false_edges = false_directions = 0
        for seed in seeds:
            data = draw(seed)
            true, names = data.truth.adjacency.astype(bool), list(data.truth.names)
            for row in data.fit(data.learner(epsilon, seed, **options)).edge_evidence_.itertuples():
                cause, effect = names.index(row.cause), names.index(row.effect)
                edges += (present := bool(row.present))
                false_edges += present and not (true | true.T)[cause, effect]
                directions += (directed := present and bool(row.directed))
                false_directions += directed and not true[cause, effect]
        print(
            f"{case:20} ε {epsilon:>4g}  false: {false_edges} of {edges} edges, "
            f"{false_directions} of {directions} directions",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--curve", nargs="*", choices=("linear", "gp"), help="of data of these mechanisms")
    parser.add_argument("--sure", action="store_true", help="count what is reported as sure, and false")
    parser.add_argument("--seeds", type=parse_seeds, default=(2021, 2022, 2023))
    asked = parser.parse_args()
    if asked.sure:
        sure(asked.seeds)
    elif asked.curve:
        curve(asked.curve, asked.seeds)
    else:
        table(asked.cases, asked.seeds)


if __name__ == "__main__":
    main()
