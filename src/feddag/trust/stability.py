"""Whether the graph would be the same with other rows, or without one of the sites.

Each site draws half of its rows, and the graph is learned again, many times; and once without each site. A half says
as much about chance as all rows drawn with replacement do, and repeats no row: rows that occur twice depend on each
other, which methods take for a sign of something. Replicates are independent, so they run side by side, each is kept in
a file as soon as it is there, and a later call goes on from these.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import joblib
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import norm
from sklearn.base import clone

from feddag import constraints
from feddag.errors import AssumptionWarning, FeddagError
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint
from feddag.graphs import Adjacency, CausalGraph, ballot, support
from feddag.learners.base import SEED, Learner
from feddag.learners.status import Progress, Status
from feddag.parallel import as_finished
from feddag.silos import CheckedSilos, Silo
from feddag.silos.cells import count_levels, rare_levels
from feddag.silos.checks import MINIMUM_ROWS

CONFIDENCE = 0.95
_MOST_DRAWS = 100


class Replicate(NamedTuple):
    """Which data a graph was learned from: a draw of all sites' rows, or all sites but one."""

    kind: str
    """`"bootstrap"` or `"without"`."""
    number: int
    """The number of the draw, or of the site left out; from 0."""

    @property
    def file_name(self) -> str:
        """Return the name of its file."""
        return f"{self.kind}-{self.number + 1:03}.npz"


@dataclass(frozen=True)
class Stability:
    """The graphs of all replicates, over the learned graph's variables."""

    learned: CausalGraph
    bootstraps: list[Adjacency]
    without: dict[str, Adjacency]
    """By the site that was left out; empty where there is one site only."""

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "names": list(self.learned.names),
            "learned": self.learned.adjacency.tolist(),
            "bootstraps": [graph.tolist() for graph in self.bootstraps],
            "without": {site: graph.tolist() for site, graph in self.without.items()},
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Take up what `document` returned."""
        return cls(
            CausalGraph(np.array(document["learned"], dtype=np.int8), document["names"]),
            [np.array(graph, dtype=np.int8) for graph in document["bootstraps"]],
            {site: np.array(graph, dtype=np.int8) for site, graph in document["without"].items()},
        )

    def table(self) -> pd.DataFrame:
        """Return a row per edge."""
        return pd.DataFrame(self.edges(), columns=list(EdgeStability._fields))

    def edges(self) -> list[EdgeStability]:
        """List the pairs that the learned graph joins, then those that some bootstrap does."""
        ballots = [ballot(graph) for graph in self.bootstraps]
        votes = np.sum([support(*each) for each in ballots], axis=0)
        joined = votes + votes.T
        return [self._edge(i, j, votes, joined) for i, j in self._pairs(votes, joined)]

    def _pairs(
        self, votes: Float[np.ndarray, "node node"], joined: Float[np.ndarray, "node node"]
    ) -> Iterator[tuple[int, int]]:
        graph = self.learned.adjacency
        yield from ((i, j) for i, j in np.argwhere(graph).tolist() if not graph[j, i] or i < j)
        others = [(i, j) for i, j in np.argwhere(np.triu(joined)).tolist() if not graph[i, j] and not graph[j, i]]
        for i, j in sorted(others, key=lambda pair: -joined[pair]):
            yield (i, j) if votes[i, j] >= votes[j, i] else (j, i)

    def _edge(self, i: int, j: int, votes: np.ndarray, joined: np.ndarray) -> EdgeStability:
        graph = self.learned.adjacency
        count = len(self.bootstraps)
        present, low, high = share(joined[i, j], count)
        directed, direction_low, direction_high = share(votes[i, j], joined[i, j])
        fates = {site: _fate(graph, without, i, j) for site, without in self.without.items()}
        driving = {site: fate for site, fate in fates.items() if fate}
        return EdgeStability(
            self.learned.names[i],
            self.learned.names[j],
            _kind(graph, i, j),
            present,
            low,
            high,
            directed,
            direction_low,
            direction_high,
            "; ".join(driving),
            "; ".join(driving.values()),
        )


class EdgeStability(NamedTuple):
    """How often a pair comes back. Bounds are those of Wilson's interval, with 95 % confidence."""

    cause: str
    effect: str
    learned: str
    """Whether the learned graph has the edge `"directed"`, `"undirected"` or `"not"` at all."""
    frequency: float
    """The share of bootstraps in which the pair is joined, in whichever direction."""
    low: float
    high: float
    direction_frequency: float
    """The share of these in which it is directed as stated; an undirected edge counts half."""
    direction_low: float
    direction_high: float
    driving_site: str
    """The sites without which the edge vanishes or is reversed, separated by semicolons."""
    without_it: str
    """Which of the two."""


def _kind(graph: Adjacency, i: int, j: int) -> str:
    return "not" if not graph[i, j] else "undirected" if graph[j, i] else "directed"


def _fate(graph: Adjacency, without: Adjacency, i: int, j: int) -> str:
    """Say what becomes of a learned edge in the graph without a site."""
    if not graph[i, j]:
        return ""
    if not without[i, j] and not without[j, i]:
        return "vanishes"
    return "is reversed" if not graph[j, i] and not without[i, j] else ""


def share(count: float, total: float) -> tuple[float, float, float]:
    """Return a proportion and the bounds of Wilson's interval; without trials, NaN between 0 and 1."""
    if total == 0:
        return np.nan, 0.0, 1.0
    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    proportion, shrink = count / total, 1 + z**2 / total
    middle = (proportion + z**2 / (2 * total)) / shrink
    half = z / shrink * np.sqrt(proportion * (1 - proportion) / total + z**2 / (4 * total**2))
    return proportion, max(0.0, middle - half), min(1.0, middle + half)


def check_replicates(bootstraps: int, jobs: int, seed: int) -> None:
    """Refuse what `edge_stability` cannot do."""
    constraints.check(
        {"bootstraps": bootstraps, "jobs": jobs, "seed": seed},
        {"bootstraps": constraints.whole(1), "jobs": constraints.whole(1), "seed": SEED},
    )


def edge_stability(
    learner: Learner,
    silos: Any,
    *,
    bootstraps: int = 20,
    jobs: int = 1,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Stability:
    """Learn again and again, as `learner` did, from half of the rows of every site, and without each site.

    Args:
        learner: Fitted; it stays as it is.
        silos: The tables that it learned from.
        bootstraps: How many times halves are drawn.
        jobs: Processes that replicates are spread over. Their number changes nothing but the time.
        seed: The seed of the draws. A replicate depends on it and on its own number, not on how many there are.
        folder: Where finished replicates are kept. Those that are there already, of the same data, parameters and seed,
            are not repeated.
        progress: Called after every replicate. What it raises ends the work; the folder keeps what is done.
    """
    check_replicates(bootstraps, jobs, seed)
    silos = learner.check(silos)
    for silo in silos:
        if silo.rows < 2 * MINIMUM_ROWS:
            raise FeddagError(
                f"Site {silo.name!r}: {silo.rows} rows are too few to learn from half of them. Stability needs at "
                f"least {2 * MINIMUM_ROWS} at every site: leave the site out."
            )
    wanted = [Replicate("bootstrap", number) for number in range(bootstraps)]
    if len(silos) > 1:
        wanted += [Replicate("without", number) for number in range(len(silos))]
    kept = _Kept(None if folder is None else Path(folder), learner.fingerprint(silos), seed)
    found = kept.among(wanted)
    missing = [each for each in wanted if each not in found]
    started, before = time.monotonic(), len(found)
    with warnings.catch_warnings(), closing(_learn(learner, silos, missing, jobs, seed)) as replicates:
        # who stops the work knows that some of it is left
        warnings.filterwarnings("ignore", message=".*still being processed by the workers")
        for each, graph in replicates:
            kept.add(each, graph)
            found[each] = graph
            if progress is not None:
                spent, done = time.monotonic() - started, len(found) - before
                left = spent / done * (len(missing) - done)
                progress(Status(None, {"replicate": len(found), "replicates": len(wanted)}, spent, left))
    graph = learner.graph_.reordered(silos[0].columns)
    return Stability(
        graph,
        [found[each] for each in wanted if each.kind == "bootstrap"],
        {silos[each.number].name: found[each] for each in wanted if each.kind == "without"},
    )


@dataclass(frozen=True)
class _Kept:
    """Finished replicates on disk."""

    folder: Path | None
    fingerprint: str
    seed: int

    def among(self, wanted: Sequence[Replicate]) -> dict[Replicate, Adjacency]:
        found = {}
        for each in wanted if self.folder is not None else ():
            path = cast(Path, self.folder) / each.file_name
            if path.exists():
                document, arrays = load_checkpoint(path)
                if document == self._document():
                    found[each] = arrays["adjacency"]
        return found

    def add(self, replicate: Replicate, graph: Adjacency) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_checkpoint(self.folder / replicate.file_name, self._document(), {"adjacency": graph})

    def _document(self) -> dict[str, Any]:
        return {"fingerprint": self.fingerprint, "seed": self.seed, "drawn": "halves"}


def _learn(
    learner: Learner, silos: CheckedSilos, wanted: Sequence[Replicate], jobs: int, seed: int
) -> Generator[tuple[Replicate, Adjacency], None, None]:
    """Learn the replicates, and yield each as it is finished."""
    if not wanted:
        return
    jobs = min(jobs, len(wanted))
    # processes that each use all cores would only be in each other's way
    blank = learner.single_threaded() if jobs > 1 else cast(Learner, clone(learner))
    tasks = (joblib.delayed(_replicate)(blank, silos, each, seed, in_a_child=jobs > 1) for each in wanted)
    yield from as_finished(tasks, jobs)


def _replicate(
    learner: Learner, silos: CheckedSilos, which: Replicate, seed: int, *, in_a_child: bool
) -> tuple[Replicate, Adjacency]:
    if in_a_child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to decide about
    if which.kind == "bootstrap":
        tables = [draw_half(silo, (seed, which.number, position)) for position, silo in enumerate(silos)]
    else:
        tables = silos.subset(position for position in range(len(silos)) if position != which.number)
    learner = learner.with_sites(len(tables))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # that of the graph itself is enough
        return which, learner.fit(tables).graph_.reordered(silos[0].columns).adjacency


def draw_half(silo: Silo, seed: Sequence[int]) -> Silo:
    """Draw half of the rows, in their order, such that no column becomes constant.

    Nor does a level become rarer than the site's rule `minimum_cell` allows: it may be in no draw at all.
    """
    draw, varies = np.random.default_rng(seed), np.zeros(len(silo.columns), dtype=bool)
    for _ in range(_MOST_DRAWS):
        drawn = silo.with_rows(np.sort(draw.permutation(silo.rows)[: (silo.rows + 1) // 2]))
        varies = (drawn.values != drawn.values[0]).any(axis=0)
        if silo.targets is not None:
            varies |= silo.targets.all(axis=0)
        varies &= _levels_allowed(drawn)
        if varies.all():
            return drawn
    constant = silo.columns[int(varies.argmin())]
    raise FeddagError(
        f"Site {silo.name!r}: column {constant!r} hardly varies, and half of the rows make it constant, or one of "
        "its levels rarer than the site allows. Drop it."
    )


def _levels_allowed(silo: Silo) -> Bool[np.ndarray, " column"]:
    """Return, for each column, whether every level that some row has is in rows enough."""
    if silo.minimum_cell <= 1:
        return np.ones(len(silo.columns), dtype=bool)
    rare = {name: rare_levels(counts, silo.minimum_cell) for name, counts in count_levels(silo).items()}
    return np.array([not rare.get(name) for name in silo.columns])
