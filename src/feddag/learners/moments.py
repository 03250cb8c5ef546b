"""The base of learners that need the variables' means and covariances only: two rounds of sums, whatever the rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from feddag.federation import Answer, Federation, Site, Stateless, Task, unknown_task
from feddag.federation.tasks import LARGEST_VALUE, Bounds, Output, TaskSpec, by_name
from feddag.graphs import CausalGraph
from feddag.learners.single_pass import FederatedSinglePass, Note
from feddag.silos import Silo

SUMS = TaskSpec(
    "moments.sums",
    "The number of rows, and the sum of each variable",
    {
        "rows": Output("the number of rows"),
        "sum": Output("for each variable its sum over all rows", ("variable",)),
    },
)
PRODUCTS = TaskSpec(
    "moments.products",
    "How the variables vary together",
    {
        "products": Output(
            "for each pair of variables the sum of their products over all rows, about the common mean",
            ("variable", "variable"),
        )
    },
)


def moments_tasks(variables: int) -> dict[str, TaskSpec]:
    """Return the tasks of `summed_moments`, with bounds on what they bring."""
    mean = Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=(variables,))
    return by_name((SUMS, PRODUCTS.with_bounds(arrays={"mean": mean})))


@dataclass(frozen=True)
class Moments:
    """Of all rows of all sites."""

    rows: int
    columns: tuple[str, ...]
    covariance: Float[np.ndarray, "node node"]
    """Divided by the number of rows."""


class FromMoments(FederatedSinglePass):
    """A learner that writes `learn_moments`. It learns from many sites exactly what it would from their pooled rows.

    What leaves a site: its number of rows, the sum of each variable, and the sum of each product of two, taken about
    the common mean; all summed over sites.
    """

    task_specs: ClassVar = (SUMS, PRODUCTS)

    @abstractmethod
    def learn_moments(self, moments: Moments, note: Note) -> CausalGraph:
        """The graph with its scores."""

    def site(self, silo: Silo, position: int) -> Site:
        del position
        return Summands(silo.name, silo.values)

    def tasks(self, columns: Sequence[str], sites: int) -> Mapping[str, TaskSpec]:
        del sites
        return moments_tasks(len(columns))

    def learn_once(self, federation: Federation, columns: tuple[str, ...], note: Note) -> CausalGraph:
        return self.learn_moments(summed_moments(federation, columns), note)


def summed_moments(federation: Federation, columns: tuple[str, ...]) -> Moments:
    """The moments of all rows. The mean comes first, since products about it lose no digits."""
    first = SUMS.ask(federation, 1)
    mean = first["sum"] / first["rows"]
    second = PRODUCTS.ask(federation, 2, {"mean": mean})
    return Moments(round(float(first["rows"]) * len(federation.sites)), columns, second["products"] / first["rows"])


@dataclass
class Summands(Stateless):
    """A site's side."""

    name: str
    values: Float[np.ndarray, "row node"]

    def answer(self, task: Task) -> Answer:
        if task.name == SUMS.name:
            return Answer(1.0, {"rows": np.array(float(len(self.values))), "sum": self.values.sum(axis=0)})
        if task.name == PRODUCTS.name:
            centred = self.values - task.arrays["mean"]
            return Answer(1.0, {"products": centred.T @ centred})
        raise unknown_task(self.name, task, (SUMS.name, PRODUCTS.name))
