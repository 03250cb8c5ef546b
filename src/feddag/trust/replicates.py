"""Stability on any engine: all replicates learn side by side, each site draws its own rows, and only sums leave it.

`feddag.trust.stability` does the same where one process has all tables, one replicate after the other. There the seed
decides which rows are drawn. On a network each site draws by a secret of its own: who knew how often each row counts in
each of many sums could solve them for the rows.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from feddag.errors import AssumptionWarning
from feddag.federation import Federation, Site
from feddag.federation.side_by_side import JointSite, JointTaskSpec, Lane, run_side_by_side
from feddag.federation.tasks import Output, TaskSpec, by_name
from feddag.graphs import Adjacency
from feddag.learners.federated import FederatedLearner
from feddag.learners.status import Progress, Status
from feddag.silos import Silo
from feddag.trust.stability import Replicate, Stability, draw_half

REPLICATE_TASKS = (
    TaskSpec(
        "stability.replicates",
        "What the method asks, of half of the site's rows, drawn by the site, for many draws at once",
        {"*": Output("what the method's own tasks disclose, of rows that the site has drawn", None)},
    ),
    TaskSpec(
        "stability.subsets",
        "The same in sums without some sites: with the sums of all sites, they tell about those that are left out",
        {"*": Output("what the method's own tasks disclose, of rows that the site has drawn", None)},
        every_site=False,
    ),
)
"""Tasks that hold those of all replicates: in sums of all sites, and in sums of some of them."""
SIDE_BY_SIDE = 50
"""The most replicates of a round: more would make messages large, and save few rounds."""


@dataclass(frozen=True)
class Replicates:
    """Which replicates a study has, and what they ask."""

    learner: FederatedLearner
    """The study's learner, fitted or not."""
    columns: tuple[str, ...]
    sites: tuple[str, ...]
    bootstraps: int
    leave_one_out: bool = False
    seed: int = 0

    @property
    def wanted(self) -> list[Replicate]:
        """All replicates, in the order of their lanes."""
        without = range(len(self.sites) if self.leave_one_out else 0)
        return [Replicate("bootstrap", number) for number in range(self.bootstraps)] + [
            Replicate("without", number) for number in without
        ]

    def members(self, replicate: Replicate) -> tuple[int, ...]:
        """Return the positions of the sites that a replicate learns from."""
        everyone = range(len(self.sites))
        return tuple(k for k in everyone if replicate.kind == "bootstrap" or k != replicate.number)

    def task_specs(self) -> tuple[JointTaskSpec, JointTaskSpec]:
        """Return the declarations of the two joint tasks."""
        members = [self.members(each) for each in self.wanted]
        by_size = {size: dict(self.learner.with_sites(size).tasks(self.columns, size)) for size in {*map(len, members)}}
        parts = [by_size[len(each)] for each in members]
        together, subsets = REPLICATE_TASKS
        some = next(iter(self._sizes_of_some()), len(self.sites) - 1)
        return (
            JointTaskSpec.of(together.name, together.discloses, parts, members),
            JointTaskSpec.of(subsets.name, subsets.discloses, parts, members, participants=some),
        )

    def _sizes_of_some(self) -> list[int]:
        """Return how many sites enter the sums of those tasks that do not sum over all of them."""
        counts = (spec.participants for spec in self.learner.tasks(self.columns, len(self.sites)).values())
        return [count for count in counts if count not in (None, len(self.sites))]

    def tasks(self) -> dict[str, TaskSpec]:
        """Return the joint tasks that these replicates ask, by name."""
        together, subsets = self.task_specs()
        some = self.leave_one_out or bool(self._sizes_of_some())
        return by_name((together, subsets) if some else (together,))

    def site(self, silo: Silo, position: int, secret: bytes = b"") -> JointSite:
        """Return a site's side, which draws rows by the seed, or by the site's secret where it has one."""
        lane = partial(self._site_of_lane, silo, position, secret)
        return JointSite(silo.name, position, self.task_specs()[0], lane)

    def _site_of_lane(self, silo: Silo, position: int, secret: bytes, lane: int) -> Site:
        replicate = self.wanted[lane]
        if replicate.kind == "bootstrap":
            words = np.frombuffer(hashlib.sha256(secret).digest(), dtype="<u4").tolist() if secret else [self.seed]
            return self.learner.site(draw_half(silo, (*words, replicate.number, position)), position)
        members = self.members(replicate)
        return self.learner.with_sites(len(members)).site(silo, members.index(position))

    def learn(
        self, federation: Federation, *, maximum_weight: float = float("inf"), progress: Progress | None = None
    ) -> Stability:
        """Learn all replicates of a fitted learner from sites that any engine reaches."""
        started, wanted = time.monotonic(), self.wanted
        graphs: list[Adjacency] = []

        def advance(finished: int) -> None:
            if progress is not None:
                done = {"replicate": len(graphs) + finished, "replicates": len(wanted)}
                progress(Status(None, {"stage": "stability", **done}, time.monotonic() - started))

        lanes = [Lane(self.members(each), partial(self._graph, each)) for each in wanted]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)  # that of the graph itself is enough
            for block in _blocks(lanes):
                graphs += run_side_by_side(
                    federation, *self.task_specs(), block, maximum_weight=maximum_weight, advance=advance
                )
        found = dict(zip(wanted, graphs, strict=True))
        return Stability(
            self.learner.graph_.reordered(self.columns),
            [graph for each, graph in found.items() if each.kind == "bootstrap"],
            {self.sites[each.number]: graph for each, graph in found.items() if each.kind == "without"},
        )

    def _graph(self, replicate: Replicate, federation: Federation) -> Adjacency:
        learner = self.learner.with_sites(len(self.members(replicate)))
        return learner.fit_federation(federation, self.columns).graph_.reordered(self.columns).adjacency


def _blocks(lanes: Sequence[Lane]) -> Sequence[Mapping[int, Lane]]:
    numbered = list(enumerate(lanes))
    return [dict(numbered[start : start + SIDE_BY_SIDE]) for start in range(0, len(numbered), SIDE_BY_SIDE)]
