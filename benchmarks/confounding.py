"""How the search fares where two variables have a common cause that no table has.

    .venv/bin/python benchmarks/confounding.py --seeds 2021-2022

Ten variables, about 15 edges, 2 to 4 hidden variables that each act on two or three others which have no edge to each
other, 5 sites of 400 rows. The first table counts sure causes: edges that are present and directed and for which a
hidden common cause is ruled out. The second compares the partial ancestral graph of `latent="allow"` with that of FCI
on the pooled rows (causal-learn, Fisher's z, level 0.01): adjacencies and recall by the true PAG; an arrowhead is right
if the variable there is truly no cause of the other. The true graph is opened only to count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from causallearn.search.ConstraintBased.FCI import fci as run_fci

from feddag import CausalGraph, EvidenceSearch, Simulation, simulate
from feddag.errors import AssumptionWarning
from feddag.experiments.seeds import parse_seeds
from feddag.graphs import compare_marks
from feddag.graphs.ancestral import to_mag
from feddag.graphs.marks import ARROW, CIRCLE, TAIL

DATA: dict[str, dict[str, Any]] = {
    "linear, normal noise": {"mechanism": "linear", "noise_deviation_range": (0.7, 1.4)},
    "linear, exponential noise": {"mechanism": "linear", "noise": "exponential"},
    "linear, uniform noise": {"mechanism": "linear", "noise": "uniform"},
    "linear, Laplace noise": {"mechanism": "linear", "noise": "laplace"},
    "Gaussian process, normal noise": {"mechanism": "gp"},
    "index functions, normal noise": {"mechanism": "mim"},
}
_OF_CAUSAL_LEARN = {-1: TAIL, 1: ARROW, 2: CIRCLE}


def draw(kind: str, nodes: int, hidden: int, seed: int) -> Simulation:
    size = {"edges_per_node": 1.5, "edge_probability": "exact", "sites": 5, "rows": 400}
    return simulate(nodes, hidden=hidden, seed=seed, **size, **DATA[kind])


def learn(drawn: Simulation, **parameters: Any) -> tuple[EvidenceSearch, float]:
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        learned = EvidenceSearch(workers=1, **parameters).fit(drawn)
    return learned, time.process_time() - started


def sure_edges(learned: EvidenceSearch) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The edges that are present and directed; and those of them that are no hidden common cause."""
    table = learned.edge_evidence_
    directed = table[table.present & table.directed]
    causes = directed[directed.confounding.eq("ruled out")]
    pairs = [set(zip(each.cause, each.effect, strict=True)) for each in (directed, causes)]
    return pairs[0], pairs[1]


def fci(drawn: Simulation) -> CausalGraph:
    values = np.concatenate(
        [(each.values - each.values.mean(axis=0)) / each.values.std(axis=0) for each in drawn.silos]
    )
    with contextlib.redirect_stdout(io.StringIO()):
        found = run_fci(values, "fisherz", 0.01, verbose=False, show_progress=False)[0].graph
    marks = np.zeros(found.shape, dtype=np.int8)
    for i, j in np.argwhere(found != 0):
        marks[j, i] = _OF_CAUSAL_LEARN[int(found[i, j])]  # theirs stands at i
    return CausalGraph.from_marks(marks, drawn.truth.names)


def rates(found: CausalGraph, drawn: Simulation) -> list[float]:
    by_pag = compare_marks(found, drawn.pag)
    mag = CausalGraph.from_marks(to_mag(drawn.admg.marks), drawn.truth.names)
    arrowhead = compare_marks(found, mag).arrowhead.precision
    return [by_pag.adjacency.precision, by_pag.adjacency.recall, arrowhead, by_pag.arrowhead.recall]


def measure(kind: str, nodes: int, seeds: Sequence[int], hidden: int | None) -> tuple[str, list[str]]:
    counts: Counter[str] = Counter()
    ours, theirs, seconds = [], [], np.zeros(2)
    for seed in seeds:
        number = 2 + seed % 3 if hidden is None else hidden
        drawn, plain = draw(kind, nodes, number, seed), draw(kind, nodes, 0, seed)
        joined = {frozenset(pair) for pair in drawn.admg.bidirected_edges}
        learned, taken = learn(drawn)
        pag, taken_with_pag = learn(drawn, latent="allow")
        seconds += taken, taken_with_pag
        directed, causes = sure_edges(learned)
        without, causes_without = sure_edges(learn(plain)[0])
        counts["pairs"] += len(joined)
        counts["confounded, directed"] += sum(frozenset(edge) in joined for edge in directed)
        counts["confounded, sure"] += sum(frozenset(edge) in joined for edge in causes)
        for name, found, truth in (
            ("directed", directed, drawn), ("sure", causes, drawn),
            ("directed without", without, plain), ("sure without", causes_without, plain),
        ):  # fmt: skip
            counts[name] += len(found & set(truth.truth.edges))
            counts[f"{name}, wrong"] += len(found - set(truth.truth.edges))
        ours.append(rates(pag.graph_, drawn))
        theirs.append(rates(fci(drawn), drawn))
    first = (
        f"| {kind} | {counts['pairs']} | {counts['confounded, sure']} | {counts['confounded, directed']} | "
        f"{counts['sure']} | {counts['sure, wrong']} | {counts['sure without']} | {counts['directed']} | "
        f"{counts['directed without']} |"
    )
    rows = []
    for name, found in (("search", ours), ("FCI, pooled rows", theirs)):
        ratio = f"{seconds[1] / seconds[0]:.1f}" if name == "search" else ""
        rows.append(f"| {kind} | {name} | {' | '.join(f'{each:.2f}' for each in np.mean(found, axis=0))} | {ratio} |")
    return first, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-3", type=parse_seeds, help="such as 1-10, or one seed")
    parser.add_argument("--nodes", default=10, type=int, help="observed variables")
    parser.add_argument("--hidden", type=int, help="hidden variables; 2 to 4 by seed unless given")
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=DATA, help="kinds of data")
    asked = parser.parse_args()
    found = [measure(kind, asked.nodes, asked.seeds, asked.hidden) for kind in asked.data]
    print(
        "| data | confounded pairs | called a sure cause | called directed | true causes that are sure | other sure | "
        "without hidden variables | true causes directed | without hidden variables |"
    )
    print("| --- " * 9 + "|")
    print("\n".join(first for first, _ in found))
    print(
        "\n| data | method | adjacency precision | adjacency recall | arrowhead precision | arrowhead recall | "
        'time against latent = "mark" |'
    )
    print("| --- " * 7 + "|")
    print("\n".join(row for _, rows in found for row in rows))


if __name__ == "__main__":
    main()
