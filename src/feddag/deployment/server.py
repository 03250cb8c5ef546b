"""The server's end of a study, whatever carries the calls: it reaches the sites, learns, and checks the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddag.deployment.study_tasks import SET_SCALE, federated_learner
from feddag.deployment.terms import privacy_budget, study_terms
from feddag.errors import FeddagError
from feddag.federation.differential_privacy import Accountant, noise_multiplier_for
from feddag.federation.identities import Trust
from feddag.federation.journal import Journal
from feddag.federation.protocol import Federation
from feddag.federation.server_endpoint import Call, ServerEndpoint
from feddag.learners.federated import FederatedLearner
from feddag.learners.status import Progress
from feddag.regression.moments import common_scale
from feddag.study import Study
from feddag.trust.assessment import Assessment, assess_federation
from feddag.trust.sortability import is_unit_free


@dataclass(frozen=True)
class StudyResult:
    """What a study has brought."""

    learner: FederatedLearner
    assessment: Assessment | None
    """The checks of the graph; `None` if the study has none, or they could not be made."""
    record: dict[str, Any]
    """Rounds, the sum of rows if it is known, sites that were lost, what is from the journal or was not done, and the
    privacy that was spent."""

    @property
    def message(self) -> str:
        """One line for people."""
        graph = self.learner.graph_
        open_ = graph.edge_count - len(graph.edges) - len(graph.bidirected_edges)
        opened = f", {open_} of open direction," if open_ else ""
        return f"{graph.edge_count} edges{opened} after {self.record['federation']['rounds']} rounds"


def build_server(
    study: Study, calls: Mapping[str, Call], folder: Path, trust: Trust, report: Callable[[str], None]
) -> ServerEndpoint:
    """Build the server's end of a study.

    Args:
        study: The study that the server has agreed to.
        calls: A call for each site that can be reached.
        folder: What the server remembers of the study.
        trust: Whose identities the server believes: those that its kit's root certifies.
        report: Takes messages for the server's operator.
    """
    return ServerEndpoint(study_terms(study), calls, Journal(folder / "journal"), trust, report)


def run_study(study: Study, server: ServerEndpoint, progress: Progress, report: Callable[[str], None]) -> StudyResult:
    """Have the sites join, agree on units, learn, and check the graph. Resume where the journal ends."""
    not_assessed: list[str] = []

    def report_check(message: str) -> None:
        not_assessed.append(message)
        report(message)

    try:
        server.open()
        learner = learn(study, server, progress)
        assessment = assess(study, learner, server, report_check)
    finally:
        server.close()
    if server.from_journal:
        report(journal_note(server.from_journal, server.rounds))
    record: dict[str, Any] = {
        "federation": {
            "rounds": server.rounds,
            "rows": None if study.privacy.differential else server.rows,  # noise would make it look exact, and wrong
            "absent": server.absent,
            "refused": server.refused,
            "from_journal": server.from_journal,
            "seconds": server.seconds,
            "sums": {site: server.sums_of[site] for site in server.sites},
            "not_assessed": " ".join(not_assessed) or None,
        }
    }
    spent = spent_privacy(study, server.rounds)
    return StudyResult(learner, assessment, record if spent is None else record | {"privacy": spent})


def journal_note(from_journal: int, rounds: int) -> str:
    """Say how much of a result was there before its last job began."""
    if from_journal == rounds:
        return (
            f"All {rounds} rounds come from the server's journal: no site was asked anything anew, so that the result "
            "is of the tables as they were then."
        )
    return f"{from_journal} of {rounds} rounds come from the server's journal: no site was asked for them again."


def learn(study: Study, federation: Federation, progress: Progress) -> FederatedLearner:
    """Agree on common units if the study says so, then learn."""
    learner = federated_learner(study)
    if study.preparation.scale == "federated":
        moments = common_scale(federation)
        SET_SCALE.ask(federation, 0, moments._asdict())
    return learner.fit_federation(federation, study.columns, progress=progress)


def assess(
    study: Study, learner: FederatedLearner, federation: Federation, report: Callable[[str], None]
) -> Assessment | None:
    """Check the learned graph on rows that the sites set aside, if the study says so.

    This takes every site: one that is out of reach by now, or whose policy refuses, costs the checks and not the graph.
    """
    if not study.trust.assess:
        return None
    unit_free = is_unit_free(learner) or study.preparation.scale != "none"
    try:
        return assess_federation(learner, federation, study.kinds, unit_free=unit_free)
    except FeddagError as error:
        report(f"The graph is not assessed: {error}")
        return None


def spent_privacy(study: Study, answers: int) -> dict[str, float] | None:
    """Return what so many answers of a site cost of the study's budget; `None` where it has none."""
    terms, budget = study.privacy.differential, privacy_budget(study)
    if terms is None or budget is None:
        return None
    accountant = Accountant(budget)
    accountant.noise_multipliers = [noise_multiplier_for(budget, terms.rounds)] * answers
    return {"epsilon": accountant.spent, "of": terms.epsilon, "delta": terms.delta}
