"""Parameter constraints as data: the words and the test for what a parameter must be; and grids of values to try."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from feddag.errors import FeddagError

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by parameter."""


@dataclass(frozen=True)
class Constraint:
    """A test, and the words that follow "must be" when it fails."""

    wording: str
    accepts: Callable[[Any], bool]

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(
            f"{self.wording} or {other.wording}", lambda value: self.accepts(value) or other.accepts(value)
        )


def is_whole(value: Any, at_least: int) -> bool:
    """Whether a value is a whole number of at least `at_least`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= at_least)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return (
        isinstance(value, int | float | np.integer | np.floating)
        and not isinstance(value, bool)
        and bool(np.isfinite(value))
    )


def whole(at_least: int) -> Constraint:
    """Accept whole numbers of at least `at_least`."""
    return Constraint(f"a whole number of at least {at_least}", lambda value: is_whole(value, at_least))


def number(wording: str, accepts: Callable[[float], bool]) -> Constraint:
    """Accept finite numbers that pass a test."""
    return Constraint(wording, lambda value: is_number(value) and accepts(value))


def one_of(options: Collection[str]) -> Constraint:
    """Accept one of some texts."""
    return Constraint(
        "one of " + ", ".join(map(repr, options)), lambda value: isinstance(value, str) and value in options
    )


def are_names(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def are_lists_of_names(value: Any) -> bool:
    """Whether a value is a list of lists of texts."""
    return isinstance(value, list | tuple) and all(map(are_names, value))


none = Constraint("None", lambda value: value is None)
boolean = Constraint("True or False", lambda value: isinstance(value, bool | np.bool_))
positive = number("a positive number", lambda value: value > 0)
at_least_zero = number("a number of at least 0", lambda value: value >= 0)
names = Constraint("a list of names", are_names)
tiers = Constraint("a list of tiers, each a list of names", are_lists_of_names)
edges = Constraint(
    "a list of (cause, effect) pairs of names",
    lambda value: are_lists_of_names(value) and all(len(pair) == 2 for pair in value),
)


def check(parameters: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Raise on the first parameter that its constraint does not accept."""
    for name, constraint in constraints.items():
        if not constraint.accepts(parameters[name]):
            raise refusal(name, constraint.wording, parameters[name])


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """List every choice of one value for each parameter."""
    for name, values in grid.items():
        if not len(values):
            raise FeddagError(f"The grid has no value for {name!r}. Give at least one.")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def refusal(name: str, wording: str, value: Any) -> FeddagError:
    """Make the error for a parameter that must be something else."""
    found = " ".join(repr(value).split())
    return FeddagError(f"{name} must be {wording}. Got {found} instead.")
