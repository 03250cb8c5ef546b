"""How methods fare where two variables have a common cause that no table has.

    .venv/bin/python benchmarks/hidden_causes.py --seeds 1-3
    .venv/bin/python benchmarks/hidden_causes.py --part pags --data "own: linear, normal noise" --tetrad PYTHON
    .venv/bin/python benchmarks/hidden_causes.py --part bow-free --peers PYTHON

Ten variables, 15 edges, 2 to 4 hidden variables that each act on two or three others which have no edge to each other,
5 sites of 400 rows (`hidden_generators`). The true graph is opened only to count. Three parts:

- *marks*: what the search is sure of. A confounded pair is called a cause if an arrow joins it in the drawing (it is a
  `sure_cause`); in brackets those of which it truly is one along other variables. The next column counts those that are
  `directed`. The same model without the hidden effects says how many true causes are found then.
- *pags*: the partial ancestral graph of `latent="allow"`, beside those of FCI (causal-learn) and BOSS-FCI (tetrad-port)
  on the pooled rows, level 0.01: adjacencies and recall by the true PAG; an arrowhead is right if the variable there is
  truly no cause of the other.
- *bow-free*: F1 of adjacencies, edges -> and edges <-> on linear bow-free models with normal noise: `admg`, and
  ABIC (lingam's ABICLiNGAM for normal noise) on the pooled rows.

tetrad-port and lingam may need a Python of their own: name it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from causallearn.search.ConstraintBased.FCI import fci as run_fci

from feddag import CausalGraph, EvidenceSearch, make_learner
from feddag.errors import AssumptionWarning
from feddag.experiments.formats import markdown_table
from feddag.experiments.seeds import parse_seeds
from feddag.graphs import Edge, Mark, compare_marks
from feddag.graphs.ancestral import to_mag
from feddag.graphs.marks import ARROW, CIRCLE, TAIL
from hidden_generators import DATA, Case, bow_free

_OF_CAUSAL_LEARN = {-1: TAIL, 1: ARROW, 2: CIRCLE}
_OF_TETRAD: dict[str, Mark] = {"-": "tail", "<": "arrow", ">": "arrow", "o": "circle"}
_BOSS_FCI = """
import json, sys, numpy, pandas, tetrad_port
values = numpy.load(sys.argv[1])
table = pandas.DataFrame(values, columns=[f"v{k}" for k in range(values.shape[1])])
print(json.dumps(tetrad_port.TetradPort().run_boss_fci(table, alpha=0.01, penalty_discount=2.0)[0]["edges"]))
"""
_ABIC = """
import json, sys, numpy, lingam
learned = lingam.ABICLiNGAM(beta=1.0, seed=0).fit(numpy.load(sys.argv[1]))
print(json.dumps(numpy.nan_to_num(learned.adjacency_matrix_, nan=9e9).tolist()))
"""
Pairs = set[tuple[str, str]]


def learn(case: Case, **parameters: Any) -> tuple[EvidenceSearch, float]:
    """Fit the search, and return it with its CPU seconds."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        learned = EvidenceSearch(workers=1, **parameters).fit(_named(case))
    return learned, time.process_time() - started


def _named(case: Case) -> dict[str, pd.DataFrame]:
    return {name: pd.DataFrame(table, columns=list(case.truth.names)) for name, table in case.tables.items()}


def causes_told(learned: EvidenceSearch) -> tuple[Pairs, Pairs]:
    """Return the edges that are directed, and those that are drawn as an arrow alone."""
    table = learned.edge_evidence_
    directed, drawn = table[table.directed], table[table.sure_cause]
    return set(zip(directed.cause, directed.effect, strict=True)), set(zip(drawn.cause, drawn.effect, strict=True))


def measure_marks(kind: str, seeds: Sequence[int], nodes: int, hidden: int | None) -> list[str]:
    """Return a row of the first table."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        drawn, plain = (DATA[kind](seed, nodes, hidden or 2 + seed % 3, acts) for acts in (True, False))
        confounded = {frozenset(pair) for pair in drawn.truth.bidirected_edges}
        counts["pairs"] += len(confounded)
        paths = nx.transitive_closure(nx.DiGraph(drawn.truth.edges))
        counts["pairs, indirect"] += sum(
            paths.has_edge(i, j) or paths.has_edge(j, i) for i, j in drawn.truth.bidirected_edges
        )
        told = zip(("directed", "drawn"), causes_told(learn(drawn)[0]), causes_told(learn(plain)[0]), strict=True)
        for name, found, without in told:
            right = set(drawn.truth.edges)
            of_confounded = {edge for edge in found if frozenset(edge) in confounded}
            counts[f"{name}, confounded"] += len(of_confounded)
            counts[f"{name}, confounded, indirect"] += sum(paths.has_edge(*edge) for edge in of_confounded)
            counts[name] += len(found & right)
            counts[f"{name}, other"] += len(found - right - of_confounded)
            counts[f"{name} without"] += len(without & set(plain.truth.edges))
    pairs = [
        f"{counts[name]} ({counts[name + ', indirect']})"
        for name in ("pairs", "drawn, confounded", "directed, confounded")
    ]
    names = ("drawn", "drawn, other", "drawn without", "directed", "directed without")
    return [kind, *pairs, *(str(counts[name]) for name in names)]


def learn_fci(case: Case) -> CausalGraph:
    """Return causal-learn's PAG of the pooled rows."""
    with contextlib.redirect_stdout(io.StringIO()):
        learned: Any = run_fci(_pooled(case), "fisherz", 0.01, verbose=False, show_progress=False)[0]
    found = learned.graph
    marks = np.zeros(found.shape, dtype=np.int8)
    for i, j in np.argwhere(found != 0):
        marks[j, i] = _OF_CAUSAL_LEARN[int(found[i, j])]  # theirs stands at i
    return CausalGraph.from_marks(marks, case.truth.names)


def learn_boss_fci(python: str, case: Case) -> CausalGraph:
    """Return tetrad-port's PAG of the pooled rows."""
    edges, names = [], case.truth.names
    for text in _elsewhere(python, _BOSS_FCI, case):
        source, arrow, target = text.split()
        ends = names[int(source[1:])], names[int(target[1:])]
        edges.append(Edge(*ends, _OF_TETRAD[arrow[0]], _OF_TETRAD[arrow[-1]]))
    return CausalGraph.from_edges(edges, names)


def learn_abic(python: str, case: Case) -> CausalGraph:
    """Return the ADMG of lingam's ABIC for normal noise: theirs has effects in rows, and both cells empty for <->."""
    found = np.array(_elsewhere(python, _ABIC, case)).T
    joined = found > 1e9
    return CausalGraph.admg((found != 0) & ~joined, joined & joined.T, case.truth.names)


def _elsewhere(python: str, program: str, case: Case) -> Any:
    """Run a peer in the Python that has it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, _pooled(case))
        done = subprocess.run([python, "-c", program, str(path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _pooled(case: Case) -> np.ndarray:
    tables = [(each - each.mean(axis=0)) / each.std(axis=0) for each in case.tables.values()]
    return np.concatenate(tables)


def measure_pags(
    kind: str, seeds: Sequence[int], nodes: int, hidden: int | None, tetrad: str | None
) -> list[list[str]]:
    """Return a row of the second table for each method."""
    figures: dict[str, list[list[float]]] = {}
    seconds = np.zeros(2)
    for seed in seeds:
        case = DATA[kind](seed, nodes, hidden or 2 + seed % 3, True)
        pag, mag = case.truth.to_pag(), CausalGraph.from_marks(to_mag(case.truth.marks), case.truth.names)
        (allowed, with_pag), (_, without) = learn(case, latent="allow"), learn(case)
        seconds += with_pag, without
        found = {"search": allowed.graph_, "FCI, pooled rows": learn_fci(case)}
        if tetrad:
            found["BOSS-FCI, pooled rows"] = learn_boss_fci(tetrad, case)
        for name, graph in found.items():
            by_pag, by_mag = compare_marks(graph, pag), compare_marks(graph, mag)
            row = [by_pag.adjacency.precision, by_pag.adjacency.recall]
            figures.setdefault(name, []).append([*row, by_mag.arrowhead.precision, by_pag.arrowhead.recall])
    times = {"search": f"{seconds[0] / seconds[1]:.1f}"}
    means = {name: [f"{each:.2f}" for each in np.mean(rows, axis=0)] for name, rows in figures.items()}
    return [[kind, name, *row, times.get(name, "")] for name, row in means.items()]


def measure_bow_free(seeds: Sequence[int], nodes: int, peers: str | None) -> list[list[str]]:
    """Return a row of the third table for each method."""
    methods: dict[str, Callable[[Case], CausalGraph]] = {
        "admg": lambda case: make_learner("admg").fit(_named(case)).graph_,
        "admg, ancestral": lambda case: make_learner("admg", constraint="ancestral").fit(_named(case)).graph_,
        "FCI, pooled rows": learn_fci,
    }
    if peers:
        methods["ABIC, pooled rows"] = lambda case: learn_abic(peers, case)
    rows, cases = [], [bow_free(seed, nodes) for seed in seeds]
    for name, method in methods.items():
        figures, started = [], time.monotonic()
        for case in cases:
            found = method(case)
            parts = compare_marks(found, case.truth)
            of_pag = compare_marks(found if (found.marks == CIRCLE).any() else found.to_pag(), case.truth.to_pag())
            of_admg = [parts.directed.f1, parts.bidirected.f1] if method is not learn_fci else [np.nan] * 2
            figures.append([parts.adjacency.f1, *of_admg, of_pag.adjacency.f1, of_pag.arrowhead.f1])
        means = ["" if np.isnan(each) else f"{each:.2f}" for each in np.mean(figures, axis=0)]
        rows.append([name, *means, f"{(time.monotonic() - started) / len(cases):.0f}"])
    return rows


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", default=["marks", "pags"], choices=("marks", "pags", "bow-free"))
    parser.add_argument("--seeds", default="1-3", type=parse_seeds, help="such as 1-10, or one seed")
    parser.add_argument("--nodes", default=10, type=int, help="observed variables")
    parser.add_argument("--hidden", type=int, help="hidden variables; 2 to 4 by seed unless given")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA, help="kinds of data")
    parser.add_argument("--tetrad", metavar="PYTHON", help="a Python that has tetrad-port")
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has lingam")
    given = parser.parse_args()
    size = given.nodes, given.hidden
    if "marks" in given.part:
        heads = ["data", "confounded pairs", "drawn as a cause", "directed", "true causes drawn", "other drawn"]
        heads += ["without hidden variables", "true causes directed", "without hidden variables"]
        print(markdown_table(heads, [measure_marks(kind, given.seeds, *size) for kind in given.data]))
    if "pags" in given.part:
        heads = ["data", "method", "adjacency precision", "adjacency recall", "arrowhead precision", "arrowhead recall"]
        found = [row for kind in given.data for row in measure_pags(kind, given.seeds, *size, given.tetrad)]
        print(markdown_table([*heads, 'time against latent = "mark"'], found))
    if "bow-free" in given.part:
        heads = ["method", "joined", "->", "<->", "PAG: joined", "PAG: arrowheads", "seconds"]
        print(markdown_table(heads, measure_bow_free(given.seeds, given.nodes, given.peers)))


if __name__ == "__main__":
    main()
