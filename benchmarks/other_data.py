"""How the search does on data that are not as it assumes them, beside other methods; how often it is sure and wrong.

    .venv/bin/python benchmarks/other_data.py --list
    .venv/bin/python benchmarks/other_data.py --groups linear-exponential lsnm --rows 400 --seeds 1-5 --peers lingam
    .venv/bin/python benchmarks/other_data.py --part discrete public --peers hill-climbing cam

Three parts. *simulated*: 10 variables, 15 edges, 5 sites that share one model (`other_generators`). *discrete*: tables
of levels, and networks of the bnlearn repository as the package pgmpy brings them. *public*: the sets in
`../shared/data`, which are read there and never copied; --seeds and --rows do not matter for them. Peers learn from the
pooled rows, with their own defaults; `pip install '.[peers]'` brings their packages.

The first table has the mean SHD and CPU seconds: of `dag_`, and of a peer's graph, where directions that it leaves open
count as right / as wrong. Where the data tell the equivalence class alone, it is the strict distance between classes.
The last table says what the search is sure of, and how much of that is wrong: edges that the truth does not have, and
directions that are not those of the truth. The true graph is opened only to count.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any, Literal

import joblib
import numpy as np
import pandas as pd

from feddag import CausalGraph, EvidenceSearch, FeddagError, compare, make_learner, read_silos
from feddag.experiments.formats import markdown_table
from feddag.experiments.seeds import parse_seeds
from feddag.graphs import dag_extension, shd
from feddag.learners.causal_learn import adjacency_of
from feddag.parallel import as_finished
from feddag.silos.checks import CheckedSilos
from other_sets import DATA, GROUPS, Group, package

AUTO, OWN, COMMON = "auto", "graph", "all"
CLIMBS = 5


@dataclass(frozen=True)
class Errors:
    """Distances from the truth."""

    shd: int
    """Of the graph with all directions guessed."""
    reported_lenient: int
    """Of the reported graph, if open directions count as right."""
    reported_strict: int
    """Of the reported graph, if they count as wrong."""


@dataclass(frozen=True)
class Certainty:
    """What the search is sure of, and what of it is wrong."""

    edges: int
    edges_wrong: int
    directions: int
    directions_wrong: int
    within_class: int
    """Sure directions that data of this kind cannot tell."""
    warned: bool
    """Whether the user was warned."""


@dataclass(frozen=True)
class Run:
    """What one method found in one set."""

    group: str
    rows: int
    method: str
    seed: int
    seconds: float
    errors: Errors
    certainty: Certainty | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a method does not take a set."""

    group: str
    rows: int
    method: str
    seed: int
    reason: str


def errors(group: Group, guess: CausalGraph, reported: CausalGraph, truth: CausalGraph) -> Errors:
    """Count the errors of a graph with all directions guessed, and of the one that is reported."""
    if group.class_only:
        truth = truth.to_cpdag()
        strict = shd(reported, truth)
        return Errors(shd(_class_of(guess), truth), strict, strict)
    return Errors(compare(guess, truth).shd, compare(reported, truth).shd, shd(reported, truth))


def _class_of(graph: CausalGraph) -> CausalGraph:
    return CausalGraph(dag_extension(graph.adjacency), graph.names).to_cpdag()


def certainty(group: Group, evidence: pd.DataFrame, truth: CausalGraph, *, warned: bool) -> Certainty:
    """Count what the search is sure of, and what of it is wrong."""
    joined = {frozenset(edge) for edge in truth.edges}
    open_pairs = {frozenset(edge) for edge in truth.to_cpdag().undirected_edges} if group.class_only else set()
    present, directed = (
        list(zip(sure.cause, sure.effect, strict=True))
        for sure in (evidence[evidence.present.eq(True)], evidence[evidence.directed.eq(True)])
    )
    return Certainty(
        edges=len(present),
        edges_wrong=sum(frozenset(edge) not in joined for edge in present),
        directions=len(directed),
        directions_wrong=sum(edge not in truth.edges for edge in directed),
        within_class=sum(frozenset(edge) in open_pairs for edge in directed),
        warned=warned,
    )


def run_search(name: str, rows: int, sharing: Literal["auto", "graph", "all"], seed: int) -> Run | Refusal:
    """Fit the search to one set."""
    group = GROUPS[name]
    silos, truth = prepare(group, rows, seed)
    learner = EvidenceSearch(sharing, workers=1)
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            learner.fit(silos)
        except FeddagError as error:
            return Refusal(name, rows, sharing, seed, str(error))
    seconds = time.process_time() - begun
    guess = forced_direction(learner, silos) if group.weights else learner.dag_
    sure = certainty(group, learner.edge_evidence_, truth, warned=bool(caught))
    return Run(name, rows, sharing, seed, seconds, errors(group, guess, learner.graph_, truth), sure)


def forced_direction(learner: EvidenceSearch, silos: CheckedSilos) -> CausalGraph:
    """Return the better direction of a pair, also if the search finds no edge."""
    if learner.dag_.edges:
        return learner.dag_
    ways = [CausalGraph(way, learner.dag_.names) for way in ([[0, 1], [0, 0]], [[0, 0], [1, 0]])]
    return max(ways, key=lambda way: learner.log_evidence(silos, way))


def prepare(group: Group, rows: int, seed: int) -> tuple[CheckedSilos, CausalGraph]:
    """Draw a set, and bring its columns to mean 0 and deviation 1 as a user would."""
    tables, truth = group.draw(seed, rows)
    return read_silos(tables, missing=group.missing, scale="federated"), truth


Peer = Callable[[CheckedSilos, int], CausalGraph]
"""From the pooled table and a seed, a graph."""


def lingam(pooled: CheckedSilos, seed: int) -> CausalGraph:
    """DirectLiNGAM of causal-learn."""
    (table,) = pooled
    learner = package("causallearn.search.FCMBased.lingam").DirectLiNGAM(random_state=seed)
    learner.fit(table.values)
    return CausalGraph((learner.adjacency_matrix_.T != 0).astype(np.int8), table.columns)


def boss(pooled: CheckedSilos, seed: int) -> CausalGraph:
    """BOSS of causal-learn with the Gaussian BIC; it draws from Python's global stream."""
    (table,) = pooled
    random.seed(seed)
    found = package("causallearn.search.PermutationBased.BOSS").boss(table.values, verbose=False)
    return CausalGraph(adjacency_of(found.graph), table.columns)


def ges(pooled: CheckedSilos, seed: int) -> CausalGraph:
    """GES of causal-learn with the Gaussian BIC."""
    del seed
    return make_learner("ges", "all").fit(pooled).graph_


def cam(pooled: CheckedSilos, seed: int) -> CausalGraph:
    """CAM, feddag's own."""
    del seed
    return make_learner("cam", "all").fit(pooled).graph_


def hill_climbing(pooled: CheckedSilos, seed: int) -> CausalGraph:
    """Hill climbing of pgmpy with BDeu, once."""
    return _climb(pooled, np.random.default_rng(seed))[1]


def best_hill_climbing(pooled: CheckedSilos, seed: int) -> CausalGraph:
    """Hill climbing of pgmpy with BDeu, the best score of several climbs that break ties in other ways."""
    rng = np.random.default_rng(seed)
    return max((_climb(pooled, rng) for _ in range(CLIMBS)), key=lambda found: found[0])[1]


def _climb(pooled: CheckedSilos, rng: np.random.Generator) -> tuple[float, CausalGraph]:
    """Climb once, and return the score and the graph.

    BDeu is the same for both directions of a first edge, and pgmpy takes the one that comes first in a set: the graph
    depends, by much, on the hashes of the columns' names. So the names are drawn, and `main` fixes the hashes.
    """
    (table,) = pooled
    labels = [f"v{number}" for number in rng.permutation(len(table.columns))]
    frame = table.to_frame().set_axis(labels, axis=1)
    score = package("pgmpy.structure_score").BDeu(frame)
    search = package("pgmpy.causal_discovery").HillClimbSearch(score, return_type="dag", show_progress=False)
    found = search.fit(frame).adjacency_matrix_.loc[labels, labels].to_numpy()
    parents = {labels[node]: tuple(labels[k] for k in np.flatnonzero(found[:, node])) for node in range(len(labels))}
    return sum(score.local_score(*family) for family in parents.items()), CausalGraph(found, table.columns)


def empty(pooled: CheckedSilos, seed: int) -> CausalGraph:
    """No edge, as a sanity check: its SHD is the number of true edges."""
    del seed
    (table,) = pooled
    return CausalGraph(np.zeros((len(table.columns), len(table.columns))), table.columns)


FOR_NUMBERS: Mapping[str, Peer] = {"lingam": lingam, "boss": boss, "ges": ges, "cam": cam, "empty": empty}
FOR_LEVELS: Mapping[str, Peer] = {
    "hill-climbing": hill_climbing,
    "best-hill-climbing": best_hill_climbing,
    "empty": empty,
}
PEERS = {**FOR_NUMBERS, **FOR_LEVELS}
TITLES = {
    AUTO: "search, as the data say",
    OWN: "search, own mechanisms",
    COMMON: "search, common mechanisms",
    "lingam": "DirectLiNGAM",
    "boss": "BOSS",
    "ges": "GES",
    "cam": "CAM",
    "hill-climbing": "hill climbing, BDeu",
    "best-hill-climbing": f"the best of {CLIMBS}",
    "empty": "no edge",
}


def run_peer(name: str, rows: int, peer: str, seed: int) -> Run | Refusal:
    """Fit a peer to the pooled rows of one set."""
    group = GROUPS[name]
    silos, truth = prepare(group, rows, seed)
    pooled = silos.pooled("all sites")
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = PEERS[peer](pooled, seed)
        except np.linalg.LinAlgError as error:
            return Refusal(name, rows, peer, seed, str(error))
    return Run(name, rows, peer, seed, time.process_time() - begun, errors(group, found, found, truth))


def plan(groups: Sequence[str], asked: argparse.Namespace) -> list[Any]:
    """List the runs that are asked for, as delayed calls."""
    calls = []
    for name in groups:
        group = GROUPS[name]
        taking = FOR_LEVELS if group.part == "discrete" else FOR_NUMBERS
        peers = [peer for peer in asked.peers if peer in taking and not group.weights]
        for rows in asked.rows if asked.rows and group.part != "public" else group.rows:
            for seed in asked.seeds if group.sets is None else group.sets:
                calls += [joblib.delayed(run_search)(name, rows, sharing, seed) for sharing in asked.sharing]
                calls += [joblib.delayed(run_peer)(name, rows, peer, seed) for peer in peers]
    return calls


def by_data(runs: Iterable[Run]) -> list[tuple[str, int, list[Run]]]:
    """Sort the runs by group and rows."""

    def place(run: Run) -> tuple[int, int]:
        return list(GROUPS).index(run.group), run.rows

    return [(*key, list(some)) for key, some in groupby(sorted(runs, key=place), lambda run: (run.group, run.rows))]


def error_table(runs: Sequence[Run], refused: Sequence[Refusal], methods: Sequence[str]) -> str:
    """Write the mean SHD and CPU seconds, a line for each kind of data, a column for each method."""
    lines = []
    for name, rows, some in by_data(runs):
        cells = []
        for method in methods:
            found = [run for run in some if run.method == method]
            refusals = sum((each.group, each.rows, each.method) == (name, rows, method) for each in refused)
            if found:
                cells.append(f"{_distance(found)} ({fmean(run.seconds for run in found):.1f} s)")
            else:
                cells.append("refused" if refusals else "")
        lines.append([GROUPS[name].title, str(rows), *cells, str(len({run.seed for run in some}))])
    return markdown_table(["data", "rows of each site", *[TITLES[method] for method in methods], "sets"], lines)


def _distance(runs: Sequence[Run]) -> str:
    """Write the mean SHD of all directions guessed; if a peer leaves some open, also with these as wrong."""
    mean = f"{fmean(run.errors.shd for run in runs):.1f}"
    strict = f"{fmean(run.errors.reported_strict for run in runs):.1f}"
    guessed = runs[0].certainty is not None or GROUPS[runs[0].group].class_only
    return mean if guessed or mean == strict else f"{mean} / {strict}"


def pair_table(runs: Sequence[Run]) -> str:
    """Write the weighted share of right directions, and those that are sure."""
    lines = []
    for sharing in (AUTO, OWN, COMMON):
        found = [run for run in runs if run.method == sharing]
        for name, _, some in by_data(found):
            weights = GROUPS[name].weights
            right = sum(weights[run.seed] for run in some if not run.errors.shd)
            sure = [run.certainty for run in some if run.certainty and run.certainty.directions]
            figures = [
                f"{right / sum(weights[run.seed] for run in some):.3f}",
                str(len(sure)),
                str(sum(not each.directions_wrong for each in sure)),
            ]
            lines.append([GROUPS[name].title, TITLES[sharing], str(len(some)), *figures])
    return markdown_table(["data", "method", "pairs", "weighted accuracy", "sure", "sure and right"], lines)


def certainty_table(runs: Sequence[Run], sharings: Sequence[str]) -> str:
    """Write what the search was sure of, and what of it was wrong."""
    lines = []
    for name, rows, some in by_data(runs):
        for sharing in sharings:
            lines += _certainty(GROUPS[name].title, str(rows), sharing, some)
    for title, as_assumed in (("all that is as assumed", True), ("all else", False)):
        for sharing in sharings:
            some = [run for run in runs if GROUPS[run.group].as_assumed == as_assumed]
            lines += _certainty(title, "", sharing, some)
    header = [
        "data",
        "rows of each site",
        "mechanisms",
        "SHD of `graph_`: open is right / wrong",
        "sure edges",
        "wrong",
    ]
    header += ["sure directions", "wrong", "cannot be told", "warned"]
    return markdown_table(header, lines)


def _certainty(title: str, rows: str, sharing: str, runs: Sequence[Run]) -> list[list[str]]:
    """Write a line, or none if there is no such run."""
    runs = [run for run in runs if run.method == sharing]
    sure = [run.certainty for run in runs if run.certainty]
    if not sure:
        return []
    lenient, strict = (
        fmean(getattr(run.errors, rule) for run in runs) for rule in ("reported_lenient", "reported_strict")
    )
    edges, directions = sum(each.edges for each in sure), sum(each.directions for each in sure)
    figures = [
        str(edges),
        _share(sum(each.edges_wrong for each in sure), edges),
        str(directions),
        _share(sum(each.directions_wrong for each in sure), directions),
        str(sum(each.within_class for each in sure)),
        f"{sum(each.warned for each in sure)} of {len(sure)}",
    ]
    mechanisms = {AUTO: "as the data say", OWN: "own", COMMON: "common"}[sharing]
    return [[title, rows, mechanisms, f"{lenient:.1f} / {strict:.1f}", *figures]]


def _share(count: int, of_all: int) -> str:
    return f"{count} ({count / of_all:.0%})" if of_all else "0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, metavar="GROUP", help="by default all of the parts")
    parser.add_argument(
        "--part", nargs="+", choices=("simulated", "further", "discrete", "public"), default=["simulated"]
    )
    parser.add_argument("--rows", nargs="+", type=int, help="of each site; by default each group's own")
    parser.add_argument("--seeds", default="1-3", type=parse_seeds, help="such as 1-10, or one seed")
    parser.add_argument("--sharing", nargs="*", choices=(AUTO, OWN, COMMON), default=[AUTO, OWN, COMMON])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[])
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--list", action="store_true", help="list the groups")
    asked = parser.parse_args()
    if asked.list:
        lines = [[f"`{name}`", group.part, group.title] for name, group in GROUPS.items()]
        print(markdown_table(["group", "part", "data"], lines))
        return
    if os.environ.get("PYTHONHASHSEED") != "0":  # see _climb
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    groups = asked.groups or [name for name, group in GROUPS.items() if group.part in asked.part]
    if any(GROUPS[name].part == "public" for name in groups) and not DATA.is_dir():
        parser.error(f"the public sets must be in {DATA}, and there is no such folder")
    calls = plan(groups, asked)
    results = []
    for result in as_finished(calls, asked.jobs):
        results.append(result)
        print(f"{len(results)} of {len(calls)}: {describe(result)}", file=sys.stderr, flush=True)
    print("\n\n".join(tables(results, [*asked.sharing, *asked.peers], asked.sharing)))


def tables(results: Sequence[Run | Refusal], methods: Sequence[str], sharings: Sequence[str]) -> list[str]:
    """Write the tables that have a line."""
    refused = [result for result in results if isinstance(result, Refusal)]
    runs = [result for result in results if isinstance(result, Run)]
    graphs = [run for run in runs if not GROUPS[run.group].weights]
    pairs = [run for run in runs if GROUPS[run.group].weights]
    written = [error_table(graphs, refused, methods)] if graphs else []
    if pairs:
        written.append(pair_table(pairs))
    if sharings:
        written.append(certainty_table(runs, sharings))
    return written


def describe(result: Run | Refusal) -> str:
    """Say in a line what a run gave."""
    which = f"{result.group}, {result.rows} rows, {result.method}, seed {result.seed}"
    if isinstance(result, Refusal):
        return f"{which}: {result.reason}"
    found, sure = result.errors, result.certainty
    text = f"{which}: SHD {found.shd}"
    if sure:
        text += f", reported {found.reported_lenient}/{found.reported_strict}"
        text += f", {sure.edges_wrong} of {sure.edges} sure edges wrong"
        text += f", {sure.directions_wrong} of {sure.directions} sure directions"
    return f"{text}; {result.seconds:.1f} s"


if __name__ == "__main__":
    main()
