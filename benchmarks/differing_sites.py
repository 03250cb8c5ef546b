"""Measure the search where sites differ: experiments, mechanisms of a site's own, graphs that vary, and Sachs.

    python benchmarks/differing_sites.py [--sharing graph all] [--seeds 1 2 3 4 5] [--rows NAME ...] [--sachs FOLDER]
        [--peers ges gies cd-nod] [--groups]

For each row: the mean SHD of the reported graph with open directions counted as right and as wrong, the edges that are
there, those directed surely, and those of them that point the wrong way or are not in the truth; over all seeds. Peers
learn from the pooled rows, with their own defaults: GES (causal-learn) from these alone, CD-NOD (causal-learn, Fisher's
z) also from the number of each row's site, GIES (gies) from the targets of experiments. `pip install '.[peers]'` brings
their packages.

With `--groups`, instead: how often two groups of sites with a graph each are found, and with nothing wrong in either
graph; and the SHD with open directions counted as wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

import feddag
from feddag.errors import AssumptionWarning
from feddag.graphs import CausalGraph, compare, is_dag
from feddag.learners.causal_learn import adjacency_of
from feddag.learners.search.tasks import Sharing
from feddag.silos.checks import CheckedSilos
from other_generators import causal_order, random_graph
from other_sets import package

SACHS_TARGETS = {"3": "akt", "4": "pkc", "5": "pip2", "6": "mek", "7": "pip3", "8": "pkc", "9": "pka"}
"""By the first character of a condition's file."""


class Case(NamedTuple):
    """Tables, what experiments set in them, and the truth."""

    tables: Any
    truth: CausalGraph
    interventions: Mapping[str, Any] | None = None


def _simulated(nodes: int, edges: int, sites: int, rows: int, **options: Any) -> Callable[[int], Case]:
    def draw(seed: int) -> Case:
        graph = random_graph(np.random.default_rng(seed), nodes, edges)
        simulation = feddag.simulate(graph=graph, sites=sites, rows=rows, seed=seed, **options)
        return Case(simulation, simulation.truth)

    return draw


def _breaking(how: str) -> Callable[[int], Case]:
    """Draw straight lines at sites that differ in a way that the comparison of sites does not assume.

    Args:
        how: `slopes`: all slopes vary a little between sites; `devices`: at two of five sites a device stretches and
            shifts three columns; `selected`: two sites see only rows in which one variable is above its median;
            `device each`, `selected each`: at each site this happens to one variable, at no two to the same.
    """
    nodes, sites, rows = 10, 5, 400
    everywhere = how.endswith("each")

    def draw(seed: int) -> Case:
        rng = np.random.default_rng([99, seed])
        graph = random_graph(rng, nodes, 15)
        weights = graph * rng.uniform(0.4, 1.2, graph.shape) * rng.choice([-1, 1], graph.shape)
        deviations, touched = rng.uniform(0.7, 1.3, nodes), rng.choice(nodes, 5 if everywhere else 3, replace=False)
        tables, order = {}, causal_order(graph)
        for site in range(sites):
            own = weights + graph * rng.normal(0, 0.15 * (how == "slopes"), graph.shape)
            differs = everywhere or site >= sites - 2
            values = np.zeros((2 * rows, nodes))
            for node in order:
                values[:, node] = values @ own[:, node] + deviations[node] * rng.standard_normal(2 * rows)
            if how.startswith("selected") and differs:
                chosen = values[:, touched[site - sites]]
                values = values[chosen > np.median(chosen)]
            if how.startswith("device") and differs:
                stretched = touched[site - sites] if everywhere else touched
                values[:, stretched] = 1.5 * values[:, stretched] + 1
            tables[f"site-{site}"] = pd.DataFrame(values[:rows], columns=[f"x{node}" for node in range(nodes)])
        return Case(tables, CausalGraph(graph, [f"x{node}" for node in range(nodes)]))

    return draw


LINEAR = {"mechanism": "linear"}
ROWS: dict[str, Callable[[int], Case]] = {
    "experiments": _simulated(10, 15, 5, 400, **LINEAR, interventions=2),
    "one mechanism per site, 5 variables": _simulated(5, 6, 10, 200, **LINEAR, shifted=1),
    "one mechanism per site, 6 variables": _simulated(6, 8, 10, 100, **LINEAR, shifted=1),
    "sparse shifts": _simulated(10, 15, 5, 400, **LINEAR, shifted=1),
    "means only": _simulated(5, 6, 10, 200, **LINEAR, shifted=1, shift="mean"),
    "homogeneous GP": _simulated(10, 15, 5, 400, mechanism="gp"),
    "every mechanism differs": _simulated(5, 6, 10, 200, **LINEAR, shifted=5),
    "graphs that vary": _simulated(10, 15, 5, 400, mechanism="gp", varying=2),
    "slopes vary a little everywhere": _breaking("slopes"),
    "devices stretch columns at two sites": _breaking("devices"),
    "rows selected at two sites": _breaking("selected"),
    "a device stretches a column at each site": _breaking("device each"),
    "rows selected at each site": _breaking("selected each"),
}


SACHS = ("Sachs", "Sachs without targets", "Sachs, logarithms, targets changed")


def sachs(folder: Path, name: str) -> Case:
    """Read the nine conditions, with or without the targets of their reagents."""
    tables = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("[1-9]*.csv"))}
    if "logarithms" in name:
        tables = {condition: np.log(table) for condition, table in tables.items()}
    names = tables[next(iter(tables))].columns.tolist()
    adjacency = pd.DataFrame(0, names, names)
    for cause, effect in pd.read_csv(folder / "truth_edges.csv").itertuples(index=False):
        adjacency.loc[cause, effect] = 1
    declared: dict[str, Any] = {each: [SACHS_TARGETS[each[0]]] for each in tables if each[0] in SACHS_TARGETS}
    if "changed" in name:
        declared = {condition: {"changed": targets} for condition, targets in declared.items()}
    return Case(tables, CausalGraph(adjacency.to_numpy(), names), None if "without" in name else declared)


def _search(case: Case, sharing: Sharing) -> CausalGraph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        return feddag.EvidenceSearch(sharing, workers=1).fit(case.tables, interventions=case.interventions).graph_


def _ges(silos: CheckedSilos) -> np.ndarray:
    values = np.concatenate([silo.values for silo in silos])
    ges = package("causallearn.search.ScoreBased.GES").ges
    return adjacency_of(ges(values, "local_score_BIC")["G"].graph)


def _gies(silos: CheckedSilos) -> np.ndarray:
    targets = [np.flatnonzero(silo.is_target).tolist() for silo in silos]
    return package("gies").fit_bic([silo.values for silo in silos], targets)[0]


def _cd_nod(silos: CheckedSilos) -> np.ndarray:
    values = np.concatenate([silo.values for silo in silos])
    sites = np.repeat(np.arange(len(silos)), [silo.rows for silo in silos])[:, None]
    cdnod = package("causallearn.search.ConstraintBased.CDNOD").cdnod
    with contextlib.redirect_stderr(io.StringIO()):  # it shows its progress, whatever it is told
        found = cdnod(values, sites, 0.05, "fisherz").G.graph
    return adjacency_of(found[:-1, :-1])


PEERS: dict[str, Callable[[CheckedSilos], np.ndarray]] = {"ges": _ges, "gies": _gies, "cd-nod": _cd_nod}


def _peer(case: Case, name: str) -> CausalGraph:
    silos = feddag.read_silos(case.tables, interventions=case.interventions)
    found = PEERS[name](silos) != 0
    return CausalGraph(found.astype(np.int8), silos[0].columns)


def measure(case: Case, method: str) -> dict[str, float]:
    """Learn and compare."""
    started = time.perf_counter()
    graph = _peer(case, method) if method in PEERS else _search(case, cast(Sharing, method))
    found = compare(graph, case.truth)
    directed, truth = set(graph.edges), set(case.truth.edges)
    return {
        "shd": found.shd,
        "strict_shd": found.strict_shd,
        "edges": len(truth),
        "directed": len(directed),
        "right": len(directed & truth),
        "wrong": len(directed - truth),
        "seconds": time.perf_counter() - started,
    }


def _two_graphs(how: str, seed: int, sites: int, rows: int) -> tuple[dict[str, Any], list[CausalGraph]]:
    """Draw tables of two groups of sites. In the second one an edge is turned or left out; or mechanisms are others.

    Args:
        how: `turned`, `left out`, or `same`.
        seed: Of the graphs and of the rows.
        sites: In each group.
        rows: At each site.
    """
    rng = np.random.default_rng(seed)
    one = random_graph(rng, 6, 8)
    graphs = [one]
    for i, j in rng.permutation(np.argwhere(one)):
        other = one.copy()
        other[i, j] = 0
        other[j, i] = how == "turned"
        if is_dag(other):
            graphs.append(one if how == "same" else other)
            break
    tables, truths = {}, []
    for k, graph in enumerate(graphs):
        drawn = feddag.simulate(graph=graph, mechanism="gp", sites=sites, rows=rows, seed=seed + 1000 * k)
        tables |= {f"{k}-{silo.name}": silo.to_frame() for silo in drawn.silos}
        truths.append(drawn.truth)
    return tables, truths


def measure_groups(how: str, seeds: list[int], sites: int, rows: int) -> str:
    """Learn both graphs for each seed, and sum up in words."""
    found, right, alone, together = 0, 0, [], []
    for seed in seeds:
        tables, truths = _two_graphs(how, seed, sites, rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            learned = feddag.EvidenceSearch(groups=2, workers=1).fit(tables)
        if not learned.group_graphs_:
            continue
        found += 1
        pairs = [list(zip(learned.group_graphs_, order, strict=True)) for order in (truths, truths[::-1])]
        compared = [[compare(group.graph, truth) for group, truth in each] for each in pairs]
        own = min(compared, key=lambda each: sum(metrics.strict_shd for metrics in each))
        right += not any(metrics.shd for metrics in own)
        alone += [metrics.strict_shd for metrics in own]
        together += [compare(learned.graph_, truth).strict_shd for truth in truths]
    means = f", strict SHD {np.mean(alone):.1f} each, of the common graph {np.mean(together):.1f}" if found else ""
    return (
        f"{how}, {sites} + {sites} sites of {rows} rows: {found} of {len(seeds)} found, in {right} nothing wrong{means}"
    )


def main() -> None:
    """Print a line for each row and each sharing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sharing", nargs="*", default=["graph"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--rows", nargs="+", default=[*ROWS, *SACHS])
    parser.add_argument("--sachs", type=Path, default=Path(feddag.__file__).parent / "silos/real/data/sachs")
    parser.add_argument("--groups", action="store_true")
    given = parser.parse_args()
    if given.groups:
        for how in ("turned", "left out", "same"):
            for sites, rows in ((3, 400), (4, 800)):
                print(measure_groups(how, given.seeds, sites, rows), flush=True)
        return
    for name in given.rows:
        for method in [*given.sharing, *given.peers]:
            cases = [sachs(given.sachs, name)] if name in SACHS else [ROWS[name](seed) for seed in given.seeds]
            found = pd.DataFrame([measure(case, method) for case in cases])
            sums, means = found.sum(), found.mean()
            print(
                f"{name} [{method}]: SHD {means.shd:.1f} (strict {means.strict_shd:.1f}), {sums.edges:.0f} edges, "
                f"directed {sums.directed:.0f}: {sums.right:.0f} right, {sums.wrong:.0f} wrong; {means.seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
