"""Search over orders of the variables, in the manner of BOSS (Andrews et al. 2023).

Given an order, each variable picks its parents among its predecessors: it takes the best one as long as that helps,
then drops those that have become superfluous ("grow-shrink"). One variable after the other is moved to the place in
the order that makes the whole graph's score best, until no move helps.

All picking of parents that one step needs goes on side by side, so that a step costs a few rounds, not thousands, and
so do searches from several orders.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from jaxtyping import Int8

from feddag.learners.bitsets import adjacency_of, members
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.batching import Request, Result, Routine, run, run_in_lockstep
from feddag.learners.search.scores import LEAST_GAIN, Family, Scores

AHEAD = 4
"""After a move, what so many variables in turn will ask is asked at once; twice as many each time that none moves."""


class Parents(NamedTuple):
    """The parents that a variable picked, and their score."""

    chosen: int
    score: float


class OrderSearch:
    """Searches over orders. Scores, and the parents picked by them, are kept from one order to the next."""

    def __init__(self, scores: Scores, knowledge: Knowledge) -> None:
        self._scores = scores
        self._knowledge = knowledge
        self._additions: dict[Family, list[int]] = {}
        self._picked: dict[Family, Parents] = {}

    def first_order(self) -> list[int]:
        """Put the variables that the others explain least first (as in R²-sorting, Reisach et al. 2023)."""
        nodes = self._scores.nodes
        everything = (1 << nodes) - 1
        questions = [(node, everything & ~(1 << node)) for node in range(nodes)]
        self.pick([*questions, *((node, 0) for node in range(nodes))])
        gain = [self._picked[node, 0].score - self._picked[node, others].score for node, others in questions]
        return self._knowledge.admissible(np.argsort(gain, kind="stable").tolist())

    def shuffle(self, order: list[int], moves: Iterable[tuple[int, int]]) -> list[int]:
        """Move some variables to other places, from where the search may reach other graphs."""
        order = list(order)
        for node, place in moves:
            order.remove(node)
            order.insert(place, node)
        return self._knowledge.admissible(order)

    def improve(self, orders: Iterable[list[int]]) -> list[list[int]]:
        """Make the best move of each variable in turn, until none helps; from each order."""
        found = self.run(run_in_lockstep({k: self._improve(order) for k, order in enumerate(orders)}))
        return [found[k] for k in range(len(found))]

    def _improve(self, order: list[int]) -> Routine[list[int]]:
        ahead = AHEAD
        while True:
            turns, moved = list(order), False
            asked = 0
            for turn, node in enumerate(turns):
                if turn == asked:
                    asked += ahead
                    ahead *= 2
                    yield from self._pick(q for other in turns[turn:asked] for q in self._questions(order, other))
                better = yield from self._best_place(order, node)
                if better != order:
                    order, moved = better, True
                    ahead, asked = AHEAD, turn + 1  # what else was asked ahead was for another order
            if not moved:
                return order
            ahead = len(turns)

    def graph(self, order: list[int]) -> Int8[np.ndarray, "node node"]:
        """Return the graph in which every variable has the parents that it picks among its predecessors."""
        before = 0
        questions = []
        for node in order:
            questions.append((node, before))
            before |= 1 << node
        return adjacency_of([parents for _, parents in sorted(self.pick(questions))])

    def pick(self, questions: Iterable[Family]) -> list[Family]:
        """Let variables pick their parents, each among the predecessors named with it."""
        questions = list(questions)
        self.run(self._pick(questions))
        return [(node, self._picked[node, predecessors].chosen) for node, predecessors in questions]

    def _questions(self, order: list[int], node: int) -> Iterable[Family]:
        """List what moving a node asks: others' parents with it and without it before them, and its own everywhere."""
        before = 0
        for other in order:
            if other != node:
                yield node, before
                yield other, before
                yield other, before | 1 << node
                before |= 1 << other
        yield node, before

    def _best_place(self, order: list[int], node: int) -> Routine[list[int]]:
        questions = list(self._questions(order, node))
        yield from self._pick(questions)
        score = np.array([self._picked[question].score for question in questions])
        own, without, following = score[0::3], score[1::3], score[2::3]
        totals = own.copy()
        totals[1:] += np.cumsum(without)
        totals[:-1] += np.cumsum(following[::-1])[::-1]
        rest = [other for other in order if other != node]
        totals[[not self._may_stand(rest, node, place) for place in range(len(order))]] = np.inf
        best, current = int(totals.argmin()), order.index(node)
        if totals[best] >= totals[current] - LEAST_GAIN:
            return order
        return [*rest[:best], node, *rest[best:]]

    def _may_stand(self, rest: list[int], node: int, place: int) -> bool:
        before = self._knowledge.before
        return not any(before[other] >> node & 1 for other in rest[:place]) and not any(
            before[node] >> other & 1 for other in rest[place:]
        )

    def run(self, routine: Routine[Result]) -> Result:
        """Run a routine, and ask sites for the neighbourhoods that it needs, and for some that it may need next."""

        def ask(request: Request) -> None:
            guesses = -(-self._scores.guesses // len(request))
            self._scores.ask_neighbourhoods(chain.from_iterable(families[: 1 + guesses] for families in request))

        return run(routine, ask)

    def _pick(self, questions: Iterable[Family]) -> Routine[None]:
        """Answer all questions (a node, and its predecessors as bits) side by side."""
        new = (each for each in dict.fromkeys(questions) if each not in self._picked)
        self._picked |= yield from run_in_lockstep({question: self._grow_and_shrink(question) for question in new})

    def _grow_and_shrink(self, question: Family) -> Routine[Parents]:
        """Pick parents: add the best as long as one helps, then drop those that have become superfluous."""
        node, predecessors = question
        known = self._scores.neighbourhood
        parents = self._knowledge.required[node] & predecessors
        helpful: list[int] = []
        while True:
            family = node, parents
            if family not in known:
                yield [[family, *_changed_further(family, helpful[1:])]]
            helpful = [other for other in self._helpful(family) if predecessors >> other & 1]
            if not helpful:
                break
            parents |= 1 << helpful[0]
        useless: list[int] = []
        while True:
            family = node, parents
            if family not in known:
                yield [[family, *_changed_further(family, useless[1:])]]
            scores = known[family]
            removable = sorted(members(parents & ~self._knowledge.required[node]), key=lambda other: scores[other])
            useless = [other for other in removable if scores[other] < scores[node] - LEAST_GAIN]
            if not useless:
                return Parents(parents, float(scores[node]))
            parents &= ~(1 << useless[0])

    def _helpful(self, family: Family) -> list[int]:
        """List the variables whose addition to the parents helps, the best first."""
        if family not in self._additions:
            node, parents = family
            scores = self._scores.neighbourhood[family]
            candidates = self._knowledge.allowed[node] & ~parents
            better = [other for other in np.argsort(scores).tolist() if scores[other] < scores[node] - LEAST_GAIN]
            self._additions[family] = [other for other in better if candidates >> other & 1]
        return self._additions[family]


def random_moves(nodes: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw a fourth of the nodes, each with a place in the order of all."""
    chosen = rng.permutation(nodes)[: max(2, nodes // 4)].tolist()
    return [(node, int(rng.integers(nodes))) for node in chosen]


def _changed_further(family: Family, others: Iterable[int]) -> Iterable[Family]:
    """Put in or take out one parent after the other."""
    node, parents = family
    for other in others:
        parents ^= 1 << other
        yield node, parents
