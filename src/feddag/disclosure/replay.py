"""A study's questions, recorded in a federation of made-up tables, and the answers of any table to them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import joblib
import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from feddag.deployment.server import check_graph, learn
from feddag.deployment.site import StudyTable
from feddag.deployment.study_tasks import federated_learner
from feddag.federation import Federation, InProcess
from feddag.federation.counting import CountingFederation
from feddag.federation.protocol import Answer, Stateless, Task
from feddag.learners.federated import FederatedLearner
from feddag.learners.search.tasks import COMMON_SCORES, NEIGHBOURHOODS, SCORES
from feddag.parallel import as_finished
from feddag.silos import Silo
from feddag.study import Study
from feddag.trust.replicates import REPLICATE_TASKS, SIDE_BY_SIDE

ROUNDS_WITH_STATE = 5
"""Rounds that are replayed of a method whose sites keep a state: it has a hundred or more, each of them slow."""
OF_REPLICATES = frozenset(spec.name for spec in REPLICATE_TASKS)
"""Names of tasks that nobody replays who does not know how sites draw their rows."""
_TABLES_PER_CALL = 4
_ABOUT_FAMILIES = (NEIGHBOURHOODS.name, SCORES.name, COMMON_SCORES.name)
"""Questions whose answer about a family is the same whatever other families are asked for beside it."""
_OF_A_FAMILY = ("children", "parents")
_MOST_FAMILIES = 256
"""In joined questions, unless a single one has more: larger ones save no more time, and take memory."""


class _EnoughError(Exception):
    """The rounds that were wanted are recorded."""


class _Recorder(CountingFederation):
    """A federation that remembers what was asked of another, and counts what it released."""

    def __init__(self, federation: Federation, most_rounds: int | None) -> None:
        super().__init__(federation)
        self.local_sites = ()
        """None: as on a network, a learner sees sums alone."""
        self.tasks: list[Task] = []
        self.rounds_of_replicates = 0
        self._most_rounds = most_rounds

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        """Have the sites work on a task."""
        if self._most_rounds is not None and len(self.tasks) >= self._most_rounds:
            raise _EnoughError
        mean = super().aggregate(task)
        if task.name in OF_REPLICATES:
            self.rounds_of_replicates += 1
        else:
            self.tasks.append(task)
        return mean


@dataclass(frozen=True)
class Course:
    """What a study asks of its sites, and how many numbers it releases."""

    study: Study
    tasks: tuple[Task, ...]
    """Without those of replicates: who does not know how a site draws its rows cannot replay them."""
    numbers: int
    """How many numbers were released, by replicates too."""
    rounds: int
    """How many rounds there were, with those of replicates."""
    finished: bool
    """Whether these are all questions, not the first rounds only."""

    @cached_property
    def rosters(self) -> list[list[str]]:
        """Who is in each sum."""
        names = [site.name for site in self.study.sites]
        return [[names[place] for place in task.participants] for task in self.tasks]

    def vector(self, silo: Silo) -> Float[np.ndarray, " number"]:
        """Return all numbers that a site with this table answers."""
        return np.concatenate([numbers for _, _, numbers in self._answers(silo)])

    def weights(self, silo: Silo) -> Float[np.ndarray, " number"]:
        """Return the weight with which each number of a site with this table enters its sum."""
        return np.concatenate([np.full(len(numbers), weight) for weight, _, numbers in self._answers(silo)])

    def layout(self, silo: Silo) -> list[tuple[int, str, int]]:
        """Return for each array of the answers its question's place, its name and its size, in the vector's order."""
        places = (
            (place, name, array.size)
            for place, answer in enumerate(self._answer(silo))
            for name, array in sorted(answer.arrays.items())
        )
        return list(places)

    def _answer(self, silo: Silo) -> Iterator[Answer]:
        site = StudyTable(self.study, silo, self._learner)
        return (site.answer(task) for task in self.tasks)

    @cached_property
    def _learner(self) -> FederatedLearner:
        return federated_learner(self.study)

    def _answers(self, silo: Silo) -> Iterator[tuple[float, str, Float[np.ndarray, " number"]]]:
        for answer in self._answer(silo):
            for name, array in sorted(answer.arrays.items()):
                yield answer.weight, name, np.ravel(array).astype(float)


def join_questions(course: Course) -> Course:
    """Return the same questions in fewer tasks: a search asks for a few families at a time, at the price of many."""
    joined: list[Task] = []
    places: dict[Hashable, int] = {}
    for task in course.tasks:
        if task.name not in _ABOUT_FAMILIES:
            joined.append(task)
            continue
        others = (array.tobytes() for name, array in sorted(task.arrays.items()) if name not in _OF_A_FAMILY)
        alike = (task.name, task.participants, *others)
        place = places.get(alike)
        if place is None or len(joined[place].arrays["children"]) + len(task.arrays["children"]) > _MOST_FAMILIES:
            places[alike] = len(joined)
            joined.append(task)
        else:
            arrays = joined[place].arrays
            both = {name: np.concatenate([arrays[name], task.arrays[name]]) for name in _OF_A_FAMILY}
            joined[place] = replace(joined[place], arrays={**arrays, **both})
    return replace(course, tasks=tuple(joined))


def thin_questions(course: Course, most: int, rng: np.random.Generator) -> Course:
    """Return the questions with scores of so many families at most, drawn at random, for each kind of score.

    Scores of a thousand families are functions of the same few regressions: some of them tell nearly what all do.
    """
    left: dict[str, np.ndarray] = {}
    for name in _ABOUT_FAMILIES:
        count = sum(len(task.arrays["children"]) for task in course.tasks if task.name == name)
        left[name] = rng.permutation(count) < most
    tasks = []
    for task in course.tasks:
        if task.name in left:
            families = len(task.arrays["children"])
            kept, left[task.name] = left[task.name][:families], left[task.name][families:]
            some = {name: task.arrays[name][kept] for name in _OF_A_FAMILY}
            tasks += [replace(task, arrays={**task.arrays, **some})] if kept.any() else []
        else:
            tasks.append(task)
    return replace(course, tasks=tuple(tasks))


def keeps_state(study: Study, silo: Silo) -> bool:
    """Return whether the sites of a study's method keep a state: then only its first rounds are replayed."""
    return not isinstance(federated_learner(study).site(silo, 0), Stateless)


def record_course(study: Study, silos: Sequence[Silo], rounds_with_state: int = ROUNDS_WITH_STATE) -> Course:
    """Run a study on tables in this process, which are named after its sites, and record its course.

    Args:
        study: The study.
        silos: A table for each of its sites.
        rounds_with_state: How many rounds to record of a method whose sites keep a state.
    """
    most = rounds_with_state if keeps_state(study, silos[0]) else None
    # replicates are alike: one tells how many numbers all release
    bootstraps = study.trust.bootstraps
    one = replace(study, trust=replace(study.trust, bootstraps=min(bootstraps, 1)))
    sites = [StudyTable(one, silo) for silo in silos]
    finished = True
    with threadpool_limits(1), InProcess(sites, joblib.cpu_count()) as federation:
        recorder = _Recorder(federation, most)
        try:
            check_graph(one, learn(one, recorder, lambda status: None), recorder)
        except _EnoughError:
            finished = False
    left_out = len(study.sites) if study.trust.leave_one_out else 0
    lanes, tried = bootstraps + left_out, max(one.trust.bootstraps + left_out, 1)
    further = sum(recorder.numbers[name] for name in OF_REPLICATES) * (lanes - tried) // tried
    rounds = len(recorder.tasks) + recorder.rounds_of_replicates * -(-lanes // SIDE_BY_SIDE)
    return Course(one, tuple(recorder.tasks), recorder.total + max(further, 0), rounds, finished)


def answers(
    course: Course,
    silos: Sequence[Silo],
    chosen: Int[np.ndarray, " number"],
    jobs: int,
    advance: Callable[[int], None],
) -> Float[np.ndarray, "table number"]:
    """Return what each table answers to the questions of a course, as a table of chosen numbers.

    Args:
        course: The questions.
        silos: The tables.
        chosen: Which numbers to return.
        jobs: Processes to spread the tables over.
        advance: Takes how many tables are done since the last call.
    """
    found = np.empty((len(silos), len(chosen)))
    starts = range(0, len(silos), _TABLES_PER_CALL)
    calls = (
        joblib.delayed(_answers)(start, course, silos[start : start + _TABLES_PER_CALL], chosen) for start in starts
    )
    for start, some in as_finished(calls, jobs):
        found[start : start + len(some)] = some
        advance(len(some))
    return found


def _answers(
    start: int, course: Course, silos: Sequence[Silo], chosen: Int[np.ndarray, " number"]
) -> tuple[int, Float[np.ndarray, "table number"]]:
    with threadpool_limits(1):
        return start, np.array([course.vector(silo)[chosen] for silo in silos])
