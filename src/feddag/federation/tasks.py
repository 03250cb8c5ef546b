"""A task, declared once: what it brings, what a site answers, what that discloses, and who must answer.

A learner declares its tasks as `TaskSpec`s, beside the code that answers them. All else derives from these: what a site
on a network refuses, what a policy can name, what an audit log says, what `feddag methods` lists, and when an
engine waits for a site that is out of reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Self

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.protocol import Arrays, Federation, Task, unknown_task
from feddag.federation.rosters import Split

LARGEST_PARAMETER = 1e9
"""The largest parameter of a model: its fourth power still fits single precision, and no fit comes near it."""
LARGEST_SINGLE = 3e38
"""About the largest number in single precision."""
LARGEST_VALUE = 1e150
"""The largest value of a table: its square is still a number."""
SMALLEST_SPREAD = 1e-150
MOST_ROWS = 2.0**53


@dataclass(frozen=True)
class Bounds:
    """Numbers of one type and shape, none below `least` nor above `most`."""

    least: float
    most: float
    dtype: str = "float64"
    shape: tuple[int | str, ...] = ()
    """A name stands for a length that the task itself decides, the same wherever the name occurs."""
    whole: bool = False

    @property
    def wording(self) -> str:
        """What follows "must be" in an error message."""
        kind = "whole" if self.whole or not self.dtype.startswith("float") else ""
        return " ".join(filter(None, (kind, f"between {self.least:g} and {self.most:g}")))

    def violations(self, values: np.ndarray | float) -> np.ndarray:
        """Return the values that break the rule."""
        values = np.asarray(values).ravel()
        inside = (values >= self.least) & (values <= self.most)
        return values[~inside if not self.whole else ~inside | (values != np.floor(values))]


def bounds_like(template: Arrays) -> dict[str, Bounds]:
    """Bound the parameters of a model by the shapes and types of a template."""
    return {
        name: Bounds(-LARGEST_PARAMETER, LARGEST_PARAMETER, array.dtype.name, array.shape)
        for name, array in template.items()
    }


@dataclass(frozen=True)
class Output:
    """One array of an answer."""

    discloses: str
    """What it gives away, in plain words."""
    shape: tuple[int | str, ...] | None = ()
    """As of `Bounds`; `None` where the learner's model decides."""


@dataclass(frozen=True)
class TaskSpec:
    """The declaration of a task.

    Bounds often depend on the study (its variables, its sites, a learner's parameters). The constant parts stand in one
    module-level `TaskSpec`; `with_bounds` adds the rest for one study.

    Examples:
        >>> rows = TaskSpec("toy.rows", "The number of rows", {"rows": Output("the number of rows")})
        >>> rows.describe("rows")
        'the number of rows'
    """

    name: str
    discloses: str
    """What the whole answer gives away, in one line."""
    answers: Mapping[str, Output] = field(default_factory=dict)
    """The arrays of an answer, by name; `*` in a name stands for anything.

    One array named `rows`, in answers of weight 1, is the site's number of rows: an engine reports their sum.
    """
    every_site: bool = True
    """Whether the sum means nothing without each site: an engine then waits for one that is out of reach."""
    numbers: Mapping[str, Bounds] = field(default_factory=dict)
    """The numbers that the task brings: these, and no others."""
    arrays: Mapping[str, Bounds] = field(default_factory=dict)
    """The arrays that the task brings: these, and no others."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """The largest value of each length that shapes name."""
    rules: Mapping[str, Callable[[Arrays], bool]] = field(default_factory=dict)
    """What else must hold for the arrays, once each is within its bounds; by its wording."""
    participants: int | None = None
    """How many sites enter the sum; `None` for all of them."""
    row_privacy: float = 1.0
    """The part of the study's privacy of rows that an answer costs; those of all its releases add up to 1."""

    def with_bounds(
        self,
        *,
        numbers: Mapping[str, Bounds] | None = None,
        arrays: Mapping[str, Bounds] | None = None,
        lengths: Mapping[str, int] | None = None,
        rules: Mapping[str, Callable[[Arrays], bool]] | None = None,
        participants: int | None = None,
    ) -> Self:
        """Return the same task with bounds on what it brings."""
        return replace(
            self,
            numbers=numbers or {},
            arrays=arrays or {},
            lengths=lengths or {},
            rules=rules or {},
            participants=participants,
        )

    def ask(
        self,
        federation: Federation,
        round_: int = 0,
        arrays: Arrays | None = None,
        numbers: Mapping[str, float] | None = None,
        participants: tuple[int, ...] | None = None,
    ) -> dict[str, np.ndarray]:
        """Have the sites work on the task, and return the weighted mean of their answers."""
        everyone = tuple(range(len(federation.sites)))
        return federation.aggregate(
            Task(
                self.name,
                round_,
                numbers or {},
                arrays or {},
                everyone if participants is None else participants,
                complete=self.every_site,
            )
        )

    def names(self, task: Task) -> list[str]:
        """Return the names of all that a policy must allow before a site answers."""
        return [task.name]

    def describe(self, array: str) -> str:
        """Say what an array of the answer discloses; an empty text where nothing was declared."""
        output = self._output(array)
        return "" if output is None else output.discloses

    def site_split(self, task: Task) -> Split | None:
        """Say into which groups sites fall, where the sum is about one of them alone; `None` if it is about all."""
        del task
        return None

    def check_task(self, site: str, task: Task, sites: int) -> None:
        """Refuse a task that brings what the declaration does not allow.

        Args:
            site: The site that was asked, for the message.
            task: What the site was asked.
            sites: The number of sites of the study.
        """

        def must(holds: bool, what: str, expected: str, found: Any) -> None:
            if not holds:
                raise FeddagError(
                    f"Site {site!r} refuses {task.name}: {what} must be {expected}. Got {found} instead. Have the "
                    "server run the study that all have agreed on, with the same version of feddag."
                )

        everyone = range(sites)
        must(
            set(task.participants) <= set(everyone), "participants", f"among 0 to {sites - 1}", list(task.participants)
        )
        count = sites if self.participants is None else self.participants
        must(len(task.participants) == count, "the number of participants", f"{count}", len(task.participants))
        for kind, found, expected in (("numbers", task.numbers, self.numbers), ("arrays", task.arrays, self.arrays)):
            must(found.keys() == expected.keys(), f"its {kind}", _listed(expected), _listed(found))
        for name, number in task.numbers.items():
            bounds = self.numbers[name]
            must(not bounds.violations(number).size, name, bounds.wording, f"{number:g}")
        lengths: dict[str, int] = {}
        for name, array in task.arrays.items():
            bounds = self.arrays[name]
            must(array.dtype.name == bounds.dtype, f"the type of {name}", bounds.dtype, array.dtype.name)
            fits = _fits(array.shape, bounds.shape, lengths)
            must(fits, f"the shape of {name}", _shape(bounds.shape, lengths), array.shape)
            broken = bounds.violations(array)
            must(not broken.size, f"all of {name}", bounds.wording, ", ".join(f"{value:g}" for value in broken[:1]))
        for name, length in lengths.items():
            most = self.lengths[name]
            must(length <= most, f"the length of its {name} axis", f"at most {most}", length)
        for wording, holds in self.rules.items():
            must(holds(task.arrays), "what it brings", wording, "something else")

    def check_answer(self, site: str, task: Task, answer: Arrays) -> None:
        """Refuse to send an answer that the declaration does not describe.

        The message names no value: it may leave the site.
        """
        lengths: dict[str, int] = {}
        for name, array in task.arrays.items():
            _fits(array.shape, self.arrays[name].shape, lengths)
        for name, array in answer.items():
            output = self._output(name)
            if output is None:
                raise FeddagError(f"Site {site!r}: its answer to {task.name} has an undeclared array {name!r}.")
            if output.shape is not None and not _fits(array.shape, output.shape, lengths):
                raise FeddagError(
                    f"Site {site!r}: its answer to {task.name} has {name!r} in the shape {list(array.shape)}, not "
                    f"{_shape(output.shape, lengths)}."
                )

    def _output(self, array: str) -> Output | None:
        return next((output for name, output in self.answers.items() if fnmatchcase(array, name)), None)


def by_name(specs: Iterable[TaskSpec]) -> dict[str, TaskSpec]:
    """Index declarations by the task's name."""
    return {spec.name: spec for spec in specs}


def find_task(site: str, task: Task, specs: Mapping[str, TaskSpec]) -> TaskSpec:
    """Return the declaration of a task that a site was asked, or refuse what is not a task of the study."""
    if task.name not in specs:
        raise unknown_task(site, task, specs)
    return specs[task.name]


def _fits(shape: tuple[int, ...], expected: tuple[int | str, ...], lengths: dict[str, int]) -> bool:
    """Compare a shape with the expected one, given the named lengths found so far; add its own to them."""
    if len(shape) != len(expected):
        return False
    return all(
        found == (lengths.setdefault(length, found) if isinstance(length, str) else length)
        for found, length in zip(shape, expected, strict=True)
    )


def _shape(expected: tuple[int | str, ...], lengths: Mapping[str, int]) -> str:
    return str([lengths.get(length, length) if isinstance(length, str) else length for length in expected])


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none"
