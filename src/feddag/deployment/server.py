"""The server's end of a study, whatever carries the calls: it reaches the sites, learns, and checks the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddag.deployment.study_tasks import SET_SCALE, federated_learner, study_replicates
from feddag.deployment.terms import privacy_budget, study_terms
from feddag.errors import FeddagError
from feddag.federation.calls import Call, UnansweredError
from feddag.federation.differential_privacy import Accountant, noise_multiplier_for
from feddag.federation.identities import Trust
from feddag.federation.journal import Journal
from feddag.federation.protocol import Federation
from feddag.federation.server_endpoint import ServerEndpoint
from feddag.learners.federated import FederatedLearner
from feddag.learners.status import Progress
from feddag.regression.moments import common_scale
from feddag.selection import Candidates
from feddag.study import Study
from feddag.trust.assessment import assess_federation
from feddag.trust.effects import effect_of_sums
from feddag.trust.graph_checks import GraphChecks
from feddag.trust.mechanisms import mechanisms_of_sums
from feddag.trust.sortability import is_unit_free
from feddag.trust.tables import TableFindings, look_at_tables


@dataclass(frozen=True)
class StudyResult:
    """What a study has brought."""

    learner: FederatedLearner
    checks: GraphChecks
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
    tables: dict[str, Any] = {}

    def report_tables(found: TableFindings) -> None:
        tables.update(account=found.account, warnings=list(found.warnings))
        for line in (found.account, *(f"Warning: {warning}" for warning in found.warnings)):
            report(line)

    def report_check(message: str) -> None:
        not_assessed.append(message)
        report(message)

    try:
        server.open()
        learner = learn(study, server, progress, report_tables)
        rounds_of_fit = server.rounds_taken
        checks = check_graph(study, learner, server, report_check, progress)
    finally:
        server.close()
    if server.from_journal:
        report(journal_note(server.from_journal, server.rounds))
    record: dict[str, Any] = {
        "federation": {
            "rounds": server.rounds,
            "rounds_of_fit": rounds_of_fit,
            "rows": None if study.privacy.noisy else server.rows,  # noise would make it look exact, and wrong
            "absent": server.absent,
            "refused": server.refused,
            "from_journal": server.from_journal,
            "seconds": server.seconds,
            "sums": {site: server.sums_of[site] for site in server.sites},
            "not_assessed": " ".join(not_assessed) or None,
            "tables": tables,
        }
    }
    spent = spent_privacy(study, server.rounds)
    return StudyResult(learner, checks, record if spent is None else record | {"privacy": spent})


def journal_note(from_journal: int, rounds: int) -> str:
    """Say how much of a result was there before its last job began."""
    if from_journal == rounds:
        return (
            f"All {rounds} rounds come from the server's journal: no site was asked anything anew, so that the result "
            "is of the tables as they were then."
        )
    return f"{from_journal} of {rounds} rounds come from the server's journal: no site was asked for them again."


def learn(
    study: Study,
    federation: Federation,
    progress: Progress,
    report_tables: Callable[[TableFindings], None] = lambda found: None,
) -> FederatedLearner:
    """Look at the tables and agree on common units if the study says so, then learn."""
    learner = federated_learner(study)
    if study.trust.tables:
        report_tables(look_at_tables(federation, study.kinds, study.federation.minimum_sites))
    if study.preparation.scale == "federated":
        moments = common_scale(federation)
        SET_SCALE.ask(federation, 0, moments._asdict())
    return learner.fit_federation(federation, study.columns, progress=progress)


def check_graph(
    study: Study,
    learner: FederatedLearner,
    federation: Federation,
    report: Callable[[str], None] = lambda message: None,
    progress: Progress = lambda status: None,
) -> GraphChecks:
    """Do all that the study wants to know about the learned graph, one after the other.

    A site that is out of reach, or whose policy refuses, costs what it is asked for and all that would follow, since
    sites answer in the order of the study; it does not cost the graph.
    """
    wanted: dict[str, Callable[[], Any]] = {}
    if study.trust.assess:
        unit_free = is_unit_free(learner) or study.preparation.scale != "none"
        wanted["assessment"] = lambda: assess_federation(learner, federation, study.kinds, unit_free=unit_free)
    if replicates := study_replicates(study, learner):
        rows = study.federation.maximum_rows
        wanted["stability"] = lambda: replicates.learn(federation, maximum_weight=rows, progress=progress)
    fewest = study.federation.minimum_sites
    if study.trust.mechanisms:
        wanted["mechanisms"] = lambda: mechanisms_of_sums(learner.guessed_graph, federation, study.columns, fewest)
    if study.trust.effects:
        wanted["effects"] = lambda: tuple(
            effect_of_sums(learner, federation, study.kinds, *pair, minimum_sites=fewest)
            for pair in study.trust.effects
        )
    if candidates := Candidates.of(study):
        rows = study.federation.maximum_rows
        wanted["tuning"] = lambda: candidates.learn(federation, maximum_weight=rows)
    found: dict[str, Any] = {}
    for what, check in wanted.items():
        try:
            found[what] = check()
        except UnansweredError as error:
            left = [each for each in wanted if each not in found]
            report(f"{_MISSING[what]}: {error}" + _also_missing(left[1:]))
            break
        except FeddagError as error:  # every site that follows the study has met the same
            report(f"{_MISSING[what]}: {error}")
    return GraphChecks(**found)


_MISSING = {
    "assessment": "The graph is not assessed",
    "stability": "The graph's stability is not known",
    "mechanisms": "The sites' mechanisms are not compared",
    "effects": "The effects are not estimated",
    "tuning": "The parameters are not compared",
}


def _also_missing(checks: Sequence[str]) -> str:
    return f" So there is no {', and no '.join(checks)}." if checks else ""


def spent_privacy(study: Study, answers: int) -> dict[str, Any] | None:
    """Return what so many answers of a site cost of the study's budget; `None` where it has none."""
    terms, budget, rows = study.privacy.differential, privacy_budget(study), study.privacy.rows
    if rows is not None:
        return {"of_each": "person", "epsilon": rows.epsilon, "of": rows.epsilon, "delta": rows.delta}
    if terms is None or budget is None:
        return None
    accountant = Accountant(budget)
    accountant.noise_multipliers = [noise_multiplier_for(budget, terms.rounds)] * answers
    return {"of_each": "site", "epsilon": accountant.spent, "of": terms.epsilon, "delta": terms.delta}
