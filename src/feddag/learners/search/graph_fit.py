"""Where the common graph fits a site: judged at the site, by its own rows.

A site compares the graph with its near neighbours: without an edge, with an edge the other way, and with one more. What
it finds is for its own terminal. Into sums goes only whether its rows speak for an edge, and whether some variable's
causes are others there: the server learns how many sites say so, and not which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import networkx as nx
import numpy as np
from jaxtyping import Float, Int8

from feddag.federation.protocol import Answer, Arrays, Site, Task
from feddag.learners.bitsets import parents_of
from feddag.learners.search import tasks
from feddag.learners.search.scores import Family, as_rows

ODDS = 19.0
"""A site says that another graph fits it better from these odds on; all that it might have said share them."""
_LOOKED_AT = 2
"""So many further causes of each variable that quick regressions find most helpful."""


class _Change(NamedTuple):
    """A graph that differs by one edge from the common one."""

    words: str
    variable: int
    """Whose causes are others."""
    families: tuple[Family, ...]
    """Those that change."""


def answer_graph_fit(site: Site, task: Task, columns: Sequence[str], rows: int) -> Answer:
    """Say which edges a site's rows speak for, and which variables have other causes there; and tell its operator."""
    dag = task.arrays["dag"].astype(np.int8)
    judge = Judge(site, task.arrays["dag"], rows)
    now = list(enumerate(parents_of(dag)))
    without = [(int(j), now[j][1] & ~(1 << int(i))) for i, j in np.argwhere(dag)]
    added, turned = list(_with_one_more(dag, now, judge, columns)), list(_turned(dag, now, columns))
    changes = [*added, *turned]
    judge.learn([*now, *without, *chain.from_iterable(change.families for change in changes)])

    def gain(families: Sequence[Family]) -> float:
        return sum(judge.evidence[family] - judge.evidence[now[family[0]]] for family in families)

    lost = np.array([-gain([family]) for family in without])
    gains = np.array([gain(change.families) for change in changes])
    # a prior that any of these graphs is as likely as another, and all together as likely as the common one
    telling = gains > np.log(ODDS * max(len(dag) * (len(dag) - 1), 1))
    misfit = np.zeros(len(dag))
    misfit[[changes[k].variable for k in np.flatnonzero(telling)]] = 1
    notes = [
        f"the rows here speak against the graph: {changes[k].words} (log-evidence {gains[k]:.1f})"
        for k in _strongest_of_each(changes, gains, telling)
    ]
    missing = [
        f"{columns[i]} -> {columns[j]} ({each:.1f})"
        for (i, j), each in zip(np.argwhere(dag), lost, strict=True)
        if each < 0
    ]
    if missing:
        notes.append(f"edges of the graph that the rows here do not speak for (log-evidence): {', '.join(missing)}")
    return Answer(1.0, {"standing": (lost > 0).astype(float), "misfit": misfit}, tuple(notes))


def _strongest_of_each(changes: Sequence[_Change], gains: np.ndarray, telling: np.ndarray) -> list[int]:
    """Take the best change of each variable that tells."""
    best: dict[int, int] = {}
    for k in np.flatnonzero(telling).tolist():
        variable = changes[k].variable
        if variable not in best or gains[k] > gains[best[variable]]:
            best[variable] = k
    return sorted(best.values())


class Judge:
    """Scores families by one site's rows alone."""

    def __init__(self, site: Site, reference: np.ndarray, rows: int) -> None:
        self.evidence: dict[Family, float] = {}
        self._site = site
        self._reference = reference
        self._rows = rows

    def learn(self, families: Sequence[Family]) -> None:
        """Score families by full regressions."""
        new = [family for family in dict.fromkeys(families) if family not in self.evidence]
        scores = self._ask(tasks.SCORES.name, new)
        self.evidence.update((family, -self._rows * float(score)) for family, score in zip(new, scores, strict=True))

    def near(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        """Score families that differ by one parent by quick regressions."""
        return self._ask(tasks.NEIGHBOURHOODS.name, families)

    def _ask(self, name: str, families: Sequence[Family]) -> np.ndarray:
        nodes = self._reference.shape[1]
        arrays: Arrays = {
            "children": np.array([child for child, _ in families], dtype=np.int64),
            "parents": as_rows((parents for _, parents in families), nodes),
            "reference": self._reference,
        }
        return self._site.answer(Task(name, 0, {}, arrays, (0,))).arrays["scores"]


def _with_one_more(
    dag: Int8[np.ndarray, "node node"], now: Sequence[Family], judge: Judge, columns: Sequence[str]
) -> Iterator[_Change]:
    """List the graphs with a further edge that quick regressions find best."""
    descendants = nx.to_numpy_array(nx.transitive_closure_dag(nx.DiGraph(dag))) > 0
    for (child, parents), scores in zip(now, judge.near(now), strict=True):
        may_be = ~(descendants[child] | dag[:, child].astype(bool))
        may_be[child] = False
        better = [other for other in np.argsort(scores).tolist() if may_be[other] and scores[other] < scores[child]]
        for other in better[:_LOOKED_AT]:
            words = f"{columns[other]} -> {columns[child]} is missing"
            yield _Change(words, child, ((child, parents | 1 << other),))


def _turned(dag: Int8[np.ndarray, "node node"], now: Sequence[Family], columns: Sequence[str]) -> Iterator[_Change]:
    """List the graphs with an edge the other way."""
    for i, j in np.argwhere(dag).tolist():
        rest = dag.copy()
        rest[i, j] = 0
        if not nx.has_path(nx.DiGraph(rest), i, j):
            families = ((j, now[j][1] & ~(1 << i)), (i, now[i][1] | 1 << j))
            yield _Change(f"{columns[i]} -> {columns[j]} points the other way", j, families)
