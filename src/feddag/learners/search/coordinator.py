"""The server's side of the search: it asks, searches, and can be stopped and taken up after any round.

It sees weighted means of the sites' answers and nothing else, and runs on any `Federation`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int8

from feddag.federation import Federation
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import TaskSpec
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.alternatives import find_better
from feddag.learners.search.ancestral_search import find_pag
from feddag.learners.search.checks import Checks
from feddag.learners.search.common_scores import AutoScores, CommonScores
from feddag.learners.search.confounding import mark_confounding
from feddag.learners.search.directions import Directions, Edge, doubt_outshone, weigh
from feddag.learners.search.equivalents import refine_class
from feddag.learners.search.groups import FEWEST, Groups, find_groups
from feddag.learners.search.order_search import OrderSearch, random_moves
from feddag.learners.search.refinement import joint_score, refine
from feddag.learners.search.scores import OwnScores, Scores
from feddag.learners.search.tasks import Sharing

_SIDE_BY_SIDE = 5
"""The number of further searches that share their rounds."""
_MOST_ESTIMATES = 3
"""The number of times that noise of equal variance is estimated anew, from the last graph."""


@dataclass(frozen=True)
class SearchRound:
    """One round of questions to all sites."""

    round: int
    stage: str
    """The stage that asked: order, refinement, directions, checks, hidden causes, or groups; and the group's name."""
    families: int
    """The number of families scored so far."""
    edges: int | None
    score: float | None
    """The score of the best graph so far."""
    seconds: float
    bytes_sent: int = 0
    """Sent by all sites so far; `bytes_received` likewise."""
    bytes_received: int = 0


@dataclass
class SearchHistory:
    """All rounds of a search."""

    rounds: list[SearchRound] = field(default_factory=list)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per round."""
        return pd.DataFrame([asdict(each) for each in self.rounds], columns=list(SearchRound.__dataclass_fields__))


@dataclass(frozen=True)
class Found:
    """The outcome of a search."""

    dag: Int8[np.ndarray, "node node"]
    score: float
    order: list[int]


class SearchCoordinator:
    """Runs the search on a federation.

    Its state is what sites have answered: a resumed search starts anew, finds these answers, and soon stands where it
    stood.
    """

    def __init__(
        self,
        federation: Federation,
        knowledge: Knowledge,
        *,
        sharing: Sharing = "auto",
        equal_noise: bool,
        clock: Callable[[], float],
        scores: Scores | None = None,
        history: SearchHistory | None = None,
        group: str = "",
    ) -> None:
        """Stand ready; `scores` are those that `sharing` stands for, unless they are given.

        The search of a group goes on with the `history` of the one before it, and names itself in each stage.
        """
        nodes = len(knowledge.allowed)
        self.history = SearchHistory() if history is None else history
        self._group = group
        self.after_round: Callable[[SearchRound], None] = lambda _: None
        """Called after each round, once its answers are kept."""
        self._federation = federation
        self._knowledge = knowledge
        self._equal_noise = equal_noise
        self._clock = clock
        self._stage = "order"
        self._best: Found | None = None
        self._unreported = False
        sites = len(federation.sites)
        by_sharing = {"graph": OwnScores, "all": CommonScores, "auto": AutoScores}
        kind = OwnScores if equal_noise else by_sharing[sharing]
        self.scores: Scores = scores or kind(nodes, self._ask, sites)
        self._orders = OrderSearch(self.scores, knowledge)

    @property
    def minimum_sites(self) -> int:
        """The fewest sites that a number may be about."""
        return getattr(self._federation, "minimum_sites", 1)

    def run(
        self, start: list[int] | None, restarts: int, time_budget: float | None, rng: np.random.Generator
    ) -> tuple[Found, list[Found]]:
        """Return the best graph, and what each search has found.

        Every further search begins at the best order so far, shuffled. Some go side by side, as if none of them found a
        better one; where one does, those after it begin anew.
        """
        found = [self._search_first(start)]
        moves: list[list[tuple[int, int]]] = []
        while len(found) <= restarts and self._has_time(len(found), time_budget):
            best = min(found, key=lambda each: each.score)
            begin = len(found) - 1
            end = min(begin + _SIDE_BY_SIDE, restarts)
            moves += [random_moves(self.scores.nodes, rng) for _ in range(end - len(moves))]
            for each in self._search_from([self._orders.shuffle(best.order, each) for each in moves[begin:end]]):
                found.append(each)
                if each.score < best.score:
                    break
        best = min(range(len(found)), key=lambda k: found[k].score)
        found[best] = self._reverse_edges(found[best])
        if self.scores.misled(found[best].dag):
            found[best] = self._search_alone(found[best])
        return found[best], found

    def _search_alone(self, found: Found) -> Found:
        """Search on from the best order with each site's own mechanisms, whatever sites have in common."""
        self.scores.leave_sites_alone()
        self._best = None  # scores do not compare with earlier ones
        self._orders = OrderSearch(self.scores, self._knowledge)
        (alone,) = self._search_from([found.order])
        return self._reverse_edges(alone)

    def _reverse_edges(self, found: Found) -> Found:
        """Climb on from the best graph that has an edge reversed, as long as that helps."""
        while True:
            self._stage = "refinement"
            better = find_better(found.dag, self.scores, self._orders, self._knowledge)
            if better is None:
                return found
            better = refine(self.scores, self._knowledge, better)
            score = joint_score(self.scores, better)
            if score >= found.score:
                return found
            self._best = found = Found(better, score, found.order)

    def _has_time(self, searches: int, time_budget: float | None) -> bool:
        """Decide by the clock whether to search on; a search that is resumed decides as it did before."""
        if time_budget is None:
            return True
        return self._federation.decide(f"search {searches + 1}", lambda: self._clock() <= time_budget)

    def weigh(self, dag: Int8[np.ndarray, "node node"], confidence: float) -> Directions:
        """Weigh each edge of a graph, and leave directions open that the data do not tell."""
        self._stage = "directions"
        directions = weigh(dag, self.scores, self._orders, self._knowledge, confidence)
        self._report_round()
        return directions

    def check(self, dag: Int8[np.ndarray, "node node"]) -> Checks:
        """Check whether the assumptions hold that a graph rests on."""
        self._stage = "checks"
        checks = self.scores.check(dag)
        self._report_round()
        return checks

    def find_groups(self, dag: Int8[np.ndarray, "node node"]) -> Groups | None:
        """Say whether the sites fall into two groups with different graphs, both of enough sites."""
        self._stage = "groups"
        answer = self.scores.votes(dag)
        self._report_round()
        fewest = max(FEWEST, self.minimum_sites)
        return find_groups(dag, answer, len(self._federation.sites), fewest, self._knowledge)

    def mark_confounding(
        self, dag: Int8[np.ndarray, "node node"], directions: Directions, checks: Checks, confidence: float
    ) -> Directions:
        """Say which edges of a graph a hidden common cause may explain."""
        self._stage = "hidden causes"
        if not self._equal_noise:
            directions = doubt_outshone(dag, directions, self.scores, self._knowledge)
        marked = mark_confounding(
            dag,
            directions,
            checks,
            self.scores,
            self._knowledge,
            confidence,
            equal_noise=self._equal_noise,
        )
        self._report_round()
        return marked

    def find_pag(
        self, dag: Int8[np.ndarray, "node node"], directions: Directions, absent: Collection[Edge]
    ) -> Int8[np.ndarray, "node node"]:
        """Return the marks of a PAG: what holds of a graph whoever may be hidden."""
        marks = find_pag(dag, directions, absent, self.scores, self._knowledge)
        self._report_round()
        return marks

    def _search_first(self, start: list[int] | None) -> Found:
        """Search once; where noise has equal variance, once more with each better estimate of it."""
        order = self._orders.first_order() if start is None else self._knowledge.admissible(start)
        (found,) = self._search_from([order])
        for _ in range(_MOST_ESTIMATES if self._equal_noise else 0):
            last = found
            self._best = None  # scores under different estimates do not compare
            self.scores.refer_to(last.dag)
            self._orders = OrderSearch(self.scores, self._knowledge)
            (found,) = self._search_from([last.order])
            if (found.dag == last.dag).all():
                break
        return found

    def _search_from(self, orders: list[list[int]]) -> Iterator[Found]:
        """Search from each of these orders."""
        self._stage = "order"
        for order in self._orders.improve(orders):
            dag = self._orders.graph(order)
            self._stage = "refinement"
            dag = refine(self.scores, self._knowledge, dag)
            if self.scores.discrete:
                dag = refine_class(self.scores, self._knowledge, dag)
            found = Found(dag, joint_score(self.scores, dag), order)
            if self._best is None or found.score < self._best.score:
                self._best = found
            yield found

    def _ask(self, task: TaskSpec, arrays: Arrays) -> dict[str, np.ndarray]:
        self._report_round()
        number = len(self.history.rounds)
        answer = task.ask(self._federation, number, arrays)
        self._unreported = True
        return answer

    def _report_round(self) -> None:
        """Report the last round, once its answers are kept: when the next one begins, or all is done."""
        if not self._unreported:
            return
        self._unreported = False
        best = self._best
        self.history.rounds.append(
            SearchRound(
                round=len(self.history.rounds) + 1,
                stage=" ".join(filter(None, (self._stage, self._group))),
                families=self.scores.families,
                edges=None if best is None else int(best.dag.sum()),
                score=None if best is None else best.score,
                seconds=self._clock(),
                **self._federation.ledger.so_far(),
            )
        )
        self.after_round(self.history.rounds[-1])

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered, and the rounds so far."""
        scores, arrays = self.scores.snapshot()
        return {"scores": scores, "rounds": [asdict(each) for each in self.history.rounds]}, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        self.scores.restore(document["scores"], arrays)
        self.history.rounds[:] = [SearchRound(**each) for each in document["rounds"]]


class Searches:
    """The search of all sites and those of their groups, kept together: each begins when those before it have ended."""

    def __init__(self, first: SearchCoordinator) -> None:
        self._coordinators = [first]
        self._kept: dict[int, tuple[dict[str, Any], Arrays]] = {}
        """By their place, the snapshots of searches that have not begun again yet."""

    def add(self, coordinator: SearchCoordinator) -> None:
        """Begin a further search, or take it up where it was."""
        kept = self._kept.pop(len(self._coordinators), None)
        self._coordinators.append(coordinator)
        if kept is not None:
            coordinator.restore(*kept)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered, and the rounds so far."""
        found = dict(enumerate(each.snapshot() for each in self._coordinators)) | self._kept
        arrays: dict[str, np.ndarray] = {}
        for place, (_, its) in found.items():
            arrays |= prefixed(str(place), its)
        return {"searches": [found[place][0] for place in sorted(found)]}, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        for place, its in enumerate(document["searches"]):
            self._kept[place] = its, under(str(place), arrays)
        self._coordinators[0].restore(*self._kept.pop(0))
