"""What a task may bring, as data: which numbers and arrays, of which shapes, and between which bounds.

A learner declares its tasks so (`FederatedLearner.forms`), with bounds from the study's own parameters. A station holds
every task that reaches it against the declaration before anything else sees it, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.protocol import Arrays, Task, unknown_task

LARGEST_PARAMETER = 1e9
"""Of a model: its fourth power still fits single precision, and no fit comes near it."""
LARGEST_SINGLE = 3e38
"""About the largest number in single precision."""
LARGEST_VALUE = 1e150
"""In a table's own units: its square is still a number."""
SMALLEST_SPREAD = 1e-150
MOST_ROWS = 2.0**53


@dataclass(frozen=True)
class Between:
    """Numbers of a type and a shape, none below the least nor above the most."""

    least: float
    most: float
    dtype: str = "float64"
    shape: tuple[int | str, ...] = ()
    """A name stands for a length of the task's own, the same wherever it stands."""
    whole: bool = False

    @property
    def words(self) -> str:
        kind = "whole" if self.whole or not self.dtype.startswith("float") else ""
        return " ".join(filter(None, (kind, f"between {self.least:g} and {self.most:g}")))

    def outside(self, values: np.ndarray | float) -> np.ndarray:
        """Those that are not so."""
        values = np.asarray(values).ravel()
        so = (values >= self.least) & (values <= self.most)
        return values[~so if not self.whole else ~so | (values != np.floor(values))]


@dataclass(frozen=True)
class Form:
    """All that a task of one name may bring: no more, no less, and nothing else."""

    numbers: Mapping[str, Between] = field(default_factory=dict)
    arrays: Mapping[str, Between] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    """What the lengths that shapes name may be at most."""
    rules: Mapping[str, Callable[[Arrays], bool]] = field(default_factory=dict)
    """What else must hold, once every array is within its bounds; by the words for it."""
    participants: int | None = None
    """How many sites enter the sum; all where it is None."""


def like(template: Arrays) -> dict[str, Between]:
    """Parameters of a model that has such arrays."""
    return {
        name: Between(-LARGEST_PARAMETER, LARGEST_PARAMETER, array.dtype.name, array.shape)
        for name, array in template.items()
    }


def check(site: str, task: Task, forms: Mapping[str, Form], sites: int) -> None:
    """Refuse what is no task of the study, or brings what such a task never brings."""
    form = forms.get(task.name)
    if form is None:
        raise unknown_task(site, task, forms)

    def must(holds: bool, what: str, expected: str, found: Any) -> None:
        if not holds:
            raise FeddagError(
                f"Site {site!r} refuses {task.name}: {what} must be {expected}. Got {found} instead. Have the server "
                "run the study that all have agreed on, with the same version of feddag."
            )

    everyone = range(sites)
    must(set(task.participants) <= set(everyone), "participants", f"among 0 to {sites - 1}", list(task.participants))
    count = sites if form.participants is None else form.participants
    must(len(task.participants) == count, "the number of participants", f"{count}", len(task.participants))
    for kind, found, expected in (("numbers", task.numbers, form.numbers), ("arrays", task.arrays, form.arrays)):
        must(found.keys() == expected.keys(), f"its {kind}", _listed(expected), _listed(found))
    for name, number in task.numbers.items():
        must(not form.numbers[name].outside(number).size, name, form.numbers[name].words, f"{number:g}")
    lengths: dict[str, int] = {}
    for name, array in task.arrays.items():
        bounds = form.arrays[name]
        must(array.dtype.name == bounds.dtype, f"the type of {name}", bounds.dtype, array.dtype.name)
        must(_fits(array.shape, bounds.shape, lengths), f"the shape of {name}", _shape(bounds, lengths), array.shape)
        outside = bounds.outside(array)
        must(not outside.size, f"all of {name}", bounds.words, ", ".join(f"{value:g}" for value in outside[:1]))
    for name, length in lengths.items():
        must(length <= form.lengths[name], f"the length of its {name} axis", f"at most {form.lengths[name]}", length)
    for words, holds in form.rules.items():
        must(holds(task.arrays), "what it brings", words, "something else")


def _fits(shape: tuple[int, ...], expected: tuple[int | str, ...], lengths: dict[str, int]) -> bool:
    """Whether a shape is the expected one, given the lengths found so far, to which it adds its own."""
    if len(shape) != len(expected):
        return False
    return all(
        found == (lengths.setdefault(length, found) if isinstance(length, str) else length)
        for found, length in zip(shape, expected, strict=True)
    )


def _shape(bounds: Between, lengths: Mapping[str, int]) -> str:
    return str([lengths.get(length, length) if isinstance(length, str) else length for length in bounds.shape])


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none"
