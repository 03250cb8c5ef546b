"""What a parameter must be, in words and as a test."""

from __future__ import annotations

import math

import numpy as np
import pytest

from feddag import constraints
from feddag.errors import FeddagError

A_SHARE = constraints.number("a share", lambda value: 0 < value <= 1)


@pytest.mark.parametrize(
    ("constraint", "accepted", "refused"),
    [
        (constraints.whole(1), [1, 7, np.int64(3)], [0, -1, 1.0, True, "1", None, math.nan]),
        (
            constraints.positive,
            [1, 0.5, np.float32(2), np.int64(1)],
            [0, -1, math.inf, math.nan, True, "1", None, [1]],
        ),
        (constraints.at_least_zero, [0, 0.0, 3], [-1e-9, math.inf, math.nan, False, "0", None]),
        (constraints.one_of(("a", "b")), ["a", "b"], ["c", "", "ab", None, 1, ["a"]]),
        (constraints.boolean, [True, False, np.True_], [0, 1, "True", None]),
        (constraints.none, [None], [0, "", False]),
        (constraints.whole(1) | A_SHARE, [1, 5, 0.5, 1.0], [0, 1.5, -0.5, True]),
        (constraints.positive | constraints.none, [None, 1], [0, -1]),
    ],
    ids=lambda value: value.wording if isinstance(value, constraints.Constraint) else "",
)
def test_what_is_accepted(constraint, accepted, refused):
    assert [value for value in accepted if not constraint.accepts(value)] == []
    assert [value for value in refused if constraint.accepts(value)] == []


def test_alternatives_are_worded_as_such():
    assert (constraints.whole(2) | constraints.none).wording == "a whole number of at least 2 or None"


def test_options_are_listed():
    assert constraints.one_of(("a", "b")).wording == "one of 'a', 'b'"


@pytest.mark.parametrize("value", [0, "many", None, np.array([[1, 2], [3, 4]])])
def test_a_refusal_names_the_parameter_what_it_must_be_and_what_was_found_in_one_line(value):
    with pytest.raises(FeddagError) as caught:
        constraints.check({"sites": value, "rows": 5}, {"rows": constraints.whole(1), "sites": constraints.whole(1)})
    message = str(caught.value)
    assert message.startswith("sites must be a whole number of at least 1. Got ")
    assert message.endswith(" instead.")
    assert " ".join(repr(value).split()) in message
    assert "\n" not in message


def test_the_first_wrong_parameter_in_the_order_of_the_constraints_is_named():
    both = {"first": constraints.positive, "second": constraints.positive}
    with pytest.raises(FeddagError, match=r"^first must be"):
        constraints.check({"second": -1, "first": -1}, both)


def test_right_parameters_pass_and_others_are_none_of_its_business():
    assert constraints.check({"rows": 5, "colour": object()}, {"rows": constraints.whole(1)}) is None
