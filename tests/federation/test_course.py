"""A site that follows a study knows what the study's learner asks next, and takes nothing else for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from feddag.errors import FeddagError
from feddag.federation import Task
from feddag.federation.course import Course, Learn, same_question
from feddag.federation.protocol import Federation
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.steps import Step, plain_mean
from feddag.federation.terms import StudyTerms
from feddag.federation.wire import encode_task

SITES = ("east", "north", "west")
TERMS = StudyTerms("ab" * 32, SITES, 2, secure_sum=False)


def task(round_: int, x: float = 0.0) -> Task:
    return Task("toy.step", round_, {"x": x}, {}, (0, 1, 2))


def step(mean: float, decisions: dict[str, bool] | None = None, members=SITES) -> Step:
    return Step("cd" * 32, decisions or {}, plain_mean({"x": np.array(mean)}, members))


def toy(federation: Federation) -> None:
    """Double what the sites say, for as long as there is time, but no more than three times."""
    x = 1.0
    for round_ in range(3):
        if round_ == 2 and not federation.decide("time left", lambda: pytest.fail("the site has no clock to ask")):
            break
        x = 2 * float(federation.aggregate(task(round_, x))["x"])
        assert federation.summed == 3
    federation.aggregate(Task("toy.end", 3, {"x": x}, {}, (0, 1, 2)))


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., Course]]:
    """Begin to follow a study, or take it up from the disk."""
    courses = []

    def begun(learn: Learn = toy, folder: str = "course") -> Course:
        courses.append(Course(tmp_path / folder, TERMS, learn))
        return courses[-1]

    yield begun
    for course in courses:
        course.close()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "feddag-learner"]


def test_the_learner_s_questions_follow_from_the_sums(follow):
    course = follow()
    assert course.expected({}) == task(0, 1.0)
    assert course.expected({}) == task(0, 1.0)  # as often as somebody asks
    course.add(step(5.0))
    assert course.expected({}) == task(1, 10.0)
    course.add(step(-1.0))
    assert course.expected({"time left": True}) == task(2, -2.0)
    assert course.rounds == 2


@pytest.mark.parametrize(("decision", "asked"), [(True, "toy.step"), (False, "toy.end")])
def test_what_only_the_server_can_decide_it_must_decide_and_the_learner_goes_on_from_there(follow, decision, asked):
    course = follow()
    for mean in (1.0, 2.0):
        course.add(step(mean))
    with pytest.raises(RefusedError, match="has not decided on 'time left'") as refused:
        course.expected({})
    assert refused.value.reason is Refusal.QUESTION
    assert course.expected({"time left": decision, "more": True}).name == asked


def test_a_decision_belongs_to_the_round_that_it_came_before(follow):
    course = follow()
    for mean in (1.0, 2.0):
        course.add(step(mean))
    course.add(step(3.0, {"time left": True}))
    assert course.expected({}) == Task("toy.end", 3, {"x": 6.0}, {}, (0, 1, 2))
    assert course.question("cd", {}) != course.question("cd", {"time left": True})


def test_a_learner_that_has_ended_asks_nothing_more(follow):
    course = follow()
    for mean, decisions in ((1.0, {}), (2.0, {}), (3.0, {"time left": False})):
        course.add(step(mean, decisions))
    for _ in range(2):
        with pytest.raises(RefusedError, match="asks nothing more: it has ended") as refused:
            course.expected({})
        assert refused.value.reason is Refusal.QUESTION


def test_a_learner_that_fails_asks_nothing_more_and_says_why_at_the_site(follow):
    def failing(federation: Federation) -> None:
        federation.aggregate(task(0))
        raise FeddagError("The columns are all alike.")

    course = follow(failing)
    assert course.expected({}) == task(0)
    course.add(step(1.0))
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"it cannot go on \(The columns are all alike\.\)") as refused:
            course.expected({})
        assert refused.value.reason is Refusal.QUESTION


def test_a_learner_cannot_be_resumed_from_a_checkpoint_or_see_a_site(follow):
    def curious(federation: Federation) -> None:
        assert federation.local_sites == ()
        assert federation.snapshot() == ({}, {})
        federation.restore({}, {})

    with pytest.raises(RefusedError, match="not resumed from a checkpoint"):
        follow(curious).expected({})


@pytest.mark.parametrize("rounds", range(4))
def test_a_site_that_is_started_again_is_where_it_was(follow, rounds: int):
    decided = [{}, {}, {"time left": True}][:rounds]
    course = follow()
    for place, decisions in enumerate(decided):
        course.add(step(float(place), decisions))
    again, now = follow(), {"time left": True} if rounds == 2 else {}
    assert (again.head, again.rounds, again.rosters) == (course.head, rounds, course.rosters)
    assert again.expected(now) == course.expected(now)
    assert again.question("cd" * 32, now) == course.question("cd" * 32, now)
    assert course.path(0).exists() == (rounds > 0)


def test_heads_differ_with_every_sum_member_and_decision(follow):
    courses = [follow(folder=f"{k}") for k in range(4)]
    different = [step(1.0), step(1.0 + 2**-50), step(1.0, {"time left": True}), step(1.0, members=SITES[:2])]
    for course, each in zip(courses, different, strict=True):
        course.add(each)
    assert len({course.head for course in courses}) == 4
    assert courses[3].rosters == {SITES[:2]}


def test_a_worthless_sum_is_refused_and_not_kept(follow, tmp_path: Path):
    course, head = follow(), follow().head
    worthless = replace(step(1.0), result={**step(1.0).result, "mean": b"nonsense"})
    with pytest.raises(FeddagError, match="cannot be used"):
        course.add(worthless)
    assert (course.head, course.rounds) == (head, 0)
    assert not list((tmp_path / "course").iterdir())
    course.add(step(5.0))
    assert course.expected({}) == task(1, 10.0)


def test_a_kept_round_that_was_changed_on_the_disk_is_refused(follow):
    course = follow()
    course.add(step(1.0))
    course.path(0).write_text("{}")
    with pytest.raises(FeddagError, match="is no round of a study"):
        follow()


@pytest.mark.parametrize("asked", [False, True])
def test_closing_ends_the_learner_s_thread_whatever_it_catches(follow, asked: bool):
    before, ended = set(threads()), threading.Event()

    def stubborn(federation: Federation) -> None:
        try:
            while True:
                try:
                    federation.aggregate(task(0))
                except Exception:
                    continue
        finally:
            ended.set()

    course = follow(stubborn)
    if asked:
        course.expected({})
    course.close()
    for thread in set(threads()) - before:
        thread.join(10)
    assert not set(threads()) - before
    assert ended.is_set() == asked


def test_a_course_that_is_closed_while_somebody_waits_for_a_question_does_not_keep_them_waiting(follow):
    course = follow()
    course.expected({})
    course.add(step(1.0))
    course.close()  # the learner ends at its first question, and never asks the second
    with pytest.raises(RefusedError, match="nobody answers the learner any more"):
        course.expected({})


# The same question, but for rounding

FLOATS = st.floats(-1e6, 1e6, allow_subnormal=False) | st.floats(1e-9, 1e-6)


def question(values: np.ndarray, number: float = 0.5) -> Task:
    return Task("toy.step", 3, {"rho": number}, {"U": values, "places": np.arange(3)}, (0, 2))


@settings(max_examples=100)
@given(arrays(np.float64, (3,), elements=FLOATS), st.floats(-1, 1), st.integers(0, 2))
def test_rounding_is_no_difference_and_anything_more_is(values: np.ndarray, noise: float, place: int):
    expected = question(values)
    assert same_question(expected, encode_task(expected))
    assert same_question(expected, encode_task(question(values * (1 + 1e-9 * noise), 0.5 * (1 + 1e-9 * noise))))
    for array in (values, np.abs(values) + 1e-30):
        # beside numbers of either sign, the smallest may be the rounding of 0; all positive, none is
        least = 1e-11 * np.abs(values).max() + 1e-30 if array is values else 0.0
        changed = array.copy()
        changed[place] += max(1e-5 * abs(array[place]), least)
        assert not same_question(question(array), encode_task(question(changed)))


@pytest.mark.parametrize(
    "changed",
    [
        lambda t: replace(t, name="toy.other"),
        lambda t: replace(t, round=4),
        lambda t: replace(t, participants=(0, 1)),
        lambda t: replace(t, participants=(2, 0)),
        lambda t: replace(t, numbers={"rho": 0.5, "more": 0.0}),
        lambda t: replace(t, numbers={}),
        lambda t: replace(t, numbers={"rho": 0.50001}),
        lambda t: replace(t, arrays={**t.arrays, "more": np.zeros(1)}),
        lambda t: replace(t, arrays={"U": t.arrays["U"]}),
        lambda t: replace(t, arrays={**t.arrays, "U": t.arrays["U"].astype(np.float32)}),
        lambda t: replace(t, arrays={**t.arrays, "U": t.arrays["U"][:2]}),
        lambda t: replace(t, arrays={**t.arrays, "U": t.arrays["U"].reshape(3, 1)}),
        lambda t: replace(t, arrays={**t.arrays, "U": t.arrays["U"][::-1].copy()}),
        lambda t: replace(t, arrays={**t.arrays, "places": np.array([0, 1, 3])}),
    ],
)
def test_another_name_round_member_number_or_array_is_another_question(changed):
    expected = question(np.array([1.0, -2.0, 3.0]))
    assert not same_question(expected, encode_task(changed(expected)))


def test_a_tiny_number_beside_large_ones_is_held_to_its_own_size():
    """A scale of 1e-30 in place of 1e-7 makes a window on single rows; both are nothing beside a scale of 1e6."""
    scales = np.array([1e6, 1e-7, 1.0])
    for tiny in (1e-30, 1.1e-7, 0.0, -1e-7):
        assert not same_question(question(scales), encode_task(question(np.array([1e6, tiny, 1.0]))))
    assert same_question(question(scales), encode_task(question(scales * (1 + 1e-12))))


def test_what_another_processor_rounds_to_zero_is_the_same_question():
    weights = np.array([1.0, -1.0, 1e-17])
    for rounded in (0.0, -1e-17):
        assert same_question(question(weights), encode_task(question(np.array([1.0, -1.0, rounded]))))
    assert not same_question(question(weights), encode_task(question(np.array([1.0, -1.0, 1e-11]))))


def test_what_is_no_task_is_no_question():
    with pytest.raises(FeddagError, match="cannot be used"):
        same_question(task(0), b"nonsense")
