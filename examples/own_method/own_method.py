"""A whole method, from covariances that are summed over the sites to a graph, and what feddag tells of it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from feddag import CausalGraph, constraints
from feddag.learners.moments import FromMoments, Moments
from feddag.learners.registry import Method
from feddag.learners.single_pass import Note


class PartialCorrelations(FromMoments):
    """Joins variables that are correlated given all others.

    Args:
        least: The partial correlation from which on two variables are joined.
    """

    parameter_constraints: ClassVar = {"least": constraints.at_least_zero}

    def __init__(self, least: float = 0.2) -> None:
        self.least = least

    def learn_moments(self, moments: Moments, note: Note) -> CausalGraph:
        precision = np.linalg.inv(moments.covariance)
        scale = np.sqrt(precision.diagonal())
        partial = np.abs(precision / np.outer(scale, scale))
        variance = moments.covariance.diagonal()
        scores = np.where(variance[:, None] < variance[None, :], partial, 0.0)
        return CausalGraph(scores > self.least, moments.columns, scores)


METHOD = Method(
    name="partial-correlations",
    estimator="own_method:PartialCorrelations",
    summary="Joins variables that are correlated given all others; the one with the smaller variance is the cause.",
    assumptions="Linear mechanisms shared by all sites, no hidden common causes, noise of equal variance.",
    leaves_site="Once: rows, means and covariances, summed over sites.",
    reference="An example of feddag.",
)
