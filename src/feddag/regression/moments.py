"""Means, and squares or products about them, of all sites' rows: two rounds of sums, whatever the rows.

The mean comes first, since squares about it lose no digits. Sites answer sums that count alike, or means that count by
rows; both lead to the same moments, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from feddag.federation import Answer, Federation, Stateless, Task, unknown_task
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import LARGEST_VALUE, Bounds, Output, TaskSpec, by_name
from feddag.silos import Silo
from feddag.silos.scaling import ColumnScale, continuous_values


class MeanAndSecond(NamedTuple):
    """The mean of all rows, and the mean of squares or products about it."""

    mean: Float[np.ndarray, " variable"]
    second: Float[np.ndarray, "variable *other"]
    rows: float
    """The mean number of rows of a site, if sites sum; else 1."""


@dataclass(frozen=True)
class MomentTasks:
    """The two tasks of one pair of moments, and both their sides."""

    first: TaskSpec
    second: TaskSpec

    @classmethod
    def by_sums(cls, prefix: str, variable: str = "variable", *, products: bool = False) -> MomentTasks:
        """Declare tasks whose answers are sums over a site's rows, each site with weight 1.

        Args:
            prefix: The first part of the tasks' names.
            variable: What the variables are called.
            products: Whether the second task sums the products of each two variables, rather than squares.
        """
        first = TaskSpec(
            f"{prefix}.sums",
            f"The number of rows, and the sum of each {variable}",
            {
                "rows": Output("the number of rows"),
                "sum": Output(f"for each {variable} its sum over all rows", ("variable",)),
            },
        )
        if not products:
            squares = Output(f"for each {variable} the sum of its squares about the common mean", ("variable",))
            return cls(first, TaskSpec(f"{prefix}.squares", f"How much each {variable} varies", {"squares": squares}))
        about = f"for each pair of {variable}s the sum of their products over all rows, about the common mean"
        answers = {"products": Output(about, ("variable", "variable"))}
        return cls(first, TaskSpec(f"{prefix}.products", f"How the {variable}s vary together", answers))

    @classmethod
    def by_means(cls, prefix: str) -> MomentTasks:
        """Declare tasks whose answers are means over a site's rows, weighted by their number."""
        mean = Output("for each variable its mean", ("variable",))
        variance = Output("for each variable its variance about the common mean", ("variable",))
        return cls(
            TaskSpec(f"{prefix}.means", "The mean of each variable", {"mean": mean}),
            TaskSpec(f"{prefix}.variances", "The variance of each variable", {"variance": variance}),
        )

    @property
    def specs(self) -> tuple[TaskSpec, TaskSpec]:
        """Return both tasks, without bounds."""
        return self.first, self.second

    def bounded(self, variables: int) -> dict[str, TaskSpec]:
        """Return both tasks with bounds on what they bring, by name."""
        mean = Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=(variables,))
        return by_name((self.first, self.second.with_bounds(arrays={"mean": mean})))

    def answer(self, site: str, task: Task, values: Float[np.ndarray, "row variable"]) -> Answer:
        """Answer as the site that holds these rows."""
        if task.name not in by_name(self.specs):
            raise unknown_task(site, task, by_name(self.specs))
        rows, sums = float(len(values)), "rows" in self.first.answers
        weight, divisor = (1.0, 1.0) if sums else (rows, rows)
        if task.name == self.first.name:
            answer = {_value_name(self.first): values.sum(axis=0) / divisor}
            return Answer(weight, answer | ({"rows": np.array(rows)} if sums else {}))
        centred = values - task.arrays["mean"]
        found = centred.T @ centred if "products" in self.second.answers else (centred**2).sum(axis=0)
        return Answer(weight, {_value_name(self.second): found / divisor})

    def ask(self, ask: Callable[[TaskSpec, Arrays], Arrays]) -> MeanAndSecond:
        """Ask all sites, in two rounds."""
        first = ask(self.first, {})
        rows = first.get("rows", np.array(1.0))
        mean = first[_value_name(self.first)] / rows
        second = ask(self.second, {"mean": mean})
        return MeanAndSecond(mean, second[_value_name(self.second)] / rows, float(rows))


def _value_name(spec: TaskSpec) -> str:
    (name,) = spec.answers.keys() - {"rows"}
    return name


@dataclass
class MomentSite(Stateless):
    """A site that answers the two tasks about its rows, and no others."""

    name: str
    values: Float[np.ndarray, "row variable"]
    tasks: MomentTasks

    def answer(self, task: Task) -> Answer:
        """Answer one of the two tasks."""
        return self.tasks.answer(self.name, task, self.values)


SCALE = MomentTasks.by_sums("scale", "continuous variable")
"""The moments that bring columns to common units."""
COVARIANCE = MomentTasks.by_sums("moments", products=True)
"""The moments of `FromMoments` learners, and of checks of a graph."""


@dataclass(frozen=True)
class Moments:
    """The covariance of all rows of all sites."""

    rows: int
    columns: tuple[str, ...]
    covariance: Float[np.ndarray, "node node"]
    """Divided by the number of rows."""


def _in_two_rounds(tasks: MomentTasks, federation: Federation) -> MeanAndSecond:
    rounds = iter((1, 2))
    return tasks.ask(lambda spec, arrays: spec.ask(federation, next(rounds), arrays))


def summed_moments(federation: Federation, columns: tuple[str, ...]) -> Moments:
    """Learn the moments of all rows of all sites."""
    found = _in_two_rounds(COVARIANCE, federation)
    return Moments(round(found.rows * len(federation.sites)), columns, found.second)


def common_scale(federation: Federation) -> ColumnScale:
    """Learn the common units of all sites' continuous columns."""
    found = _in_two_rounds(SCALE, federation)
    return ColumnScale(found.mean, np.sqrt(found.second))


def scale_site(silo: Silo) -> MomentSite:
    """Return the side of `common_scale` that stays with the rows."""
    return MomentSite(silo.name, continuous_values(silo), SCALE)
