"""A site's end of a study, whatever carries the calls: its table, its policy, and what answers the tasks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from feddag.deployment.cells import check_cells, check_experiments, experiments_together
from feddag.deployment.server import check_graph, learn
from feddag.deployment.study_tasks import (
    SET_SCALE,
    federated_learner,
    joint_checks,
    known_tasks,
    look_tasks,
    study_tasks,
    trust_tasks,
)
from feddag.deployment.terms import privacy_budget, study_terms
from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.differential_privacy import Accountant, PrivateSite, noise_multiplier_for
from feddag.federation.identities import SiteIdentity
from feddag.federation.last_answer import read_last_answer
from feddag.federation.policy import Policy
from feddag.federation.protocol import Answer, Arrays, Federation, Site, Task
from feddag.federation.side_by_side import JointSite
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.federation.tables import TableMemory
from feddag.files import atomic_write
from feddag.learners.federated import FederatedLearner
from feddag.regression.moments import scale_site
from feddag.silos import Silo
from feddag.silos.scaling import ColumnScale, scaled
from feddag.study import Study
from feddag.trust.sites import MechanismFit, TrustSite
from feddag.trust.tables import TableSite
from feddag.trust.tasks import MECHANISMS

OWN_MECHANISMS = "mechanisms.csv"
"""The site's own file about its mechanisms, in what it remembers of the study."""
_SECRET = "draws.key"


def tables_folder() -> Path:
    """Return where this user's sites remember their tables: `FEDDAG_STATE`, or the system's place for such files."""
    state = os.environ.get("FEDDAG_STATE") or os.environ.get("XDG_STATE_HOME", "~/.local/state") + "/feddag"
    return Path(state).expanduser() / "tables"


def released_before(silo: Silo, policy: Policy) -> int:
    """Return how many numbers have left a table in all studies so far; refuse one that was a little different then."""
    return TableMemory(tables_folder(), silo, limit=None, minimum_cell=policy.minimum_cell).numbers


def check_site(study: Study, silo: Silo, policy: Policy) -> None:
    """Refuse to take part where the study cannot run, or the site's policy does not allow it."""
    policy.check_sharing(federated_learner(study).shares)
    if policy.tasks != Policy.tasks:  # to know every task is to import every method, and some are large
        policy.check_names(known_tasks())
    policy.check_tasks({**federated_learner(study).tasks(study.columns, len(study.sites)), **look_tasks(study)})
    policy.check_study(rows=silo.rows, sites=len(study.sites), protected=study.privacy.secure_sum)
    fewest = max(policy.minimum_sites, study.federation.minimum_sites)
    if study.privacy.secure_sum and fewest > 1 and study.federation.quorum <= len(study.sites) // 2:
        raise FeddagError(
            f"Site {silo.name!r}: the study's quorum is {study.federation.quorum} of {len(study.sites)} sites, so that "
            "a server could have two groups go on without each other, and compare their sums. Agree on a quorum "
            f"of {len(study.sites) // 2 + 1}, or set minimum_sites = 1 in the study's [federation] and in all policies."
        )
    _check_groups(study, silo, policy)
    for task in study_tasks(study).values():
        if study.privacy.secure_sum and fewest > 1 and task.participants not in (None, len(study.sites)):
            raise FeddagError(
                f"Site {silo.name!r}: each round of {task.name} is to hold another {task.participants} of "
                f"{len(study.sites)} sites, and such sums, held against each other, tell about fewer than {fewest}. "
                "Let all sites take part, or set minimum_sites = 1 in the study's [federation] and in all policies."
            )
    row_privacy = study_terms(study).row_privacy
    if row_privacy is not None:
        policy.check_row_privacy(row_privacy)
    check_experiments(study, fewest)
    check_cells(study, silo, policy)


def changed_table(study: Study, silo: Silo, memory: Path) -> list[str]:
    """Warn of another table than that with which a study has begun; other studies may be about it."""
    try:
        read_last_answer(memory, silo, study.digest)
    except FeddagError as error:
        return [f"{error}. This site refuses what the study {study.name!r} asks, and takes part in others alone."]
    return []


def _check_groups(study: Study, silo: Silo, policy: Policy) -> None:
    """Refuse a study that may sum over groups of fewer sites than the policy allows."""
    group = federated_learner(study).fewest_in_group
    if not study.privacy.secure_sum or group is None:
        return
    fewest = max(group, study.federation.minimum_sites)
    if policy.minimum_sites > fewest:
        raise FeddagError(
            f"Site {silo.name!r}: the study may sum over groups of {fewest} sites, and the fewest that the policy "
            f"allows are {policy.minimum_sites}. Agree on groups = 1, or on minimum_sites = {policy.minimum_sites} in "
            "the study's [federation]."
        )


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
    keep = partial(_keep_mechanisms, study, folder, report)
    together = experiments_together(study, max(policy.minimum_sites, study.federation.minimum_sites))
    silo_of_tasks = replace(silo, minimum_cell=policy.minimum_cell, experiments_together=together)
    table = StudyTable(study, silo_of_tasks, keep=keep, tell=report, secret=draws_secret(folder))
    return SiteEndpoint(
        folder,
        study_terms(study),
        _with_noise(study, table, folder),
        identity=identity,
        tasks=study_tasks(study),
        learn=partial(follow_study, study),
        silo=silo,
        tables=tables,
        policy=policy,
        report=report,
    )


def draws_secret(folder: Path) -> bytes:
    """Return what decides which rows a site draws in a study: made at the site, and kept there over restarts."""
    path = folder / _SECRET
    if not path.exists():
        with atomic_write(path, "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(secrets.token_bytes(32))
    return path.read_bytes()


def _keep_mechanisms(
    study: Study, folder: Path, report: Callable[[str], None], mechanisms: Sequence[MechanismFit]
) -> None:
    """Write what a site has found out about its own mechanisms, and tell its operator; nothing of it leaves."""
    rows = [
        {"effect": name, **fit._asdict(), "differs": fit.differs}
        for name, fit in zip(study.columns, mechanisms, strict=True)
    ]
    path = folder / OWN_MECHANISMS
    with atomic_write(path) as stream:
        pd.DataFrame(rows).to_csv(stream, index=False, lineterminator="\n")
    differing = [row["effect"] for row in rows if row["differs"]]
    words = f"differ here for {', '.join(differing)}" if differing else "are those of the others"
    report(f"mechanisms {words}; see {path}, which stays here")


def follow_study(study: Study, federation: Federation) -> None:
    """Run a study's learner and its checks as the server does, for what they ask and not for what they find."""
    check_graph(study, learn(study, federation, lambda status: None), federation)


class StudyTable:
    """A site's table in the study's units, and the learner's site on it."""

    def __init__(
        self,
        study: Study,
        silo: Silo,
        learner: FederatedLearner | None = None,
        keep: Callable[[list[MechanismFit]], None] = lambda mechanisms: None,
        tell: Callable[[str], None] = lambda message: None,
        secret: bytes = b"",
    ) -> None:
        """Stand ready.

        Args:
            study: The study.
            silo: The site's table.
            learner: The study's, for those who have built it already.
            keep: Takes what the site finds out about its own mechanisms, for the site alone.
            tell: Takes what the site finds out about its own table, for its operator alone.
            secret: Decides which rows replicates draw; without one, a seed that all know does.
        """
        self.name = silo.name
        self._learner = learner or federated_learner(study)
        self._position = [site.name for site in study.sites].index(silo.name)
        self._checks = set(trust_tasks(study))
        self._keep = keep
        self._secret = secret
        self._silo = silo
        self._tables = TableSite(silo, len(study.sites), study.digest, tell) if study.trust.tables else None
        self._scale: ColumnScale | None = None
        self._site: Site | None = None
        self._trust: TrustSite | None = None
        self._joint_checks = joint_checks(study, self._learner)
        self._joint: dict[str, JointSite] = {}
        """By the name of the task."""
        if study.preparation.scale != "federated":
            self._take_up(silo)

    def answer(self, task: Task) -> Answer:
        """Answer a task of the method, of common units, or of the checks of the graph."""
        if self._tables is not None and task.name.startswith("tables."):
            return self._tables.answer(task)
        if task.name == SET_SCALE.name:
            self._begin(ColumnScale(**task.arrays))
            return Answer(1.0, {"done": np.array(1.0)})
        if task.name.startswith("scale."):
            return scale_site(self._silo).answer(task)
        if self._site is None:
            raise FeddagError(f"Site {self.name!r} does not know the common scale yet. Begin the study anew.")
        if task.name in self._joint:
            return self._joint[task.name].answer(task)
        if self._trust is None or task.name not in self._checks:
            return self._site.answer(task)
        answer = self._trust.answer(task)
        if self._trust.mechanisms is not None and task.name == MECHANISMS.name:
            self._keep(self._trust.mechanisms)
        return answer

    def _begin(self, moments: ColumnScale) -> None:
        self._scale = moments
        self._take_up(scaled(self._silo, moments, "federated"))

    def _take_up(self, silo: Silo) -> None:
        self._site = self._learner.site(silo, self._position)
        self._trust = TrustSite(silo) if self._checks else None
        for check in self._joint_checks:
            self._joint |= dict.fromkeys(check.tasks(), check.site(silo, self._position, self._secret))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the common units, if they are known, and the state of the learner's sites."""
        state = {} if self._scale is None else prefixed("scale", self._scale._asdict())
        for name, site in self._sites():
            state |= prefixed(name, site.snapshot())
        return state

    def _sites(self) -> list[tuple[str, Site]]:
        return [*([("site", self._site)] if self._site is not None else []), *self._joint.items()]

    def restore(self, state: Arrays) -> None:
        """Take up what `snapshot` gave."""
        scale = under("scale", state)
        if scale and self._scale is None:
            self._begin(ColumnScale(**scale))
        for name, site in self._sites():
            site.restore(under(name, state))


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
