"""The ways to compare methods in: any learner on pooled rows, at every site alone, or by a vote of the sites.

| regime       | what it does                                            | what leaves a site       |
|--------------|---------------------------------------------------------|--------------------------|
| `"all"`      | learns from all rows in one table                       | every row: research only |
| `"separate"` | every site learns alone; figures are averaged           | nothing                  |
| `"voting"`   | every site learns alone; the majority decides each edge | its graph, summed        |

Voting is that of Na and Yang, "Distributed Bayesian network structure learning", ISIE 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from jaxtyping import Bool
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation import Answer, Federation, InProcess, Ledger, Site, Task, unknown_task
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import Output, TaskSpec
from feddag.graphs import Adjacency, CausalGraph, ballot, majority, threshold_to_dag, votable
from feddag.learners.base import Learner, disclosed
from feddag.learners.checkpointing import FitContext
from feddag.learners.failed_checks import FailedCheck
from feddag.learners.federated import FederatedLearner
from feddag.silos import CheckedSilos, Silo
from feddag.silos.variable_types import Kind

POOLED = "all sites"
"""The name of the table that holds all rows."""

VOTE = TaskSpec(
    "regimes.vote",
    "The graph that the site has learned alone",
    {
        "directed": Output("for each possible edge whether it is there", ("variable", "variable")),
        "undirected": Output("the same for undirected edges", ("variable", "variable")),
    },
    every_site=False,
)

LEAVES_SITE = {"all": "Every row (research only).", "separate": "Nothing.", "voting": disclosed((VOTE,))}
"""What leaves a site in each regime, whatever the learner."""


class InRegime(FederatedLearner):
    """Learn with another learner, which need not know that there are several sites.

    Args:
        learner: What learns; it is cloned, and stays as it is.
        regime: `"all"`, `"separate"` or `"voting"`. `"all"` moves every row: it is for research.

    Attributes:
        graph_: With `"separate"` from the mean of the sites' scores, by the learner's own threshold if it has one, else
            by vote. With `"voting"` by vote (`feddag.graphs.majority`): an edge stands if more than half of the sites
            have the pair, in the direction of most; an undirected edge counts half for each direction.
        edge_scores_: The learner's own, averaged over sites; with `"voting"` each direction's share of the votes.
        site_graphs_: Unless rows are pooled, the graph of each site. With `"separate"` they are the result.
        learners_: The fitted learner of each site, or the one of all.
        communication_: With `"all"` the rows themselves; with `"voting"` the ballots; with `"separate"` nothing.
    """

    parameter_constraints: ClassVar = {
        "learner": constraints.Constraint("a learner", lambda value: isinstance(value, Learner)),
        "regime": constraints.one_of(("all", "separate", "voting")),
    }

    task_specs: ClassVar = (VOTE,)

    learners_: dict[str, Learner]

    @property
    def shares(self) -> str:
        """Each site's graph."""
        return "graph"

    def __init__(self, learner: Learner, regime: Literal["all", "separate", "voting"]) -> None:
        self.learner = learner
        self.regime = regime

    def leaves_site(self) -> str:
        """Say in plain words what leaves a site in this regime."""
        return LEAVES_SITE[self.regime]

    @property
    def inner(self) -> Learner:
        """The learner that learns in this regime."""
        return self.learner

    def check(self, silos: Any) -> CheckedSilos:
        """Check the tables, and that the inner learner accepts those it will get."""
        silos = super().check(silos)
        for table in self._tables(silos):
            self.learner.check(table)
        return silos

    def check_kinds(self, kinds: Mapping[str, Kind]) -> None:
        """Refuse the kinds of variables that the inner learner refuses."""
        self.learner.check_kinds(kinds)

    @property
    def takes_interventions(self) -> bool:
        """Whether the inner learner does."""
        return self.learner.takes_interventions

    def check_interventions(self, is_target: Bool[np.ndarray, " node"], columns: Sequence[str]) -> None:
        """Refuse the experiments that the inner learner refuses."""
        self.learner.check_interventions(is_target, columns)

    def _fresh(self) -> Learner:
        return cast(Learner, clone(self.learner))

    def _tables(self, silos: CheckedSilos) -> list[CheckedSilos]:
        """Return the tables of each fit: every site's alone, or all rows in one."""
        return [silos.pooled(POOLED)] if self.regime == "all" else [silos.subset([k]) for k in range(len(silos))]

    def fit_silos(self, silos: CheckedSilos, context: FitContext) -> None:
        """Learn from the pooled rows, or at every site alone and then vote or average."""
        if self.regime == "all":
            tables = silos.pooled(POOLED)
            learned = [self._fresh().fit_checked(tables, context)]
            self._keep(tables, learned)
            self.graph_ = learned[0].graph_
            self.communication_ = Ledger({silo.name: silo.values.nbytes for silo in silos}, {})
            return
        learned = self._learn_alone(silos, context)
        voters = [_Voter(silo.name, lambda graph=each.graph_: graph) for silo, each in zip(silos, learned, strict=True)]
        with InProcess(voters, 1) as federation:
            graph, ledger = _vote(federation, silos[0].columns), federation.ledger
        self._keep(silos, learned)
        if self.regime == "separate":
            scores, threshold = np.mean([each.edge_scores_ for each in learned], axis=0), self.learner.edge_threshold()
            kept = self.learner.knowledge_of(graph.names).certain
            adjacency = graph.adjacency if threshold is None else threshold_to_dag(scores, threshold, kept)
            graph, ledger = CausalGraph(adjacency, graph.names, scores), Ledger()
        self.graph_, self.communication_ = graph, ledger

    def check_federation(self, sites: int, columns: Sequence[str]) -> None:
        """Check the regime's parameters and the inner learner's."""
        super().check_federation(sites, columns)
        self.learner.check_parameters()
        self.learner.knowledge_of(columns)

    def site(self, silo: Silo, position: int) -> Site:
        """Return a site that learns alone and answers with its graph."""
        del position
        table = self.learner.check([silo])
        return _Voter(silo.name, lambda: self._fresh().fit(table).graph_)

    def learn(self, federation: Federation, columns: tuple[str, ...], context: FitContext) -> None:
        """Count the sites' votes; refuse every regime but voting."""
        if self.regime != "voting":
            raise FeddagError(
                f"The regime {self.regime!r} has no federation. Choose 'voting', or learn where the data are."
            )
        self.graph_, self.communication_ = _vote(federation, columns), federation.ledger
        self.learners_ = {}
        self._set_from_learners()

    def _learn_alone(self, silos: CheckedSilos, context: FitContext) -> list[Learner]:
        def learn(k: int) -> Learner:
            return self._fresh().fit_checked(silos.subset([k]), context.part(k + 1, silos[k].name))

        if "workers" not in self.learner.get_params():  # then threads gain it nothing
            return list(map(learn, range(len(silos))))
        with ThreadPoolExecutor(self.learner.worker_count()) as pool:
            return list(pool.map(learn, range(len(silos))))

    def _keep(self, tables: Sequence[Silo], learned: Sequence[Learner]) -> None:
        self.learners_ = {table.name: learner for table, learner in zip(tables, learned, strict=True)}
        self._set_from_learners()

    def _set_from_learners(self) -> None:
        histories = {
            # a learner whose one site learned alone has a dict of one
            name: each.history_[name] if each.learned_alone else each.history_
            for name, each in self.learners_.items()
        }
        if self.regime == "all":
            self.history_ = histories[POOLED]
        else:
            self.history_ = histories
            self.site_graphs_ = {site: each.graph_ for site, each in self.learners_.items()}

    @property
    def results(self) -> tuple[tuple[CausalGraph, CausalGraph], ...]:
        """The graphs of the vote or of the pooled rows; with `"separate"`, those of each site."""
        check_is_fitted(self)
        if self.regime == "voting":
            return ((self.graph_, self.guessed_graph),)
        return tuple((each.graph_, each.guessed_graph) for each in self.learners_.values())

    @property
    def failed_checks(self) -> tuple[FailedCheck, ...]:
        """What speaks against the assumptions in all rows together; nothing where sites learned alone."""
        check_is_fitted(self)
        return self.learners_[POOLED].failed_checks if self.regime == "all" else ()

    @property
    def guessed_graph(self) -> CausalGraph:
        """The inner learner's guess where rows are pooled; otherwise the graph itself."""
        check_is_fitted(self)
        return self.learners_[POOLED].guessed_graph if self.regime == "all" else self.graph_

    @property
    def drawn_graph(self) -> CausalGraph:
        """The inner learner's drawing where rows are pooled; otherwise the graph itself."""
        check_is_fitted(self)
        return self.learners_[POOLED].drawn_graph if self.regime == "all" else self.graph_

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that was learned, with every fitted inner learner."""
        document, arrays = super().snapshot()
        document["learners"] = {}
        for k, (name, learner) in enumerate(self.learners_.items()):
            document["learners"][name], its = learner.snapshot()
            arrays |= prefixed(f"learners/{k}", its)
        return document, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> Self:
        """Become the fitted estimator, with every fitted inner learner."""
        super().restore(document, arrays)
        self.learners_ = {
            name: self._fresh().restore(its, under(f"learners/{k}", arrays))
            for k, (name, its) in enumerate(document["learners"].items())
        }
        self._set_from_learners()
        return self


def _vote(federation: Federation, columns: Sequence[str]) -> CausalGraph:
    mean = VOTE.ask(federation, 1)
    voters = federation.summed
    # whole numbers again, so that no rounding decides a tie
    counts = {name: np.rint(shares * voters) for name, shares in mean.items()}
    return majority(counts["directed"], counts["undirected"], voters, columns)


@dataclass
class _Voter:
    """A site's side of the vote."""

    name: str
    learn: Callable[[], CausalGraph]
    adjacency: Adjacency | None = None

    def answer(self, task: Task) -> Answer:
        if task.name != VOTE.name:
            raise unknown_task(self.name, task, (VOTE.name,))
        if self.adjacency is None:
            self.adjacency = votable(self.learn()).adjacency
        directed, undirected = ballot(self.adjacency)
        return Answer(1.0, {"directed": directed, "undirected": undirected})

    def snapshot(self) -> dict[str, np.ndarray]:
        return {} if self.adjacency is None else {"adjacency": self.adjacency}

    def restore(self, state: Arrays) -> None:
        self.adjacency = state.get("adjacency")
