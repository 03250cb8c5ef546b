"""The base of all learners: checked parameters, a fit that can be followed and resumed, a result to store."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast, runtime_checkable

import joblib
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int8
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from feddag import constraints
from feddag.drawing import plots
from feddag.errors import AssumptionWarning, FeddagError
from feddag.federation import Ledger
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import TaskSpec
from feddag.graphs import CausalGraph
from feddag.learners.checkpointing import FitContext
from feddag.learners.failed_checks import FailedCheck
from feddag.learners.knowledge import Edges, Knowledge
from feddag.learners.registry import Regime, installed_methods
from feddag.learners.status import Progress
from feddag.learners.validation import log_likelihood
from feddag.silos import CheckedSilos, Silo, read_silos
from feddag.silos.variable_types import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEED = constraints.Constraint(
    "a whole number from 0 to 4294967295", lambda value: constraints.is_whole(value, 0) and value < 2**32
)
"""A seed has 32 bits: jax takes larger ones modulo 2³², or not at all."""
WORKERS = constraints.whole(1) | constraints.none
SHARE = constraints.number("a share in (0, 1]", lambda value: 0 < value <= 1)
PROPORTION = constraints.number("a number in (0, 1)", lambda value: 0 < value < 1)


@runtime_checkable
class SitePredictor(Protocol):
    """A learner that keeps each site's mechanisms and predicts with them."""

    mechanisms_: Mapping[str, Any]
    feature_names_in_: np.ndarray

    def predict(self, X: pd.DataFrame | ArrayLike, site: str) -> Float[np.ndarray, "row node"]:
        """Predict each variable from its parents, by a site's mechanisms."""
        ...


class Learner(BaseEstimator, ABC):
    """Learns one causal graph from the tables of many sites; a scikit-learn estimator.

    A learner stores its parameters in `__init__`, gives each a constraint, and writes `fit_silos`. Where it learns more
    than the attributes below, it extends `snapshot` and `restore`.

    Attributes:
        graph_: The learned `CausalGraph`, with the variables' names and `edge_scores_`.
        adjacency_: Its matrix; entry [i, j] is 1 for the edge i → j, and so is [j, i] where it is undirected.
        edge_scores_: How strongly each edge is indicated: a table with causes in rows and effects in columns, by name.
            `graph_.scores` is the same as an array.
        history_: What happened; its `to_frame()` has a row per round. Where sites learned alone, a dict by site.
        site_graphs_: Where sites learned alone, the graph of each.
        communication_: A `Ledger` of the bytes each site has sent and received.
        seconds_: The time the fit took, with that before it was resumed.
        feature_names_in_, n_features_in_, sites_: The variables and the sites.
    """

    parameter_constraints: ClassVar[Mapping[str, constraints.Constraint]]
    """What each parameter must be."""

    kinds: ClassVar[frozenset[str]] = frozenset({"continuous"})
    """The kinds of variables (`feddag.silos.variable_types`) that it learns from."""

    private: ClassVar[bool] = False
    """Whether nothing but a release with privacy of rows tells about the rows: nothing else may be computed on them."""

    task_specs: ClassVar[Sequence[TaskSpec]] = ()
    """Every task that sites may have to answer, whatever the parameters."""

    regime: Regime = "federated"
    """How sites take part (`feddag.learners.regimes`)."""

    workers: int | None = None
    """A parameter of the learners that spread sites over threads."""

    required: Edges = ()
    forbidden: Edges = ()
    tiers: Sequence[Sequence[str]] = ()
    exogenous: Sequence[str] = ()
    """Parameters of the learners that use knowledge of the graph."""

    graph_: CausalGraph
    adjacency_: Int8[np.ndarray, "node node"]
    edge_scores_: pd.DataFrame
    history_: Any
    site_graphs_: dict[str, CausalGraph]
    communication_: Ledger
    seconds_: float
    feature_names_in_: np.ndarray
    n_features_in_: int
    sites_: tuple[str, ...]

    def fit(
        self,
        silos: Any,
        y: None = None,
        *,
        kinds: Mapping[str, Any] | None = None,
        interventions: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the graph. Warn (`feddag.AssumptionWarning`) if the data are not as the method assumes them.

        Args:
            silos: A `Simulation`, or one table per site (a list, or a dict by site name): DataFrames,
                two-dimensional arrays, or paths of files.
            y: Ignored; here for scikit-learn.
            kinds: By column what its values stand for, such as `{"stage": "ordinal"}`; see `feddag.read_silos`.
            interventions: By site what experiments set there: a list of variables that were set in every row, such as
                `{"lab-2": ["PKC"]}`, the name of the column that names each row's targets, or a mapping, such as
                `{"lab-2": {"changed": ["PKC"]}}` where causes still act; see `feddag.read_silos`.
            progress: Called after every round. What it raises ends the fit, and the checkpoint holds that round.
            checkpoint: A file that keeps the state of the run. Where it exists already, from the same data and
                parameters, the fit goes on from it and ends as if it had never been interrupted.
        """
        del y
        tables = read_silos(silos, kinds=kinds, interventions=interventions) if kinds or interventions else silos
        self.fit_checked(self.check(tables), FitContext(progress, checkpoint))
        for failed in self.failed_checks:
            warnings.warn(str(failed), AssumptionWarning, stacklevel=2)
        return self

    def fit_checked(self, silos: CheckedSilos, context: FitContext) -> Self:
        """Learn from checked tables."""
        if context.checkpoint is not None:
            context.fingerprint = self.fingerprint(silos)
        self.fit_silos(silos, context)
        return self._completed([silo.name for silo in silos], context.seconds)

    @abstractmethod
    def fit_silos(self, silos: CheckedSilos, context: FitContext) -> None:
        """Set `graph_` with its scores, `history_`, `communication_` and the learner's own attributes.

        Nothing is to be set before all is learned: a fit that fails leaves the estimator as it was.
        """

    def score(self, silos: Any, y: None = None) -> float:
        """Return how well the learned graph predicts rows of these tables: the higher, the better.

        Every site fits its own regression of each variable on its parents to four fifths of its rows, and the score is
        the mean log-likelihood of the others, after each number is brought to deviation 1: units do not matter, and
        scores of all methods compare. Open directions are the learner's guesses (`guessed_graph`).

        Sites need not be those that the graph was learned from. So scikit-learn's model selection works on a list of
        tables, one per site, and lays whole sites aside: `GridSearchCV`, `cross_val_score`. A graph with superfluous
        edges predicts nearly as well as the right one, so the score guards against lost edges more than against false
        ones. `feddag.selection.select` lays rows of every site aside instead, before anything is learned.

        Args:
            silos: As of `fit`.
            y: Ignored; here for scikit-learn.
        """
        del y
        check_is_fitted(self)
        return log_likelihood(self.guessed_graph, read_silos(silos))

    def check(self, silos: Any) -> CheckedSilos:
        """Return the sites' checked tables, or refuse what `fit` could not learn from, or with."""
        self.check_parameters()
        checked = read_silos(silos)
        self.check_kinds(dict(zip(checked[0].columns, checked[0].kinds, strict=True)))
        self.check_interventions(np.any([silo.is_experimental for silo in checked], axis=0), checked[0].columns)
        return checked

    def check_interventions(self, is_target: Bool[np.ndarray, " node"], columns: Sequence[str]) -> None:
        """Refuse experiments where the method would take a variable that was set for one that its causes made."""
        if self.takes_interventions or not is_target.any():
            return
        able = [
            name
            for name, method in installed_methods().items()
            if method.learner()(**method.defaults).takes_interventions
        ]
        raise FeddagError(
            f"Experiments set or changed {columns[int(is_target.argmax())]!r}, and {type(self).__name__} takes no "
            "experiments: it would take its values for what causes made as elsewhere. Choose the method "
            f"{' or '.join(able)}, or leave out these rows and declare no experiments."
        )

    def check_kinds(self, kinds: Mapping[str, Kind]) -> None:
        """Refuse variables of kinds that the method knows nothing about, and name the methods that do."""
        alien = {name: kind for name, kind in kinds.items() if kind.name not in self.kinds}
        if not alien:
            return
        needed = {kind.name for kind in kinds.values()}
        able = [name for name, method in installed_methods().items() if needed <= method.learner().kinds]
        found = ", ".join(f"{name!r} ({kind.name})" for name, kind in alien.items())
        remedy = f"Choose the method {' or '.join(able)}, declare" if able else "Declare"
        raise FeddagError(
            f"{type(self).__name__} learns from {', '.join(sorted(self.kinds))} variables, and there are {found}. "
            f"{remedy} them continuous (kinds, or a study), or leave them out."
        )

    def check_parameters(self) -> None:
        """Refuse a parameter that breaks its constraint."""
        constraints.check(self.get_params(), self.parameter_constraints)

    @property
    def takes_interventions(self) -> bool:
        """Whether it leaves out of a variable's equation the rows in which an experiment set the variable."""
        return False

    @property
    def used_tasks(self) -> Sequence[TaskSpec]:
        """The tasks that sites answer, given the parameters."""
        return self.task_specs

    def leaves_site(self) -> str:
        """Say in plain words what leaves a site while this learner learns."""
        return disclosed(self.used_tasks)

    @property
    def learned_alone(self) -> bool:
        """Whether every site learned by itself, so that there is a history and a graph for each."""
        check_is_fitted(self)
        return isinstance(self.history_, dict)

    @property
    def inner(self) -> Learner:
        """The learner itself, without the regime it is in."""
        return self

    def with_sites(self, sites: int) -> Self:
        """Return an unfitted copy for a replicate, or a trial, of a study with so many sites."""
        del sites
        return cast(Self, clone(self))

    def single_threaded(self) -> Self:
        """Return an unfitted copy that uses one thread."""
        names = [name for name in self.get_params() if name.rpartition("__")[2] == "workers"]
        return cast(Self, clone(self)).set_params(**dict.fromkeys(names, 1))

    @property
    def results(self) -> tuple[tuple[CausalGraph, CausalGraph], ...]:
        """The graphs that a comparison judges, as reported and as guessed: one, or one per site that learned alone."""
        if self.learned_alone:
            return tuple((graph, graph) for graph in self.site_graphs_.values())
        return ((self.graph_, self.guessed_graph),)

    @property
    def guessed_graph(self) -> CausalGraph:
        """The graph, with the learner's own guess where it leaves a direction open, if it has one."""
        check_is_fitted(self)
        return self.graph_

    @property
    def drawn_graph(self) -> CausalGraph:
        """The graph as pictures show it: with circles where the learner says that a hidden cause may join two."""
        check_is_fitted(self)
        return self.graph_

    @property
    def doubtful_edges(self) -> tuple[tuple[str, str], ...]:
        """Edges that the learner found and that may be chance, where it can tell; its graph may leave them out."""
        check_is_fitted(self)
        return ()

    @property
    def confounded_edges(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Edges of which the learner says that a hidden common cause is `likely`, or `possible`."""
        check_is_fitted(self)
        return {}

    @property
    def groups_in_words(self) -> str:
        """Whether sites fall into groups with different graphs; empty unless the learner was to find out."""
        check_is_fitted(self)
        return ""

    @property
    def graphs_of_groups(self) -> dict[str, CausalGraph]:
        """The graphs of such groups, by words for each group."""
        check_is_fitted(self)
        return {}

    @property
    def failed_checks(self) -> tuple[FailedCheck, ...]:
        """What speaks against the assumptions, where the learner checks them."""
        check_is_fitted(self)
        return ()

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return further tables by name; a run's folder holds them as CSV."""
        check_is_fitted(self)
        return {}

    def history_frame(self) -> pd.DataFrame:
        """Return one row per round; where sites learned alone, their name comes first."""
        if not self.learned_alone:
            return self.history_.to_frame()
        frames = {site: history.to_frame() for site, history in self.history_.items()}
        if not frames:  # over a network, what each site has learned alone stays there
            return pd.DataFrame()
        return pd.concat(frames, names=["site"]).reset_index(level="site")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the graph; needs `feddag[report]`, as the other plots do."""
        return self.drawn_graph.plot(ax)

    def plot_history(self, ax: Any = None) -> Any:
        """Draw each figure of the history against the rounds, on axes of its own; on one that is given, the first."""
        check_is_fitted(self)
        return plots.plot_history(self.history_frame(), ax)

    def plot_adjacency(self, ax: Axes | None = None) -> Axes:
        """Draw the edges' scores as a heat map, causes in rows and effects in columns."""
        check_is_fitted(self)
        return plots.plot_adjacency(self.graph_, ax)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that was learned, as a JSON document and named arrays; `restore` takes it up again."""
        check_is_fitted(self)
        document = {
            "sites": self.sites_,
            "columns": self.feature_names_in_.tolist(),
            "ledger": vars(self.communication_),
            "seconds": self.seconds_,
        }
        return document, {"edge_scores": np.asarray(self.graph_.scores), **graph_arrays(self.graph_)}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> Self:
        """Become the fitted estimator whose `snapshot` this is; the parameters must be the same."""
        self.graph_ = graph_from_arrays(arrays, document["columns"], arrays["edge_scores"])
        self.communication_ = Ledger(**document["ledger"])
        return self._completed(document["sites"], document["seconds"])

    def _completed(self, sites: Sequence[str], seconds: float) -> Self:
        """Set the attributes that every learner has beside `graph_`."""
        self.adjacency_ = self.graph_.adjacency
        self.edge_scores_ = edge_table(np.asarray(self.graph_.scores), self.graph_.names)
        self.feature_names_in_ = np.array(self.graph_.names, dtype=object)
        self.n_features_in_ = len(self.graph_.names)
        self.sites_, self.seconds_ = tuple(sites), seconds
        return self

    def edge_threshold(self) -> float | None:
        """Return the score above which an edge stands; None where the scores alone do not decide."""
        return None

    def knowledge_of(self, columns: Sequence[str]) -> Knowledge:
        """Return what is known of the graph, or refuse what contradicts itself."""
        return Knowledge.of(columns, self.required, self.forbidden, self.tiers, self.exogenous)

    def worker_count(self) -> int:
        """Return the number of threads to use."""
        return self.workers or joblib.cpu_count()

    def fingerprint(self, silos: Sequence[Silo]) -> str:
        """Hash all that decides the result, so that a run is never resumed as another."""
        parameters = {name: value for name, value in self.get_params().items() if name != "workers"}
        described = [type(self).__name__, parameters]
        digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=_plain).encode())
        for silo in silos:
            digest.update(json.dumps([silo.name, silo.digest()]).encode())
        return digest.hexdigest()


def graph_arrays(graph: CausalGraph) -> dict[str, np.ndarray]:
    """Return the matrices of a graph, for a file; `graph_from_arrays` takes them up again."""
    return {"adjacency": graph.adjacency} | ({"marks": graph.marks} if graph.allows_hidden_causes else {})


def graph_from_arrays(arrays: Arrays, columns: Sequence[str], scores: ArrayLike) -> CausalGraph:
    """Make a graph of its matrices; there are marks only if the graph allows hidden common causes."""
    if "marks" in arrays:
        return CausalGraph.from_marks(arrays["marks"], columns, scores)
    return CausalGraph(arrays["adjacency"], columns, scores)


def edge_table(values: Float[np.ndarray, "node node"], names: Sequence[str]) -> pd.DataFrame:
    """Return a table of numbers for every possible edge, causes in rows and effects in columns."""
    labels = list(names)
    return pd.DataFrame(values, labels, labels, copy=True).rename_axis(index="cause", columns="effect")


def disclosed(tasks: Sequence[TaskSpec]) -> str:
    """Say in plain words what leaves a site that answers these tasks."""
    sentences = []
    for every_site, opening in ((True, "In sums over all sites"), (False, "In sums over the sites that answer")):
        texts = [task.discloses for task in tasks if task.every_site is every_site]
        if texts:
            listed = "; ".join(text[0].lower() + text[1:] for text in dict.fromkeys(texts))
            sentences.append(f"{opening}: {listed}.")
    return " ".join(sentences) or "Nothing."


def _plain(value: Any) -> Any:
    """Convert a parameter that JSON does not know: a learner, or one of numpy's numbers."""
    return type(value).__name__ if isinstance(value, Learner) else float(value)
