"""The base of learners with two sides: one stays with a site's rows, the other sees weighted means of all answers.

The learner is the same whatever carries the tasks from one side to the other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from feddag.federation import Federation, InProcess, Site
from feddag.federation.tasks import TaskSpec, by_name
from feddag.learners.base import Learner
from feddag.learners.checkpointing import FitContext
from feddag.learners.status import Progress
from feddag.silos import CheckedSilos, Silo


class FederatedLearner(Learner):
    """A learner that writes `site` and `learn`, and declares its tasks."""

    @property
    def shares(self) -> str:
        """What sites share, by a name of `feddag.federation.policy.SHARING`: a site's policy names what it allows.

        By default the parameter `sharing`, if the learner has it; one that says nothing counts as if it shared all.
        """
        return getattr(self, "sharing", "all")

    @property
    def most_rounds(self) -> int | None:
        """The most rounds, of a method whose rounds all ask the same; `None` where the data decide what is asked."""
        return None

    @property
    def fewest_in_group(self) -> int | None:
        """The fewest sites of a group that may get a graph of its own; `None` where sums are about all sites."""
        return None

    @abstractmethod
    def site(self, silo: Silo, position: int) -> Site:
        """Return the side that stays with the rows. `position` is the site's place among all sites."""

    @abstractmethod
    def learn(self, federation: Federation, columns: tuple[str, ...], context: FitContext) -> None:
        """Learn from the sites' answers, and set the same attributes as `fit_silos`."""

    def tasks(self, columns: Sequence[str], sites: int) -> Mapping[str, TaskSpec]:
        """Return the tasks of one study, with bounds on what each brings: a site on a network refuses all else.

        By default these are all of `task_specs` as they are, which bring nothing.
        """
        del columns, sites
        return by_name(self.task_specs)

    def check_federation(self, sites: int, columns: Sequence[str]) -> None:
        """Refuse parameters with which so many sites cannot learn about these variables."""
        del sites
        self.check_parameters()
        self.knowledge_of(columns)

    def check_deployment(self) -> None:
        """Refuse parameters that are for simulations only, where the sites are on a network."""

    def check(self, silos: Any) -> CheckedSilos:
        """Check the tables, and that these sites can learn about these variables."""
        checked = super().check(silos)
        self.check_federation(len(checked), checked[0].columns)
        return checked

    def fit_federation(
        self, federation: Federation, columns: Sequence[str], *, progress: Progress | None = None
    ) -> Self:
        """Learn from sites that any engine reaches. What only the sites know, such as mechanisms, stays there."""
        self.check_federation(len(federation.sites), columns)
        context = FitContext(progress, None)
        self.learn(federation, tuple(columns), context)
        return self._completed(federation.sites, context.seconds)

    def fit_silos(self, silos: CheckedSilos, context: FitContext) -> None:
        """Learn from a federation of all sites in this process."""
        with self.in_process(silos) as federation:
            self.learn(federation, silos[0].columns, context)

    @contextmanager
    def in_process(self, silos: Sequence[Silo]) -> Iterator[InProcess]:
        """Open a federation of all sites in this process."""
        sites = [self.site(silo, position) for position, silo in enumerate(silos)]
        with InProcess(sites, min(self.site_worker_count(), len(sites))) as federation:
            yield federation

    def site_worker_count(self) -> int:
        """Return the number of threads that sites are spread over."""
        return self.worker_count()
