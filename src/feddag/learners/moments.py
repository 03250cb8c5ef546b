"""The base of learners that need the variables' means and covariances only: two rounds of sums, whatever the rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from feddag.federation import Federation, Site
from feddag.federation.tasks import TaskSpec
from feddag.graphs import CausalGraph
from feddag.learners.single_pass import FederatedSinglePass, Note
from feddag.regression.moments import COVARIANCE, Moments, MomentSite, summed_moments
from feddag.silos import Silo


class FromMoments(FederatedSinglePass):
    """A learner that writes `learn_moments`. It learns from many sites exactly what it would from their pooled rows.

    What leaves a site: its number of rows, the sum of each variable, and the sum of each product of two, taken about
    the common mean; all summed over sites.
    """

    task_specs: ClassVar = COVARIANCE.specs

    @property
    def shares(self) -> str:
        """Moments of all variables."""
        return "moments"

    @abstractmethod
    def learn_moments(self, moments: Moments, note: Note) -> CausalGraph:
        """Return the graph with its scores."""

    def site(self, silo: Silo, position: int) -> Site:
        """Return the side that sums products of its rows."""
        del position
        return MomentSite(silo.name, silo.values, COVARIANCE)

    def tasks(self, columns: Sequence[str], sites: int) -> Mapping[str, TaskSpec]:
        """Return the two tasks, with bounds for so many columns."""
        del sites
        return COVARIANCE.bounded(len(columns))

    def learn_once(self, federation: Federation, columns: tuple[str, ...], note: Note) -> CausalGraph:
        """Ask for the moments, and learn from them."""
        return self.learn_moments(summed_moments(federation, columns), note)
