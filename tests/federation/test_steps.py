"""A round of a study as a message, and the chain of all rounds: one head stands for one course of a study."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddag.errors import FeddagError
from feddag.federation.secure import from_text, to_text
from feddag.federation.steps import Step, first_head, next_head, plain_mean, question_digest, read_decisions

MEAN = {"U": np.arange(4.0).reshape(2, 2), "n": np.array([1, 2])}
STEP = Step("ab" * 32, {"time left": True}, plain_mean(MEAN, ["east", "west"]))


def test_a_step_survives_the_network_and_the_disk():
    again = Step.of(from_text(to_text(STEP.message())))
    assert again == STEP
    assert again.members == ("east", "west")
    for name, array in again.mean(1e7).items():
        np.testing.assert_array_equal(array, MEAN[name])
        assert array.dtype == MEAN[name].dtype


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "step",
        {},
        {"task": "x", "decisions": {}},
        {**STEP.message(), "decisions": ["time left"]},
        {**STEP.message(), "decisions": {"time left": 1}},
        {**STEP.message(), "result": 3},
        {**STEP.message(), "result": {}},
        {**STEP.message(), "result": {**STEP.result, "kind": "guess"}},
        {**STEP.message(), "result": {**STEP.result, "survivors": "east"}},
        {**STEP.message(), "result": {"kind": "sum"}},
    ],
    ids=str,
)
def test_what_is_no_step_is_refused(wrong):
    with pytest.raises(FeddagError, match="not described as feddag does"):
        Step.of(wrong)


@pytest.mark.parametrize("decisions", [None, [], "yes", {"time left": "yes"}, {"time left": 0}, {"time left": None}])
def test_decisions_are_true_or_false(decisions):
    with pytest.raises(TypeError, match="true or false, by question"):
        read_decisions(decisions)


STEPS = st.builds(
    lambda task, decisions, mean, members: Step(task, decisions, plain_mean({"x": np.array(mean)}, members)),
    st.sampled_from(["ab" * 32, "cd" * 32]),
    st.dictionaries(st.sampled_from(["time left", "more"]), st.booleans()),
    st.sampled_from([0.0, 1.0, 1.0 + 2**-52]),
    st.sampled_from([("east", "west"), ("east",), ("west", "east")]),
)


def head_of(steps: list[Step], study: str = "study") -> bytes:
    head = first_head(study)
    for step in steps:
        head = next_head(head, step)
    return head


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=3), st.lists(STEPS, max_size=3))
def test_two_courses_have_the_same_head_only_if_they_are_the_same(one: list[Step], other: list[Step]):
    same = [step.message() for step in one] == [step.message() for step in other]
    assert (head_of(one) == head_of(other)) == same
    assert head_of(one) != head_of(one, "another study")


@settings(max_examples=100)
@given(st.lists(STEPS, max_size=2), STEPS, STEPS)
def test_a_question_is_another_after_another_course_task_or_decision(course: list[Step], one: Step, other: Step):
    def question(steps: list[Step], step: Step) -> bytes:
        return question_digest(head_of(steps), step.task, step.decisions)

    same = (one.task, one.decisions) == (other.task, other.decisions)
    assert (question(course, one) == question(course, other)) == same
    assert question([*course, one], other) != question(course, other)


def test_a_head_is_no_question_and_no_other_head():
    head = first_head("study")
    question = question_digest(head, STEP.task, STEP.decisions)
    assert len({head, question, next_head(head, STEP)}) == 3
