"""A study's two sides on a network, whatever carries them: what the server runs, and what a site answers with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.differential_privacy import Accountant, PrivacyBudget, PrivateSite, noise_multiplier_for
from feddag.federation.protocol import Answer, Arrays, Federation, Site, Task
from feddag.federation.secure import Agreement, SecureServer
from feddag.federation.tasks import LARGEST_VALUE, SMALLEST_SPREAD, Bounds, Output, TaskSpec, by_name
from feddag.learners.federated import FederatedLearner
from feddag.learners.regimes import InRegime
from feddag.learners.registry import METHODS
from feddag.learners.status import Progress
from feddag.regression.moments import SCALE, common_scale, scale_site
from feddag.silos import Silo
from feddag.silos.scaling import ColumnScale, scaled
from feddag.study import Study
from feddag.trust.assessment import ASSESSMENT_TASKS, Assessment, assess_federation, assessment_tasks
from feddag.trust.sites import TrustSite
from feddag.trust.sortability import is_unit_free

SET_SCALE = TaskSpec("scale.set", "That the common units were taken over", {"done": Output("the number 1")})


def federated_learner(study: Study) -> FederatedLearner:
    """The study's learner, if it learns from sites that only send sums."""
    learner = study.learner()
    if not isinstance(learner, FederatedLearner):
        raise FeddagError(
            f"{study.source}: the method {study.method.name!r} does not learn from several sites. Choose another, or "
            'let the sites vote: regime = "voting".'
        )
    learner.check_federation(len(study.sites), study.columns)
    return learner


def study_tasks(study: Study) -> dict[str, TaskSpec]:
    """Return all tasks of the study, with bounds on what each brings."""
    tasks = dict(federated_learner(study).tasks(study.columns, len(study.sites)))
    if study.preparation.scale == "federated":
        continuous = sum(not variable.kind.discrete for variable in study.variables)
        deviation = Bounds(SMALLEST_SPREAD, LARGEST_VALUE, shape=(continuous,))
        tasks |= SCALE.bounded(continuous)
        moments = {**tasks[SCALE.second.name].arrays, "deviation": deviation}
        tasks |= by_name((SET_SCALE.with_bounds(arrays=moments),))
    return tasks | (assessment_tasks(study.columns) if study.trust.assess else {})


def known_tasks() -> dict[str, TaskSpec]:
    """Return every task that a study on this installation may ask, those of other packages' methods among them."""
    learners = [method.learner() for method in METHODS.values()]
    of_methods = [spec for learner in learners if issubclass(learner, FederatedLearner) for spec in learner.task_specs]
    scaling = (*SCALE.specs, SET_SCALE)
    return by_name((*of_methods, *InRegime.task_specs, *scaling, *ASSESSMENT_TASKS))


def learn(study: Study, federation: Federation, progress: Progress) -> FederatedLearner:
    """The server's side: agree on units if the study says so, then learn."""
    learner = federated_learner(study)
    if study.preparation.scale == "federated":
        moments = common_scale(federation)
        SET_SCALE.ask(federation, 0, moments._asdict())
    return learner.fit_federation(federation, study.columns, progress=progress)


def assess(
    study: Study, learner: FederatedLearner, federation: Federation, tell: Callable[[str], None]
) -> Assessment | None:
    """Hold the learned graph against rows that the sites set aside, if the study says so.

    It takes every site: one that is out of reach by now, or whose policy refuses, costs the checks and not the graph.
    """
    if not study.trust.assess:
        return None
    unit_free = is_unit_free(learner) or study.preparation.scale != "none"
    try:
        return assess_federation(learner, federation, study.columns, unit_free=unit_free)
    except FeddagError as error:
        tell(f"The graph is not assessed: {error}")
        return None


class StudyTable:
    """A site's side: its table, in the study's units, and the learner's side of the study on it."""

    def __init__(self, study: Study, silo: Silo) -> None:
        self.name = silo.name
        self._learner = federated_learner(study)
        self._position = [site.name for site in study.sites].index(silo.name)
        self._checks = set(assessment_tasks(study.columns)) if study.trust.assess else set()
        self._silo = silo
        self._scale: ColumnScale | None = None
        self._site: Site | None = None
        self._trust: TrustSite | None = None
        if study.preparation.scale != "federated":
            self._take_up(silo)

    def answer(self, task: Task) -> Answer:
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
        scale = {} if self._scale is None else prefixed("scale", self._scale._asdict())
        return scale if self._site is None else scale | prefixed("site", self._site.snapshot())

    def restore(self, state: Arrays) -> None:
        scale = under("scale", state)
        if scale and self._scale is None:
            self._begin(ColumnScale(**scale))
        if self._site is not None:
            self._site.restore(under("site", state))


def with_noise(study: Study, site: Site, memory: Path) -> Site:
    """The site, with noise in all its answers where the study asks for differential privacy."""
    terms = study.privacy.differential
    if terms is None:
        return site
    budget = PrivacyBudget(terms.epsilon, terms.delta)
    return PrivateSite(
        site,
        Accountant(budget, memory / "privacy.json"),
        clip=terms.clip,
        noise_multiplier=noise_multiplier_for(budget, terms.rounds),
        sites=study.federation.quorum,
    )


def noise_in_words(study: Study) -> str:
    """As an audit log has it; nothing where the study has no noise."""
    terms = study.privacy.differential
    return "" if terms is None else f"dp({PrivacyBudget(terms.epsilon, terms.delta)})"


def spent_privacy(study: Study, answers: int) -> dict[str, float] | None:
    """What so many answers of a site have cost, of the budget that the study has; None where it has none."""
    terms = study.privacy.differential
    if terms is None:
        return None
    accountant = Accountant(PrivacyBudget(terms.epsilon, terms.delta))
    accountant.noise_multipliers = [noise_multiplier_for(accountant.budget, terms.rounds)] * answers
    return {"epsilon": accountant.spent, "of": terms.epsilon, "delta": terms.delta}


def pinned_identities(study: Study) -> dict[str, bytes]:
    return {site.name: bytes.fromhex(site.identity) for site in study.sites if site.identity}


def secure_server(study: Study) -> SecureServer | None:
    if not study.privacy.secure_sum:
        return None
    names = tuple(site.name for site in study.sites)
    return SecureServer(
        Agreement(bytes.fromhex(study.digest), names, study.federation.quorum, pinned_identities(study))
    )
