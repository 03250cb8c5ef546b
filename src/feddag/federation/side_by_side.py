"""Learners that run side by side on the same sites: one round carries the questions of all of them.

Each learner is a *lane*. It asks its own tasks, of all sites or of some; a joint task holds, under the number of each
lane, what this lane asks now, and the joint answer what the site answers to it. So a hundred learners take about as
many rounds as the slowest of them alone.

Inside a joint task, numbers and arrays are named `LANE/TASK/NAME`, and the number `LANE/TASK` is the lane's round.
Inside a joint answer, arrays are named `LANE/TASK/DTYPE/NAME` and hold the answer times its weight, and
`LANE/TASK/weight` is the weight: lanes may ask for different tasks, whose answers weigh differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Answer, Arrays, Federation, Site, Task
from feddag.federation.questions import AskingLearner, Decide, End, Mean
from feddag.federation.tasks import Output, TaskSpec

_WEIGHT = "weight"


@dataclass(frozen=True)
class Lane:
    """One of several learners."""

    members: tuple[int, ...]
    """The positions of the sites that it learns from."""
    learn: Callable[[Federation], Any]
    """Runs it."""


@dataclass(frozen=True)
class JointTaskSpec(TaskSpec):
    """The declaration of a task that holds tasks of several lanes, each of which has its own declaration."""

    parts: tuple[Mapping[str, TaskSpec], ...] = ()
    """For each lane the declarations of what it may ask, by name."""
    members: tuple[tuple[int, ...], ...] = ()
    """The sites of each lane."""

    @classmethod
    def of(
        cls,
        name: str,
        discloses: str,
        parts: Sequence[Mapping[str, TaskSpec]],
        members: Sequence[tuple[int, ...]],
        *,
        participants: int | None = None,
    ) -> JointTaskSpec:
        """Declare a joint task.

        Args:
            name: Its name.
            discloses: What the whole answer gives away, in one line.
            parts: What each lane may ask.
            members: The sites of each lane.
            participants: The number of sites in a sum, where these are not all sites.
        """
        answers = {
            f"*/{code_of(task)}/*/{array}": Output(f"{output.discloses}, times the site's weight", None)
            for lane in parts
            for task, spec in lane.items()
            for array, output in spec.answers.items()
        }
        weight = {f"*/{_WEIGHT}": Output("the weight of what the site answers, such as its number of rows")}
        return cls(
            name,
            discloses,
            weight | answers,
            every_site=participants is None,
            participants=participants,
            parts=tuple(parts),
            members=tuple(members),
        )

    def names(self, task: Task) -> list[str]:
        """Return what a policy must allow: the joint task, and every task in it."""
        return [self.name, *sorted({part.name for _, part in self.split(task)})]

    def check_task(self, site: str, task: Task, sites: int) -> None:
        """Refuse a joint task with a part that its own declaration does not allow."""
        if self.every_site and task.participants != tuple(range(sites)):
            raise FeddagError(f"Site {site!r} refuses {task.name}: it must be asked of every site.")
        for lane, part in self.split(task):
            self.parts[lane][part.name].check_task(site, part, len(self.members[lane]))

    def check_answer(self, site: str, task: Task, answer: Arrays) -> None:
        """Refuse to send an answer that the declarations of its parts do not describe."""
        for lane, part in self.split(task):
            arrays = under(_prefix(lane, part.name), answer)
            inner = {name.partition("/")[2]: array for name, array in arrays.items() if name != _WEIGHT}
            self.parts[lane][part.name].check_answer(site, part, inner)

    def split(self, task: Task) -> Iterator[tuple[int, Task]]:
        """Yield each lane of a joint task, and what it asks."""
        names, left = [{code_of(name): name for name in lane} for lane in self.parts], {*task.numbers, *task.arrays}
        for key in [name for name in task.numbers if name.count("/") == 1]:
            lane, _, code = key.partition("/")
            if not lane.isdecimal() or int(lane) >= len(self.members) or code not in names[int(lane)]:
                raise FeddagError(f"{task.name} asks {key}, which is not a task of this study's learners.")
            start = f"{key}/"
            numbers = {name.removeprefix(start): each for name, each in task.numbers.items() if name.startswith(start)}
            arrays = under(key, task.arrays)
            members = self.members[int(lane)]
            if not set(task.participants) <= set(members):
                raise FeddagError(f"{task.name} asks sites for {key} that do not take part in it.")
            left -= {key, *(f"{key}/{name}" for name in (*numbers, *arrays))}
            participants = tuple(members.index(place) for place in task.participants)
            yield int(lane), Task(names[int(lane)][code], int(task.numbers[key]), numbers, arrays, participants)
        if left:
            raise FeddagError(f"{task.name} brings {', '.join(sorted(left))}, which belongs to no learner.")


def code_of(task: str) -> str:
    """Return a task's name as it may stand in the name of an array."""
    return re.sub("[.-]", "_", task)


def _prefix(lane: int, task: str) -> str:
    return f"{lane}/{code_of(task)}"


class JointSite:
    """A site's side: one site for each lane. Satisfies `feddag.federation.Site`."""

    def __init__(self, name: str, position: int, spec: JointTaskSpec, make: Callable[[int], Site]) -> None:
        """Stand ready.

        Args:
            name: The site's name.
            position: Its place among all sites.
            spec: The lanes, and what they may ask.
            make: Makes the site of a lane.
        """
        self.name = name
        self._position = position
        self._spec = spec
        self._make = make
        self._sites: dict[int, Site] = {}

    def answer(self, task: Task) -> Answer:
        """Answer for each lane that this site takes part in."""
        found: dict[str, np.ndarray] = {}
        for lane, part in self._spec.split(task):
            if self._position not in self._spec.members[lane]:
                continue
            answer, prefix = self._site(lane).answer(part), _prefix(lane, part.name)
            found[f"{prefix}/{_WEIGHT}"] = np.array(float(answer.weight))
            for name, array in answer.arrays.items():
                found[f"{prefix}/{array.dtype.name}/{name}"] = answer.weight * array.astype(np.float64)
        return Answer(1.0, found)

    def _site(self, lane: int) -> Site:
        if lane not in self._sites:
            self._sites[lane] = self._make(lane)
        return self._sites[lane]

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the state of all lanes' sites."""
        state: dict[str, np.ndarray] = {}
        for lane, site in self._sites.items():
            state |= prefixed(f"{lane}", site.snapshot())
        return state

    def restore(self, state: Arrays) -> None:
        """Take up what `snapshot` gave."""
        lanes = {int(name.partition("/")[0]) for name in state}
        for lane in [lane for lane, site in self._sites.items() if lane not in lanes and site.snapshot()]:
            del self._sites[lane]  # it had not begun
        for lane in lanes:
            self._site(lane).restore(under(f"{lane}", state))


def run_side_by_side(
    federation: Federation,
    spec: JointTaskSpec,
    some_sites: JointTaskSpec,
    lanes: Mapping[int, Lane],
    *,
    maximum_weight: float = np.inf,
    advance: Callable[[int], None] = lambda finished: None,
) -> list[Any]:
    """Run all lanes to their ends, and return what each has found.

    Args:
        federation: All sites.
        spec: The joint task of all sites.
        some_sites: The joint task of some of them.
        lanes: The learners, by their number among all lanes of the declarations.
        maximum_weight: The largest weight that a site may claim.
        advance: Called after every sweep with the number of lanes that have ended.
    """
    learners = {
        number: AskingLearner(tuple(federation.sites[k] for k in lane.members), lane.learn)
        for number, lane in lanes.items()
    }
    ends: dict[int, End] = {}
    try:
        while len(ends) < len(lanes):
            asked: dict[int, Task] = {}
            for number, learner in learners.items():
                question = _next(federation, number, learner)
                if isinstance(question, Task):
                    asked[number] = question
                elif question.error is not None:
                    raise question.error
                else:
                    ends[number] = question
            for participants, group in _grouped(lanes, asked).items():
                everyone = len(participants) == len(federation.sites)
                joint = _joined(spec if everyone else some_sites, participants, group)
                mean = federation.aggregate(joint)
                for number, task in group.items():
                    part = _part(mean, _prefix(number, task.name), maximum_weight)
                    learners[number].answer(Mean(part, federation.summed))
            advance(len(ends))
    finally:
        for learner in learners.values():
            learner.close()
    return [ends[number].result for number in lanes]


def _next(federation: Federation, lane: int, learner: AskingLearner) -> Task | End:
    while True:
        question = learner.question()
        if not isinstance(question, Decide):
            return question
        learner.answer(federation.decide(f"{lane}: {question.question}", question.answer))


def _grouped(lanes: Mapping[int, Lane], asked: Mapping[int, Task]) -> dict[tuple[int, ...], dict[int, Task]]:
    """Return what lanes ask, by the sites whose answers they sum."""
    groups: dict[tuple[int, ...], dict[int, Task]] = {}
    for number, task in asked.items():
        participants = tuple(lanes[number].members[place] for place in task.participants)
        groups.setdefault(participants, {})[number] = task
    return groups


def _joined(spec: JointTaskSpec, participants: tuple[int, ...], asked: Mapping[int, Task]) -> Task:
    numbers: dict[str, float] = {}
    arrays: dict[str, np.ndarray] = {}
    for lane, task in asked.items():
        prefix = _prefix(lane, task.name)
        numbers[prefix] = task.round
        numbers |= {f"{prefix}/{name}": number for name, number in task.numbers.items()}
        arrays |= prefixed(prefix, task.arrays)
    return Task(spec.name, 0, numbers, arrays, participants, complete=True)


def _part(mean: Arrays, prefix: str, maximum_weight: float) -> dict[str, np.ndarray]:
    """Return the weighted mean of the answers to one lane's task."""
    arrays = under(prefix, mean)
    weight = float(arrays.pop(_WEIGHT))
    if not 0 < weight <= maximum_weight:
        raise FeddagError(
            f"The sites claim a mean weight of {weight:g}, and the study allows {maximum_weight:g} for each. Find out "
            "which site claims more rows than it has, or raise federation.maximum_rows in a new study."
        )
    found = {}
    for name, array in arrays.items():
        dtype, _, inner = name.partition("/")
        found[inner] = (array / weight).astype(dtype)
    return found
