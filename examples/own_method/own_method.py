"""A whole method with a task of its own: what sites answer, what that discloses, and the graph that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from feddag import CausalGraph, constraints
from feddag.federation import Answer, Federation, Site, Stateless, Task, unknown_task
from feddag.federation.tasks import Output, TaskSpec
from feddag.learners.registry import Method
from feddag.learners.single_pass import FederatedSinglePass, Note
from feddag.silos import Silo

CORRELATIONS = TaskSpec(
    "partial-correlations.correlations",
    "How the variables of a site correlate, and how widely each is spread",
    {
        "correlations": Output("for each pair of variables their correlation", ("variable", "variable")),
        "variances": Output("for each variable its variance", ("variable",)),
    },
)
"""The declaration: a site on a network answers no other task, and its audit log holds these words."""


class PartialCorrelations(FederatedSinglePass):
    """Joins variables that are correlated given all others.

    Args:
        least: The partial correlation from which on two variables are joined.
    """

    parameter_constraints: ClassVar = {"least": constraints.at_least_zero}
    task_specs: ClassVar = (CORRELATIONS,)

    @property
    def shares(self) -> str:
        """Moments of all variables."""
        return "moments"

    def __init__(self, least: float = 0.2) -> None:
        self.least = least

    def site(self, silo: Silo, position: int) -> Site:
        """Return the side that stays with a site's rows."""
        del position
        return CorrelationSite(silo.name, silo.values)

    def learn_once(self, federation: Federation, columns: tuple[str, ...], note: Note) -> CausalGraph:
        """Return the graph, from means over all sites, weighted by their rows."""
        mean = CORRELATIONS.ask(federation)
        precision = np.linalg.inv(mean["correlations"])
        scale = np.sqrt(precision.diagonal())
        partial = np.abs(precision / np.outer(scale, scale))
        variances = mean["variances"]
        scores = np.where(variances[:, None] < variances[None, :], partial, 0.0)
        return CausalGraph(scores > self.least, columns, scores)


@dataclass
class CorrelationSite(Stateless):
    """A site's side, which keeps nothing between tasks."""

    name: str
    values: np.ndarray

    def answer(self, task: Task) -> Answer:
        """Answer the one task there is."""
        if task.name != CORRELATIONS.name:
            raise unknown_task(self.name, task, (CORRELATIONS.name,))
        correlations, variances = np.corrcoef(self.values, rowvar=False), self.values.var(axis=0)
        return Answer(len(self.values), {"correlations": correlations, "variances": variances})


METHOD = Method(
    name="partial-correlations",
    estimator="own_method:PartialCorrelations",
    summary="Joins variables that are correlated given all others; the one with the smaller variance is the cause.",
    assumptions="Linear mechanisms shared by all sites, no hidden common causes, noise of equal variance.",
    reference="An example of feddag.",
)
