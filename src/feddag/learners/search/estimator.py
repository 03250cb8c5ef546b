"""Search for the graph of greatest evidence: unit-free, with mechanisms of each site's own or common to all.

The graph's score is the sum over variables and sites of how badly the variable's parents predict it, as log-evidence
of a flexible regression (`evidence`). A search over orders of the variables with coarse scores (`order_search`; Andrews
et al., "Fast scalable and accurate discovery of DAGs using the best order score search and grow-shrink trees", NeurIPS
2023) is followed by hill climbing with joint ones (`refinement`), and each edge is weighed in the end (`directions`).

Assumes: one DAG behind all sites, no hidden common causes (`confounding` says which edges one may explain, and
`latent="allow"` drops this assumption), and noise that is added to a smooth function of the causes:
of any shape, of a size that may depend on the causes, and bent with the sum by a monotone function or not. Directions
are found where mechanisms are nonlinear or noise is not normal or, with `noise="equal"`, where all variables have noise
of the same variance; otherwise those that conditional independences tell. Discrete variables are judged by complete
tables and, with continuous causes, by logistic regressions (`mixed`), with `noise="free"` only. Common mechanisms of
theirs would take counts of combinations of levels over all sites, and many of these are of few rows: so where a
variable is discrete, every choice of `sharing` scores as `"graph"` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int8
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation import Federation, Site
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import TaskSpec
from feddag.graphs import CausalGraph
from feddag.learners import knowledge
from feddag.learners.base import SEED, WORKERS, edge_table
from feddag.learners.checkpointing import FitContext
from feddag.learners.failed_checks import FailedCheck
from feddag.learners.federated import FederatedLearner
from feddag.learners.knowledge import Edges
from feddag.learners.search.checks import CHECK_COLUMNS, failed_checks
from feddag.learners.search.coordinator import Found, SearchCoordinator, Searches, SearchHistory, SearchRound
from feddag.learners.search.directions import LIKELY, POSSIBLE, EdgeEvidence
from feddag.learners.search.groups import (
    FEWEST,
    GROUP_TASKS,
    GroupFederation,
    GroupGraph,
    SiteInGroups,
    confirmed,
    describe_groups,
    group_tasks,
    words_of,
)
from feddag.learners.search.interventions import SiteWithExperiments
from feddag.learners.search.mixed import MOST_LEVELS, MixedMechanisms
from feddag.learners.search.refinement import edge_scores, joint_score
from feddag.learners.search.sites import DifferingMechanisms, OwnMechanisms
from feddag.learners.search.tasks import TASKS, Sharing, search_tasks
from feddag.learners.status import Status
from feddag.regression.views import MOST_ROWS, evenly_spaced
from feddag.silos import Silo
from feddag.silos.variable_types import KINDS, Kind


@dataclass(frozen=True)
class _Outcome:
    """What one search brings."""

    best: Found
    found: list[Found]
    sure: Int8[np.ndarray, "node node"]
    """The edges that are surely there."""
    dag: CausalGraph
    graph: CausalGraph
    edge_evidence: pd.DataFrame
    checks: pd.DataFrame


@dataclass(eq=False, repr=False)
class EvidenceSearch(FederatedLearner):
    """Learn one causal graph from the tables of many sites by search, whatever the units of their columns.

    Args:
        sharing: What sites have in common. `"auto"`: the data decide for each variable, and a site may differ from
            the others; sites that differ in few mechanisms tell directions. `"graph"`: each site has its own
            mechanisms. `"all"`: all sites have the same; a check warns if some differ. What leaves a site is one number
            per family inside a sum; but for `"graph"`, also covariances of its columns and what follows from these.
            With discrete variables and with `noise="equal"` all are the same as `"graph"`.
        noise: `"free"`: every variable at every site has its own noise variance, and units do not matter;
            `"equal"`: all variables of a site have the same, in the units given.
        restarts: Further searches, each from the best order so far with a fourth of it shuffled; the best graph wins.
        time_budget: No further search is begun after so many seconds; the first one is always finished.
        start: The order of the variables, causes first, that the first search begins with; by default those that the
            others explain least come first.
        required, forbidden: Edges, as (cause, effect) pairs of names, that must be or cannot be in the graph.
        tiers: Lists of names; nothing in a later one is a parent of anything in an earlier one. A variable in none of
            them may stand between.
        exogenous: Names of variables that nothing in the graph causes.
        confidence: A direction is reported if it is better than the other with at least this confidence, by the
            evidence and by its standard error; the edge is undirected otherwise. `edge_evidence_` says by the same rule
            which edges are surely there.
        keep_doubtful: Whether `graph_` also has the edges that are not surely there.
        groups: With 2, the sites may fall into two groups of three or more with different graphs: if the rows of sites
            by themselves say so, each group gets a search of its own (`group_graphs_`).
        latent: Hidden common causes. `"mark"`: the graph assumes none, and `edge_evidence_` says for each edge whether
            one is ruled out, possible or likely. `"allow"`: besides, `graph_` is a partial ancestral graph (PAG), in
            which an edge says only what holds whoever may be hidden.
        seed: The seed of the restarts.
        workers: Threads that the work is spread over; the machine's cores where it is None.

    Attributes:
        graph_: The learned `CausalGraph`: the edges that are surely there, with directions that the data cannot tell
            left open (a PDAG). With `latent="allow"` a PAG.
        dag_: The graph of greatest evidence itself, every edge directed.
        edge_scores_: By how much an edge raises the total log-evidence (natural logarithm): of edges of `dag_`, against
            the graph without it; of all others, against adding it (negative). 0 where knowledge, or a cycle, rules
            it out.
        edge_evidence_: A table of the edges: by how much the log-evidence falls without it (`absent`) and in the other
            direction (`reversed`), with standard errors, and whether it is sure that the edge is there at all
            (`present`) and that, if nothing is hidden, it points this way (`directed`); by how much log-likelihood
            beyond chance what causes leave unexplained of both variables goes together (`together`), and whether a
            hidden common cause of the two is ruled out, possible or likely (`confounding`); how much of `reversed` is
            due to what sites have in common and where they differ (`by_changes`), and the number of `sites` whose own
            rows speak for the edge. `sure_cause` holds for edges that are directed and of which a hidden common cause
            is ruled out, or that are required; with `latent="allow"` only these are `directed`. `told_by` says in words
            what tells a direction: noise, curvature, independence, changes between sites (or what they have in common),
            interventions, knowledge, or other edges.
        edge_frequencies_: The share of the searches in whose result each edge appeared, as a table like `edge_scores_`.
        checks_: A table of checks of the assumptions: whether residuals depend on the causes (`figure`: the share of
            their size and shape that the causes explain beyond chance), whether two columns look like copies, and
            whether few values make up most of a column's spread (`figure`: the share of all rows that are at sites
            where it is so), in which variables some sites differ (`figure`: the log-evidence; `sites`: how many surely
            do), whether they do in ways that tell no direction, and which have other causes at some `sites`. `fit`
            warns of those that `failed`.
        group_graphs_: With `groups=2`, the `GroupGraph` of each of two groups of sites with different graphs; empty if
            sites do not fall apart. All other attributes are about the common graph.
        score_: The total score of `dag_`: negative log-evidence per row, up to a constant.
        history_: What happened, round by round.

    Examples:
        >>> import feddag
        >>> simulation = feddag.simulate(4, mechanism="mim", sites=3, rows=300, seed=2)
        >>> learned = feddag.EvidenceSearch(tiers=[["x3"], ["x0", "x1", "x2"]]).fit(simulation)
        >>> learned.graph_.edges == simulation.truth.edges
        True
        >>> learned.edge_evidence_.columns[:6].tolist()
        ['cause', 'effect', 'absent', 'absent_error', 'reversed', 'reversed_error']
    """

    kinds: ClassVar = frozenset(KINDS)
    task_specs: ClassVar = (*TASKS, *GROUP_TASKS)
    parameter_constraints: ClassVar = {
        "sharing": constraints.one_of(("auto", "graph", "all")),
        "noise": constraints.one_of(("free", "equal")),
        "restarts": constraints.whole(0),
        "time_budget": constraints.positive | constraints.none,
        "start": constraints.names | constraints.none,
        **knowledge.CONSTRAINTS,
        "confidence": constraints.number("a number from 0.5 to less than 1", lambda value: 0.5 <= value < 1),
        "keep_doubtful": constraints.boolean,
        "groups": constraints.Constraint("1 or 2", lambda value: constraints.is_whole(value, 1) and value <= 2),
        "latent": constraints.one_of(("mark", "allow")),
        "seed": SEED,
        "workers": WORKERS,
    }

    dag_: CausalGraph = field(init=False)
    edge_evidence_: pd.DataFrame = field(init=False)
    edge_frequencies_: pd.DataFrame = field(init=False)
    checks_: pd.DataFrame = field(init=False)
    group_graphs_: tuple[GroupGraph, ...] = field(init=False)
    score_: float = field(init=False)
    history_: SearchHistory = field(init=False)

    sharing: Sharing = "auto"
    noise: Literal["free", "equal"] = "free"
    _: KW_ONLY
    restarts: int = 5
    time_budget: float | None = None
    start: Sequence[str] | None = None
    required: Edges = ()
    forbidden: Edges = ()
    tiers: Sequence[Sequence[str]] = ()
    exogenous: Sequence[str] = ()
    confidence: float = 0.95
    keep_doubtful: bool = False
    groups: int = 1
    latent: Literal["mark", "allow"] = "mark"
    seed: int = 0
    workers: int | None = None

    def check_federation(self, sites: int, columns: Sequence[str]) -> None:
        """Refuse parameters that contradict the variables."""
        super().check_federation(sites, columns)
        if self.start is not None and sorted(self.start) != sorted(columns):
            raise FeddagError(f"start must have every variable once: {', '.join(columns)}. Got {self.start!r} instead.")
        if self.groups > 1 and sites < 2 * FEWEST:
            raise FeddagError(
                f"Two groups of sites need at least {2 * FEWEST} sites, {FEWEST} in each. Got {sites} instead. Learn "
                "with groups=1."
            )

    def log_evidence(self, silos: Any, graph: CausalGraph) -> float:
        """Return the log-evidence of a DAG, as a mean per row and up to a constant. The higher, the better."""
        silos = self.check(silos)
        names = silos[0].columns
        if sorted(graph.names) != sorted(names) or not graph.is_dag:
            raise FeddagError(f"graph must be a DAG over {', '.join(names)}. Got {graph!r} instead.")
        adjacency = graph.reordered(names).adjacency
        with threadpool_limits(1), self.in_process(silos) as federation:
            coordinator = self._coordinator(federation, names, time.monotonic)
            if self.noise == "equal":
                coordinator.scores.refer_to(adjacency)
            return -joint_score(coordinator.scores, adjacency)

    def check_kinds(self, kinds: Mapping[str, Kind]) -> None:
        """Refuse discrete variables with parameters that need continuous ones."""
        super().check_kinds(kinds)
        for name, kind in kinds.items():
            if not kind.discrete:
                continue
            if self.noise == "equal":
                raise FeddagError(
                    f"With noise='equal' all variables must be continuous, and {name!r} is {kind.name}. "
                    "Choose noise='free'."
                )
            if len(kind.levels) > MOST_LEVELS:
                raise FeddagError(
                    f"{name!r} has {len(kind.levels)} levels, and EvidenceSearch takes at most {MOST_LEVELS}. "
                    "Join some of them, or declare an ordinal variable continuous."
                )

    def site(self, silo: Silo, position: int) -> Site:
        """Return the side that scores families on its own rows."""
        del position
        self.check_kinds(dict(zip(silo.columns, silo.kinds, strict=True)))
        if silo.targets is None and not any(kind.discrete for kind in silo.kinds):
            silo = silo.with_rows(evenly_spaced(silo.rows, MOST_ROWS))
        if silo.targets is None:
            site = self._mechanisms(silo)
        else:
            self.check_interventions(silo.is_experimental, silo.columns)
            site = SiteWithExperiments(silo, silo.targets, self._mechanisms)
        return SiteInGroups(site, silo.columns, silo.rows) if self.groups > 1 else site

    @property
    def _compares(self) -> bool:
        """Whether sites' mechanisms are compared."""
        return self.sharing != "graph" and self.noise == "free"

    @property
    def shares(self) -> str:
        """What leaves a site, as policies name it: comparing straight lines takes means and covariances."""
        return "moments" if self._compares else "graph"

    def _mechanisms(self, silo: Silo) -> OwnMechanisms:
        if any(kind.discrete for kind in silo.kinds):
            return MixedMechanisms(silo)
        if self._compares:
            return DifferingMechanisms(silo, common=self.sharing == "all")
        return OwnMechanisms(silo, equal_noise=self.noise == "equal")

    def check_interventions(self, is_target: Bool[np.ndarray, " node"], columns: Sequence[str]) -> None:
        """Refuse experiments with noise of equal variance: that of a variable that was set is its own."""
        super().check_interventions(is_target, columns)
        if is_target.any() and self.noise == "equal":
            raise FeddagError(
                f"Experiments set or changed {columns[int(is_target.argmax())]!r}, and with noise='equal' "
                "EvidenceSearch takes no experiments. Choose noise='free'."
            )

    def tasks(self, columns: Sequence[str], sites: int) -> Mapping[str, TaskSpec]:
        """Return the tasks of this search, with bounds for so many columns."""
        found = search_tasks(len(columns), compare=self._compares)
        return found | (group_tasks(len(columns), sites, found) if self.groups > 1 else {})

    @property
    def fewest_in_group(self) -> int | None:
        """Groups have three sites or more."""
        return FEWEST if self.groups > 1 else None

    def with_sites(self, sites: int) -> Self:
        """Return an unfitted copy that looks for no groups: from other rows, other sites would be in them."""
        return super().with_sites(sites).set_params(groups=1)

    @property
    def takes_interventions(self) -> bool:
        """A variable is scored on the rows in which nobody set it."""
        return True

    @property
    def used_tasks(self) -> Sequence[TaskSpec]:
        """The tasks of this search; they depend on `sharing`."""
        names = self.tasks(("cause", "effect"), 2)
        return [task for task in self.task_specs if task.name in names]

    def learn(self, federation: Federation, columns: tuple[str, ...], context: FitContext) -> None:
        """Search, weigh each edge, and set the learned attributes; then for each group of sites, if there are two."""
        with threadpool_limits(1):
            coordinator = self._coordinator(federation, columns, lambda: context.seconds)
            searches = Searches(coordinator)
            checkpointer = context.checkpointer(searches, federation)
            coordinator.after_round = lambda round_: checkpointer.after_round(_status(round_))
            common = self._search(coordinator, columns)
            groups = coordinator.find_groups(common.best.dag) if self.groups > 1 else None
            federations = [] if groups is None else [GroupFederation(federation, groups, k) for k in (0, 1)]
            found = []
            for number, its_sites in enumerate(federations):
                of_group = self._coordinator(
                    its_sites,
                    columns,
                    lambda: context.seconds,
                    history=coordinator.history,
                    group=f"of group {number + 1}",
                )
                of_group.after_round = coordinator.after_round
                searches.add(of_group)
                found.append(self._search(of_group, columns))
            checkpointer.save()
        self.dag_, self.graph_, self.edge_evidence_ = common.dag, common.graph, common.edge_evidence
        self.checks_ = common.checks
        self.edge_frequencies_ = edge_table(np.mean([each.dag for each in common.found], axis=0), columns)
        self.group_graphs_ = ()
        if groups is not None and confirmed([each.sure for each in found], [each.best.dag for each in found]):
            named = zip(groups.sizes, words_of(groups, columns), found, strict=True)
            self.group_graphs_ = tuple(
                GroupGraph(sites, words, each.graph, each.dag, each.edge_evidence) for sites, words, each in named
            )
        self.score_ = common.best.score
        self.history_ = coordinator.history
        self.communication_ = federation.ledger

    def _search(self, coordinator: SearchCoordinator, columns: Sequence[str]) -> _Outcome:
        """Search, weigh each edge, and check the assumptions."""
        start = None if self.start is None else [columns.index(name) for name in self.start]
        knowledge = self.knowledge_of(columns)
        best, found = coordinator.run(start, self.restarts, self.time_budget, np.random.default_rng(self.seed))
        scores = edge_scores(coordinator.scores, knowledge, best.dag)
        directions = coordinator.weigh(best.dag, self.confidence)
        # over a network no number of sites is told of that is below the study's smallest group
        checks = coordinator.check(best.dag).told_of(coordinator.minimum_sites)
        directions = directions.doubt(checks.doubts(best.dag), knowledge).with_sites(checks.standing)
        # an edge that errors of measurement explain still joins two variables in a PAG: the cause itself is hidden
        absent = [] if self.keep_doubtful else directions.unlikely(self.confidence)
        directions = coordinator.mark_confounding(best.dag, directions, checks, self.confidence)
        graph = CausalGraph(directions.graph if self.keep_doubtful else directions.sure_edges(), columns, scores)
        if self.latent == "allow":
            pag = coordinator.find_pag(best.dag, directions, absent)
            directions = directions.if_any_may_be_hidden()
            graph = CausalGraph.from_marks(pag, columns, scores)
        table = checks.table(columns, best.dag, alike=self.sharing == "all")
        dag = CausalGraph(best.dag, columns, scores)
        return _Outcome(best, found, directions.sure_edges(), dag, graph, directions.table(columns), table)

    def _coordinator(
        self, federation: Federation, columns: Sequence[str], clock: Callable[[], float], **further: Any
    ) -> SearchCoordinator:
        return SearchCoordinator(
            federation,
            self.knowledge_of(columns),
            sharing=self.sharing,
            equal_noise=self.noise == "equal",
            clock=clock,
            **further,
        )

    @property
    def guessed_graph(self) -> CausalGraph:
        """Return the graph of greatest evidence, every edge directed."""
        check_is_fitted(self)
        return self.dag_

    @property
    def drawn_graph(self) -> CausalGraph:
        """Return the graph with a circle wherever a hidden common cause is not ruled out: an arrow is a sure cause."""
        check_is_fitted(self)
        if self.latent == "allow":
            return self.graph_
        table = self.edge_evidence_
        told = table[table.sure_cause.eq(True)]
        return self.graph_.doubted({*zip(told.cause, told.effect, strict=True)})

    @property
    def doubtful_edges(self) -> tuple[tuple[str, str], ...]:
        """List the edges of which it is not sure that they are there."""
        check_is_fitted(self)
        doubtful = self.edge_evidence_[self.edge_evidence_.present.eq(False)]
        return tuple(zip(doubtful.cause, doubtful.effect, strict=True))

    @property
    def confounded_edges(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """List the edges that are surely there and that a hidden common cause explains better, or as well."""
        check_is_fitted(self)
        present = self.edge_evidence_[self.edge_evidence_.present.eq(True)]
        by_state = {state: present[present.confounding.eq(state)] for state in (LIKELY, POSSIBLE)}
        return {state: tuple(zip(each.cause, each.effect, strict=True)) for state, each in by_state.items()}

    @property
    def groups_in_words(self) -> str:
        """Whether sites fall into two groups, and in which edges these differ."""
        check_is_fitted(self)
        return describe_groups(self.group_graphs_) if self.groups > 1 else ""

    @property
    def graphs_of_groups(self) -> dict[str, CausalGraph]:
        """The graph of each of two groups."""
        check_is_fitted(self)
        return {each.heading(k): each.graph for k, each in enumerate(self.group_graphs_, start=1)}

    @property
    def failed_checks(self) -> tuple[FailedCheck, ...]:
        """What speaks against the assumptions."""
        check_is_fitted(self)
        return failed_checks(self.checks_, looked_for_groups=self.groups > 1)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the evidence of each edge, and the checks of assumptions."""
        tables = super().tables()
        frequencies = self.edge_frequencies_.to_numpy()[np.nonzero(self.dag_.adjacency)]
        evidence = self.edge_evidence_.assign(frequency=frequencies)
        return tables | {"edge_evidence": evidence, "checks": self.checks_}

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what was learned, as a document and arrays."""
        document, arrays = super().snapshot()
        document |= {
            "score": self.score_,
            "rounds": [asdict(each) for each in self.history_.rounds],
            "edge_evidence": self.edge_evidence_.to_dict("records"),
            "checks": self.checks_.to_dict("records"),
            "groups": [each.document() for each in self.group_graphs_],
        }
        for k, each in enumerate(self.group_graphs_):
            arrays |= prefixed(f"group {k}", each.arrays())
        return document, arrays | {"dag": self.dag_.adjacency, "edge_frequencies": self.edge_frequencies_.to_numpy()}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> Self:
        """Take over a snapshot."""
        super().restore(document, arrays)
        self.dag_ = CausalGraph(arrays["dag"], document["columns"], self.graph_.scores)
        self.edge_frequencies_ = edge_table(arrays["edge_frequencies"], document["columns"])
        self.score_ = document["score"]
        self.history_ = SearchHistory([SearchRound(**each) for each in document["rounds"]])
        self.edge_evidence_ = pd.DataFrame(document["edge_evidence"], columns=list(EdgeEvidence._fields))
        self.checks_ = pd.DataFrame(document["checks"], columns=list(CHECK_COLUMNS))
        self.group_graphs_ = tuple(
            GroupGraph.of(each, under(f"group {k}", arrays), document["columns"])
            for k, each in enumerate(document["groups"])
        )
        return self


def _status(round_: SearchRound) -> Status:
    figures: dict[str, float | str] = {"stage": round_.stage, "round": round_.round, "families": round_.families}
    if round_.score is not None and round_.edges is not None:
        figures |= {"edges": round_.edges, "score": round_.score}
    return Status(None, figures, round_.seconds)
