"""Learners that run side by side get what each would get alone, in as many rounds as the slowest of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from feddag import FeddagError
from feddag.federation import Answer, InProcess, Stateless
from feddag.federation.side_by_side import JointSite, JointTaskSpec, Lane, run_side_by_side
from feddag.federation.tasks import Bounds, Output, TaskSpec

MEAN = TaskSpec(
    "toy.mean",
    "The mean",
    {"mean": Output("the mean")},
    numbers={"power": Bounds(1, 3)},
    arrays={"shift": Bounds(-9, 9, shape=(2,))},
)
ROWS = TaskSpec("toy.row-count", "The number of rows", {"count": Output("the number")})
TABLES = (np.arange(4.0), np.arange(6.0) + 1, np.arange(9.0) - 2)
EVERYONE, SOME = (0, 1, 2), (0, 2)


class ToySite(Stateless):
    def __init__(self, name, values):
        self.name, self.values = name, values

    def answer(self, task):
        if task.name == ROWS.name:
            return Answer(1.0, {"count": np.array(len(self.values), dtype=np.int64)})
        power, shift = task.numbers["power"], task.arrays["shift"].sum()
        return Answer(len(self.values), {"mean": np.array((self.values**power + shift).mean(), dtype=np.float32)})


def learner(rounds):
    """Ask so many rounds, and look at the clock in between."""

    def learn(federation):
        found = [float(ROWS.ask(federation)["count"]) * federation.summed]
        for k in range(rounds):
            if federation.decide(f"round {k}?", lambda: True):
                shift = {"shift": np.array([k, found[-1] / 100])}
                answer = MEAN.ask(federation, k, shift, {"power": 1 + k % 3})["mean"]
                assert answer.dtype == np.float32
                found.append(float(answer))
        return found

    return learn


class Counted(InProcess):
    rounds = 0

    def aggregate(self, task):
        self.rounds += 1
        for spec in SPECS:
            if spec.name == task.name:
                spec.check_task("a", task, 3)
        return super().aggregate(task)


MEMBERS = (EVERYONE, EVERYONE, SOME, EVERYONE)
PARTS = ({"toy.mean": MEAN, "toy.row-count": ROWS},) * len(MEMBERS)
SPECS = (
    JointTaskSpec.of("joint.all", "Several means", PARTS, MEMBERS),
    JointTaskSpec.of("joint.some", "Means of some sites", PARTS, MEMBERS, participants=2),
)
LANES = {k: Lane(members, learner(k + 1)) for k, members in enumerate(MEMBERS)}


def joint_sites():
    return [
        JointSite(f"site-{k}", k, SPECS[0], lambda lane, k=k: ToySite(f"site-{k}", TABLES[k] + lane)) for k in range(3)
    ]


def alone(lane):
    sites = [ToySite(f"site-{k}", TABLES[k] + lane) for k in MEMBERS[lane]]
    with InProcess(sites, 1) as federation:
        return LANES[lane].learn(federation)


def test_each_learner_gets_what_it_would_get_alone():
    with Counted(joint_sites(), 1) as federation:
        found = run_side_by_side(federation, *SPECS, LANES)
        for lane, figures in enumerate(found):
            np.testing.assert_allclose(figures, alone(lane), rtol=1e-6)
        assert federation.rounds == 5 + 4  # the slowest of all sites, and the one of some


def test_a_learner_that_fails_ends_all():
    def failing(federation):
        ROWS.ask(federation)
        raise FeddagError("no more")

    with Counted(joint_sites(), 1) as federation, pytest.raises(FeddagError, match="no more"):
        run_side_by_side(federation, *SPECS, LANES | {1: Lane(EVERYONE, failing)})


def test_a_weight_above_what_is_allowed_is_refused():
    with Counted(joint_sites(), 1) as federation, pytest.raises(FeddagError, match=r"claim a mean weight of 6\.33"):
        run_side_by_side(federation, *SPECS, LANES, maximum_weight=5.0)


def asked(**changes):
    found = []

    class Watching(InProcess):
        def aggregate(self, task):
            found.append(task)
            return super().aggregate(task)

    with Watching(joint_sites(), 1) as federation:
        run_side_by_side(federation, *SPECS, LANES)
    return replace(next(task for task in found if "0/toy_mean" in task.numbers), **changes)


def test_what_a_joint_task_brings_is_checked_lane_by_lane():
    task = asked()
    SPECS[0].check_task("a", task, 3)
    for numbers in (
        {**task.numbers, "0/toy_mean/power": 7.0},
        {**task.numbers, "9/toy_mean": 0},
        {**task.numbers, "0/toy_other": 0},
        {**task.numbers, "0/toy_mean/more": 0},
        {name: number for name, number in task.numbers.items() if name != "0/toy_mean"},
    ):
        with pytest.raises(FeddagError):
            SPECS[0].check_task("a", replace(task, numbers=numbers), 3)
    with pytest.raises(FeddagError, match="every site"):
        SPECS[0].check_task("a", replace(task, participants=(0, 1)), 3)
    with pytest.raises(FeddagError, match="do not take part"):
        SPECS[1].check_task("a", replace(task, numbers={**task.numbers, "2/toy_mean": 0}), 3)


def test_a_policy_sees_every_task_that_a_joint_one_holds():
    assert SPECS[0].names(asked()) == ["joint.all", "toy.mean"]


def test_every_array_of_a_joint_answer_is_described():
    answer = joint_sites()[0].answer(asked())
    SPECS[0].check_answer("a", asked(), answer.arrays)
    assert all(SPECS[0].describe(name) for name in answer.arrays)
