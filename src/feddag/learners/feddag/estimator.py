"""FedDAG (Gao et al., "FedDAG: Federated DAG Structure Learning", TMLR 2023).

One graph for all sites, found by gradient descent on each site's squared error under an augmented-Lagrangian
constraint that the graph be acyclic. Sites exchange the graph's parameters alone (GS-FedDAG), or, where they share
their mechanisms too, all parameters (AS-FedDAG).

Assumes: one DAG behind all sites, additive noise of equal variance within a site, and no hidden common causes. Squared
error makes the result depend on the units of the columns: do not use it where scales are arbitrary. The model "admg"
needs none of this: it is for linear mechanisms and normal noise, and has edges for hidden common causes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation import Federation, InProcess, Ledger
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import LARGEST_SINGLE, Bounds, TaskSpec, bounds_like, by_name
from feddag.graphs import CausalGraph, threshold_to_dag
from feddag.learners import knowledge
from feddag.learners.base import PROPORTION, SEED, SHARE, WORKERS, graph_arrays, graph_from_arrays
from feddag.learners.checkpointing import FitContext
from feddag.learners.feddag.augmented_lagrangian import Schedule, default_pair
from feddag.learners.feddag.history import FedDAGHistory, FedDAGRound, SiteView, mean_distances
from feddag.learners.feddag.local_solver import (
    SERVER,
    SOLVE,
    LocalSolver,
    Objective,
    initial_parameters,
    shared_part,
    take_over,
)
from feddag.learners.feddag.mixed_graph import mixed_graph
from feddag.learners.feddag.outer_loop import OuterLoop, Plan
from feddag.learners.feddag.time_left import TimeLeft
from feddag.learners.federated import FederatedLearner
from feddag.learners.knowledge import Edges
from feddag.learners.status import Status
from feddag.models import ACYCLICITY, ADMG, DAGGNN, NOTEARSMLP, Linear, MaskedMLP, Model, Parameters
from feddag.models.compilation import keep_compiled_programs
from feddag.models.pytrees import flatten, unflatten
from feddag.silos import CheckedSilos, Silo
from feddag.silos.interventions import check_scored_rows


@dataclass(eq=False, repr=False)
class FedDAG(FederatedLearner):
    """Learn one causal graph from the tables of many sites.

    Defaults are the paper's (tables 10 to 12).

    Args:
        sharing: What sites exchange: `"graph"` (GS-FedDAG), `"all"` (AS-FedDAG), or `"none"`: every site learns alone.
        model: `"mlp"`, the masked neural networks of the paper, `"linear"`, `"notears-mlp"`, which needs
            `sharing="all"` or `"none"`, `"dag-gnn"`, or `"admg"`: linear, with edges <-> where a hidden common cause
            joins two variables (appendix C.3 of the paper).
        constraint: Graphs that `"admg"` looks for: `"bow-free"`, or `"ancestral"`: no edge <-> joins a variable to one
            that it causes, directly or along others.
        acyclicity: `"trace-exponential"` (the paper's), `"log-det"` (DAGMA's) or `"polynomial"` (DAG-GNN's).
        participation: How many sites, or which share of them, enter each average; drawn anew every time.
        weighting: Sites count equally in the average (the paper's), or by their rows.
        alpha_init, rho_init, rho_max, beta, gamma, h_tol, it_max: Parameters of Algorithm 1. `rho_init` and `beta` are
            chosen by the number of nodes where they are None: the published pairs at 10, 20 and 40 nodes, a smooth rule
            between and beyond (for `"log-det"` a rule of its own).
        it_inner, it_fl: Parameters of Algorithm 2: local steps in a sub-problem, and between two aggregations.
        patience: End once so many sub-problems have left the graph as it was, if it is a DAG and h is at most 1e-6;
            `None` goes on until h is at most `h_tol` or another limit is reached.
        rho_update: `"repeat"` raises ρ until the sub-problem has made progress, as the published figures did;
            `"once"` raises it once per sub-problem, as Algorithm 1 is printed.
        l1: The weight λ of the sparsity term.
        learning_rate: The learning rate of Adam.
        temperature: The τ of the Gumbel-sigmoid mask.
        hidden_layers: The number of hidden layers of each node's masked network; the other models' networks have one.
        hidden_units: The number of units of each hidden layer; as published where it is None: 16 for `"mlp"`, 10 for
            `"notears-mlp"`, 64 for `"dag-gnn"`.
        threshold: Edges score above it; 0.5 for masks, 0.3 for weights and 0.1 for `"admg"` where it is None.
        required, forbidden: Edges, as (cause, effect) pairs of names, that must be or cannot be in the graph.
        tiers: Lists of names; nothing in a later one causes anything in an earlier one.
        exogenous: Names of variables that nothing in the graph causes.
        seed: The run is a function of data, parameters and seed.
        workers: Threads that sites are spread over; the machine's cores where it is None.

    Attributes:
        graph_, adjacency_, history_, communication_, seconds_, feature_names_in_, n_features_in_, sites_: As of
            every `Learner`; with `sharing="none"` the sites learn alone, and `history_` is a dict by site.
        edge_scores_: How strongly each edge is indicated: its probability under the mask, or its |weight|.
        U_: The averaged graph parameters themselves: mask logits, or the model's weights.
        mechanisms_: For each site, its fitted parameters; `predict` uses them.
        means_: For each site, the mean of each of its columns.
        site_graphs_: For each site, the graph it would draw alone. With `sharing="none"` they are the result, and
            `graph_` is drawn from the mean of their scores.

    Examples:
        >>> import feddag
        >>> simulation = feddag.simulate(4, mechanism="linear", sites=2, rows=200, seed=1)
        >>> learned = feddag.FedDAG("all", "linear", it_inner=200).fit(simulation)
        >>> learned.graph_.edges == simulation.truth.edges
        True
    """

    task_specs: ClassVar = (SOLVE,)
    parameter_constraints: ClassVar = {
        "sharing": constraints.one_of(("graph", "all", "none")),
        "model": constraints.one_of(("mlp", "linear", "notears-mlp", "dag-gnn", "admg")),
        "constraint": constraints.one_of(("bow-free", "ancestral")),
        "acyclicity": constraints.one_of(ACYCLICITY),
        "participation": constraints.whole(1) | SHARE,
        "weighting": constraints.one_of(("equal", "rows")),
        "alpha_init": constraints.at_least_zero,
        "rho_init": constraints.positive | constraints.none,
        "rho_max": constraints.positive,
        "beta": constraints.number("a number above 1", lambda value: value > 1) | constraints.none,
        "gamma": PROPORTION,
        "h_tol": constraints.positive,
        "it_max": constraints.whole(1),
        "it_inner": constraints.whole(1),
        "it_fl": constraints.whole(1),
        "patience": constraints.whole(1) | constraints.none,
        "rho_update": constraints.one_of(("repeat", "once")),
        "l1": constraints.at_least_zero,
        "learning_rate": constraints.positive,
        "temperature": constraints.positive,
        "hidden_layers": constraints.whole(1),
        "hidden_units": constraints.whole(1) | constraints.none,
        "threshold": constraints.positive | constraints.none,
        **knowledge.CONSTRAINTS,
        "seed": SEED,
        "workers": WORKERS,
    }

    U_: Float[np.ndarray, "..."] = field(init=False)
    mechanisms_: dict[str, Parameters] = field(init=False)
    means_: dict[str, Float[np.ndarray, " node"]] = field(init=False)
    history_: FedDAGHistory | dict[str, FedDAGHistory] = field(init=False)

    sharing: Literal["graph", "all", "none"] = "graph"
    model: Literal["mlp", "linear", "notears-mlp", "dag-gnn", "admg"] = "mlp"
    _: KW_ONLY
    constraint: Literal["bow-free", "ancestral"] = "bow-free"
    acyclicity: Literal["trace-exponential", "log-det", "polynomial"] = "trace-exponential"
    participation: float = 1.0
    weighting: Literal["equal", "rows"] = "equal"
    alpha_init: float = 0.0
    rho_init: float | None = None
    rho_max: float = 1e14
    beta: float | None = None
    gamma: float = 0.25
    h_tol: float = 1e-10
    it_max: int = 25
    it_inner: int = 1000
    it_fl: int = 200
    patience: int | None = None
    rho_update: Literal["repeat", "once"] = "repeat"
    l1: float = 0.01
    learning_rate: float = 0.03
    temperature: float = 0.2
    hidden_layers: int = 4
    hidden_units: int | None = None
    threshold: float | None = None
    required: Edges = ()
    forbidden: Edges = ()
    tiers: Sequence[Sequence[str]] = ()
    exogenous: Sequence[str] = ()
    seed: int = 0
    workers: int | None = None

    def fit_silos(self, silos: CheckedSilos, context: FitContext) -> None:
        """Learn from all sites together; with `sharing="none"`, at every site alone."""
        keep_compiled_programs()
        if self.sharing != "none":
            super().fit_silos(silos, context)
            return
        learned = self._learn_alone(silos, context)
        self._keep(learned, silos[0].columns)
        self.history_ = {silo.name: each.history for silo, each in zip(silos, learned, strict=True)}
        self.communication_ = Ledger()

    def learn(self, federation: Federation, columns: tuple[str, ...], context: FitContext) -> None:
        """Run all rounds, and set the graph, the sites' mechanisms and the history."""
        learned = self._learned(federation, columns, context)
        self._keep([learned], columns)
        self.history_ = learned.history
        self.communication_ = federation.ledger

    def _keep(self, learned: Sequence[_Learned], columns: tuple[str, ...]) -> None:
        self.mechanisms_ = {site.name: params for each in learned for site, params in each.sites}
        self.means_ = {site.name: site.means for each in learned for site, _ in each.sites}
        self.site_graphs_ = {site: self._graph_of([params], columns) for site, params in self.mechanisms_.items()}
        self.U_ = np.mean([each.params["graph"] for each in learned], axis=0)
        self.graph_ = self._graph_of([each.params for each in learned], columns)

    def check_federation(self, sites: int, columns: Sequence[str]) -> None:
        """Check the parameters, also against the model and the number of sites."""
        super().check_federation(sites, columns)
        if self.sharing == "graph" and not self._model().separable:
            raise FeddagError(
                f"The model {self.model!r} cannot share its graph alone, which is a part of its mechanisms. "
                "Choose sharing='all' or sharing='none'."
            )
        if self.constraint != "bow-free" and self.model != "admg":
            raise FeddagError(
                f"constraint={self.constraint!r} is for edges <->, which model={self.model!r} does not have. "
                "Choose model='admg', or leave out the constraint."
            )
        self._participants(sites)

    @property
    def takes_interventions(self) -> bool:
        """A variable's loss is that of the rows in which nobody set it; not every model parts variables."""
        return self._model().takes_experiments

    @property
    def used_tasks(self) -> Sequence[TaskSpec]:
        """The learner's tasks; none where sites learn alone."""
        return () if self.sharing == "none" else super().used_tasks

    def with_sites(self, sites: int) -> Self:
        """Return an unfitted copy in which no more sites participate than there are."""
        copy = super().with_sites(sites)
        if constraints.is_whole(self.participation, sites + 1):  # no more sites can enter an average than there are
            copy.set_params(participation=sites)
        return copy

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that was learned, with every site's mechanisms and the history."""
        document, arrays = super().snapshot()
        arrays["U"] = self.U_
        for k, site in enumerate(self.mechanisms_):
            arrays |= prefixed(f"mechanisms/{k}", flatten(self.mechanisms_[site]))
            arrays[f"means/{k}"] = self.means_[site]
            arrays[f"site_scores/{k}"] = np.asarray(self.site_graphs_[site].scores)
            arrays |= prefixed(f"site_graphs/{k}", graph_arrays(self.site_graphs_[site]))
        histories = self.history_ if isinstance(self.history_, dict) else {"": self.history_}
        document["mechanisms"] = list(self.mechanisms_)
        document["rounds"] = []
        for k, history in enumerate(histories.values()):
            records, graphs = history.snapshot()
            document["rounds"].append(records)
            arrays |= prefixed(f"history/{k}", graphs)
        return document, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> Self:
        """Become the fitted estimator, with every site's mechanisms and the history."""
        super().restore(document, arrays)
        template = initial_parameters(self._model(), self.n_features_in_, self.seed, SERVER)
        self.mechanisms_ = {
            site: jax.tree.map(np.asarray, unflatten(template, under(f"mechanisms/{k}", arrays)))
            for k, site in enumerate(document["mechanisms"])
        }
        self.means_ = {site: arrays[f"means/{k}"] for k, site in enumerate(self.mechanisms_)}
        self.site_graphs_ = {
            site: self._restored_graph(k, document["columns"], arrays) for k, site in enumerate(self.mechanisms_)
        }
        self.U_ = arrays["U"]
        histories = [
            FedDAGHistory.restored(rounds, under(f"history/{k}", arrays)) for k, rounds in enumerate(document["rounds"])
        ]
        alone = self.sharing == "none"
        self.history_ = dict(zip(self.sites_, histories, strict=True)) if alone else histories[0]
        return self

    def predict(self, X: pd.DataFrame | ArrayLike, site: str) -> Float[np.ndarray, "row node"]:
        """Predict each variable from its parents in the learned graph, by a site's mechanisms.

        A DataFrame's columns are found by name; an array's are taken in the order of `feature_names_in_`.
        """
        check_is_fitted(self)
        if not self.mechanisms_:
            raise FeddagError("The mechanisms stayed at the sites of the federation. Predict there.")
        if site not in self.mechanisms_:
            raise FeddagError(f"site must be one of {', '.join(self.sites_)}. Got {site!r} instead.")
        if isinstance(X, pd.DataFrame):
            lacking = [name for name in self.feature_names_in_ if name not in X.columns]
            if lacking:
                raise FeddagError(
                    f"X lacks the columns {', '.join(map(repr, lacking))}. Give all that were learned from."
                )
            X = X[list(self.feature_names_in_)]
        values = np.asarray(X, dtype=np.float32)
        if values.ndim != 2 or values.shape[1] != self.n_features_in_:
            raise FeddagError(f"X must have {self.n_features_in_} columns. Got shape {values.shape} instead.")
        graph = self.site_graphs_[site] if self.sharing == "none" else self.graph_
        adjacency = jnp.asarray(graph.adjacency, jnp.float32)
        params = jax.tree.map(jnp.asarray, self.mechanisms_[site])
        model = self._model()
        origin = self.means_[site].astype(np.float32) if model.centred else np.float32(0)
        return origin + np.asarray(model.predict(params, adjacency, jnp.asarray(values - origin)))

    def _model(self) -> Model:
        units = {} if self.hidden_units is None else {"units": self.hidden_units}
        if self.model == "linear":
            return Linear()
        if self.model == "admg":
            return ADMG(self.constraint)
        if self.model == "notears-mlp":
            return NOTEARSMLP(**units)
        if self.model == "dag-gnn":
            return DAGGNN(**units)
        return MaskedMLP(layers=self.hidden_layers, temperature=self.temperature, **units)

    def _participants(self, sites: int) -> int:
        if not constraints.is_whole(self.participation, 1):
            return max(1, round(float(self.participation) * sites))
        if self.participation > sites:
            raise constraints.refusal("participation", f"at most the number of sites, {sites}", self.participation)
        return int(self.participation)

    def plan(self, columns: Sequence[str], sites: int) -> Plan:
        """Return what the server needs to know before the first round."""
        rho_init, beta = default_pair(len(columns), self._shared(), self.acyclicity)
        full, rest = divmod(self.it_inner, self.it_fl)
        schedule: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Schedule)}
        schedule |= {"rho_init": self.rho_init or rho_init, "beta": self.beta or beta}
        return Plan(
            nodes=len(columns),
            objective=self._objective(columns),
            schedule=Schedule(**schedule),
            phases=(self.it_fl,) * full + ((rest,) if rest else ()),
            participants=1 if self.sharing == "none" else self._participants(sites),
            sharing=self._shared(),
            threshold=self.edge_threshold(),
            seed=self.seed,
            patience=self.patience,
        )

    def _objective(self, columns: Sequence[str]) -> Objective:
        known = self.knowledge_of(columns)
        return Objective(
            self._model(), self.acyclicity, self.l1, self.learning_rate, knowledge=None if known.silent else known
        )

    def _shared(self) -> str:
        """Return what a site shares, if only with itself."""
        return "all" if self.sharing == "all" else "graph"

    @property
    def most_rounds(self) -> int:
        """The rounds of all sub-problems."""
        return self.it_max * -(-self.it_inner // self.it_fl)

    def edge_threshold(self) -> float:
        """Return the parameter `threshold`, or the model's own where it is None."""
        return self.threshold or self._model().threshold

    def _graph_of(self, learned: Sequence[Parameters], columns: Sequence[str]) -> CausalGraph:
        """Draw the graph of the mean of some parameters' scores."""
        objective = self._objective(columns)
        scores = np.mean([objective.edge_scores(params) for params in learned], axis=0)
        joined = [objective.bidirected_scores(params) for params in learned]
        if any(each is None for each in joined):
            return self._graph(scores, columns)
        return mixed_graph(
            scores,
            np.mean(np.stack(cast(Any, joined)), axis=0),
            columns,
            threshold=self.edge_threshold(),
            constraint=self.constraint,
            known=self.knowledge_of(columns),
        )

    def _graph(self, scores: Float[np.ndarray, "node node"], columns: Sequence[str]) -> CausalGraph:
        kept = self.knowledge_of(columns).certain
        return CausalGraph(threshold_to_dag(scores, self.edge_threshold(), kept), columns, scores)

    def _restored_graph(self, k: int, columns: Sequence[str], arrays: Arrays) -> CausalGraph:
        scores, stored = arrays[f"site_scores/{k}"], under(f"site_graphs/{k}", arrays)
        return graph_from_arrays(stored, columns, scores) if stored else self._graph(scores, columns)

    def _learn_alone(self, silos: Sequence[Silo], context: FitContext) -> list[_Learned]:
        """Learn at every site as a federation of its own, several at a time."""

        for silo in silos:
            check_scored_rows([silo])

        def learn(position: int, silo: Silo) -> _Learned:
            with InProcess([self.site(silo, position)], 1) as federation:
                return self._learned(federation, silo.columns, context.part(position + 1, silo.name))

        with ThreadPoolExecutor(self.worker_count()) as pool:
            return list(pool.map(learn, range(len(silos)), silos))

    def site(self, silo: Silo, position: int) -> LocalSolver:
        """Return the solver of a site's local sub-problems."""
        return LocalSolver(
            silo,
            position,
            self._objective(silo.columns),
            sharing=self._shared(),
            weighting=self.weighting,
            seed=self.seed,
        )

    def tasks(self, columns: Sequence[str], sites: int) -> Mapping[str, TaskSpec]:
        """Return the task of a round, with bounds on its numbers and on the shared parameters."""
        plan = self.plan(columns, sites)
        schedule, template = plan.schedule, initial_parameters(plan.objective.model, plan.nodes, plan.seed, SERVER)
        numbers = {
            "steps": Bounds(1, max(plan.phases), whole=True),
            "alpha": Bounds(schedule.alpha_init, LARGEST_SINGLE),
            "rho": Bounds(schedule.rho_init, max(schedule.rho_init, schedule.rho_max)),
            "h": Bounds(0, LARGEST_SINGLE),
        }
        shared = bounds_like(shared_part(template, plan.sharing))
        return by_name((SOLVE.with_bounds(numbers=numbers, arrays=shared, participants=plan.participants),))

    def _learned(self, federation: Federation, columns: Sequence[str], context: FitContext) -> _Learned:
        plan = self.plan(columns, len(federation.sites))
        objective = plan.objective
        sites = cast(tuple[LocalSolver, ...], federation.local_sites)

        def view() -> SiteView:
            scores = np.stack([objective.edge_scores(site.params) for site in sites])
            l1_distance, shd_distance = mean_distances(scores, plan.threshold)
            return SiteView(
                loss={site.name: site.loss for site in sites},
                fit={site.name: site.fit for site in sites},
                l1_distance=l1_distance,
                shd_distance=shd_distance,
            )

        loop = OuterLoop(federation, plan, view if sites else None)
        checkpointer = context.checkpointer(loop, federation)
        time_left = TimeLeft(self.h_tol, self.rho_max)
        loop.run(lambda record: checkpointer.after_round(_status(record, time_left.after(record))))
        checkpointer.save()
        return _Learned(
            params=jax.tree.map(np.asarray, loop.params),
            # a site's own model takes over the last average, as it would before the next round
            sites=[
                (site, jax.tree.map(np.asarray, objective.held(take_over(site.params, loop.shared)))) for site in sites
            ],
            history=loop.history,
        )


def _status(record: FedDAGRound, seconds_left: float | None) -> Status:
    figures = {name: getattr(record, name) for name in ("sub_problem", "step", "rho", "h", "edges")}
    return Status(None, figures, record.seconds, seconds_left)


@dataclass(frozen=True)
class _Learned:
    """The outcome of one federation."""

    params: Parameters
    sites: list[tuple[LocalSolver, Parameters]]
    """The sites of this process, and what each has learned."""
    history: FedDAGHistory
