"""A site's end of a study, whatever carries the calls: its table, its policy, and what answers the tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from feddag.deployment.cells import check_cells
from feddag.deployment.server import assess, learn
from feddag.deployment.study_tasks import SET_SCALE, federated_learner, known_tasks, study_tasks
from feddag.deployment.terms import privacy_budget, study_terms
from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.differential_privacy import Accountant, PrivateSite, noise_multiplier_for
from feddag.federation.identities import SiteIdentity
from feddag.federation.policy import Policy
from feddag.federation.protocol import Answer, Arrays, Federation, Site, Task
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.learners.federated import FederatedLearner
from feddag.regression.moments import scale_site
from feddag.silos import Silo
from feddag.silos.scaling import ColumnScale, scaled
from feddag.study import Study
from feddag.trust.sites import TrustSite
from feddag.trust.tasks import assessment_tasks


def tables_folder() -> Path:
    """Return where this user's sites remember their tables: `FEDDAG_STATE`, or the system's place for such files."""
    state = os.environ.get("FEDDAG_STATE") or os.environ.get("XDG_STATE_HOME", "~/.local/state") + "/feddag"
    return Path(state).expanduser() / "tables"


def check_site(study: Study, silo: Silo, policy: Policy) -> None:
    """Refuse to take part where the study cannot run, or the site's policy does not allow it."""
    policy.check_sharing(federated_learner(study).shares)
    policy.check_names(known_tasks())
    policy.check_tasks(federated_learner(study).tasks(study.columns, len(study.sites)))
    policy.check_study(rows=silo.rows, sites=len(study.sites), protected=study.privacy.secure_sum)
    fewest = max(policy.minimum_sites, study.federation.minimum_sites)
    if study.privacy.secure_sum and fewest > 1 and study.federation.quorum <= len(study.sites) // 2:
        raise FeddagError(
            f"Site {silo.name!r}: the study's quorum is {study.federation.quorum} of {len(study.sites)} sites, so that "
            "a server could have two groups go on without each other, and compare their sums. Agree on a quorum "
            f"of {len(study.sites) // 2 + 1}, or set minimum_sites = 1 in the study's [federation] and in all policies."
        )
    for task in study_tasks(study).values():
        if study.privacy.secure_sum and fewest > 1 and task.participants not in (None, len(study.sites)):
            raise FeddagError(
                f"Site {silo.name!r}: each round of {task.name} is to hold another {task.participants} of "
                f"{len(study.sites)} sites, and such sums, held against each other, tell about fewer than {fewest}. "
                "Let all sites take part, or set minimum_sites = 1 in the study's [federation] and in all policies."
            )
    check_cells(study, silo, policy)


def build_site(
    study: Study,
    silo: Silo,
    folder: Path,
    tables: Path,
    identity: SiteIdentity,
    policy: Policy,
    report: Callable[[str], None],
) -> SiteEndpoint:
    """Build a site's end of a study.

    Args:
        study: The study that the site has agreed to.
        silo: The site's table, named after the site.
        folder: What the site remembers of the study.
        tables: What the site remembers of its tables, over all studies and kits.
        identity: What the site signs with, and whom it believes.
        policy: The site's own rules.
        report: Takes messages for the site's operator.
    """
    check_site(study, silo, policy)
    folder.mkdir(parents=True, exist_ok=True)
    return SiteEndpoint(
        folder,
        study_terms(study),
        _with_noise(study, StudyTable(study, replace(silo, minimum_cell=policy.minimum_cell)), folder),
        identity=identity,
        tasks=study_tasks(study),
        learn=partial(follow_study, study),
        silo=silo,
        tables=tables,
        policy=policy,
        report=report,
    )


def follow_study(study: Study, federation: Federation) -> None:
    """Run a study's learner and its checks as the server does, for what they ask and not for what they find."""
    learner = learn(study, federation, lambda status: None)
    assess(study, learner, federation, lambda message: None)


class StudyTable:
    """A site's table in the study's units, and the learner's site on it."""

    def __init__(self, study: Study, silo: Silo, learner: FederatedLearner | None = None) -> None:
        """Stand ready; `learner` is the study's, for those who have built it already."""
        self.name = silo.name
        self._learner = learner or federated_learner(study)
        self._position = [site.name for site in study.sites].index(silo.name)
        self._checks = set(assessment_tasks(study.kinds)) if study.trust.assess else set()
        self._silo = silo
        self._scale: ColumnScale | None = None
        self._site: Site | None = None
        self._trust: TrustSite | None = None
        if study.preparation.scale != "federated":
            self._take_up(silo)

    def answer(self, task: Task) -> Answer:
        """Answer a task of the method, of common units, or of the checks of the graph."""
        if task.name == SET_SCALE.name:
            self._begin(ColumnScale(**task.arrays))
            return Answer(1.0, {"done": np.array(1.0)})
        if task.name.startswith("scale."):
            return scale_site(self._silo).answer(task)
        if self._site is None:
            raise FeddagError(f"Site {self.name!r} does not know the common scale yet. Begin the study anew.")
        return (self._trust if self._trust and task.name in self._checks else self._site).answer(task)

    def _begin(self, moments: ColumnScale) -> None:
        self._scale = moments
        self._take_up(scaled(self._silo, moments, "federated"))

    def _take_up(self, silo: Silo) -> None:
        self._site = self._learner.site(silo, self._position)
        self._trust = TrustSite(silo) if self._checks else None

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the common units, if they are known, and the state of the learner's site."""
        scale = {} if self._scale is None else prefixed("scale", self._scale._asdict())
        return scale if self._site is None else scale | prefixed("site", self._site.snapshot())

    def restore(self, state: Arrays) -> None:
        """Take up what `snapshot` gave."""
        scale = under("scale", state)
        if scale and self._scale is None:
            self._begin(ColumnScale(**scale))
        if self._site is not None:
            self._site.restore(under("site", state))


def _with_noise(study: Study, site: Site, folder: Path) -> Site:
    """Add noise to all answers of a site where the study asks for differential privacy."""
    terms, budget = study.privacy.differential, privacy_budget(study)
    if terms is None or budget is None:
        return site
    return PrivateSite(
        site,
        Accountant(budget, folder / "privacy.json"),
        clip=terms.clip,
        noise_multiplier=noise_multiplier_for(budget, terms.rounds),
        sites=study.federation.quorum,
    )
