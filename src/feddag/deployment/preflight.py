"""What can be known of a study over a network before anybody joins: whether it can run, and on which terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from feddag.deployment.cells import check_experiments
from feddag.deployment.server import learn
from feddag.deployment.site import StudyTable
from feddag.deployment.study_tasks import federated_learner, study_tasks
from feddag.deployment.terms import privacy_budget
from feddag.errors import FeddagError
from feddag.federation.differential_privacy import add_noise, noise_multiplier_for
from feddag.federation.protocol import Arrays, Ledger, Task, weighted_mean
from feddag.silos import Silo
from feddag.study import Study

_MADE_UP_ROWS = 40
_TRIED_ROUNDS = 3


def check_network(study: Study) -> None:
    """Refuse a study that cannot run over a network, whoever takes part."""
    federated_learner(study)
    if len(study.sites) < 2:
        raise FeddagError(f"{study.source}: a federation has at least 2 sites. Name them, as [sites.NAME].")
    check_experiments(study, study.federation.minimum_sites)
    if study.privacy.differential is not None:
        _check_noise(study)


def describe_terms(study: Study) -> list[str]:
    """Say on which terms sites take part: how many must answer, what protects their answers, and what is known."""
    terms, differential, budget = study.federation, study.privacy.differential, privacy_budget(study)
    noise = "none"
    if differential is not None and budget is not None:
        multiplier = noise_multiplier_for(budget, differential.rounds)
        noise = (
            f"{budget} for each site, over at most {differential.rounds} rounds; answers of at most length "
            f"{differential.clip:g}, and noise of standard deviation {multiplier * differential.clip:.3g} in each sum"
        )
    counts = {key: len(value) for key, value in study.knowledge.items()}
    known = ", ".join(f"{count} {'tiers' if key == 'tiers' else key}" for key, count in counts.items())
    return [
        f"{_who_answers(study)}, each within {terms.timeout:g} seconds; sums tell about at least {terms.minimum_sites}",
        "protection: "
        + ("secure sums" if study.privacy.secure_sum else "none, the server sees each site's answers before their sum"),
        f"noise: {noise}",
        f"knowledge of the graph: {known or 'none'}",
    ]


def _who_answers(study: Study) -> str:
    sites, quorum, tasks = len(study.sites), study.federation.quorum, study_tasks(study)
    complete = [name for name, task in tasks.items() if task.every_site]
    if len(complete) == len(tasks):
        return f"sites: all {sites} must answer, since these sums mean nothing without one of them"
    exceptions = f" (all of them: {', '.join(complete)})" if complete and quorum < sites else ""
    return f"quorum: {quorum} of {sites} sites must answer{exceptions}"


def _check_noise(study: Study) -> None:
    """Have made-up tables answer the study's first questions with noise: some methods' answers cannot have any."""
    learner = federated_learner(study)
    try:
        learn(
            study, _Rehearsal([StudyTable(study, _made_up(study, site.name), learner) for site in study.sites]), _quiet
        )
    except _EnoughError:
        return
    except FeddagError as error:
        raise FeddagError(
            f"{study.source}: the method {study.method.name!r} cannot learn with [privacy.differential]. {error}"
        ) from None


def _quiet(status: object) -> None:
    del status


def _made_up(study: Study, site: str) -> Silo:
    draw = np.random.default_rng(len(site))
    kinds = tuple(variable.kind for variable in study.variables)
    columns = [
        np.arange(_MADE_UP_ROWS) % len(kind.levels) if kind.discrete else draw.normal(size=_MADE_UP_ROWS)
        for kind in kinds
    ]
    return Silo(site, study.columns, np.column_stack(columns).astype(float), kinds)


class _EnoughError(Exception):
    """The first rounds went well."""


class _Rehearsal:
    """A federation of made-up tables for a few rounds, in which noise is added to all answers as over a network."""

    def __init__(self, sites: Sequence[StudyTable]) -> None:
        self.sites = tuple(site.name for site in sites)
        self.local_sites = ()
        self.summed = 0
        self.ledger = Ledger()
        self._tables = sites
        self._rounds = 0

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        if self._rounds == _TRIED_ROUNDS:
            raise _EnoughError
        self._rounds += 1
        self.summed = len(task.participants)
        answers = [self._tables[k].answer(task) for k in task.participants]
        for answer in answers:
            add_noise(answer, task.arrays, clip=1.0, noise_multiplier=1.0, sites=1)
        return weighted_mean(answers)

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        del question
        return answer()

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {}, {}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        del document, arrays
