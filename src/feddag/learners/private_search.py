"""Search for a graph in a protected release: all that ever leaves the sites does not tell whether a row was there.

The sites sum products of bounded functions of their rows (`feddag.regression.bounded_features`) once, with noise that
they make together (`feddag.federation.row_privacy`). The search over orders, the evidence for each edge and all that
follows is computed from this one noisy matrix, and costs no further privacy and no further round. Of straight lines
alone a rough release goes before, which tells in which frame noise does least harm (`feddag.regression.frames`).

Assumes: one DAG behind all sites, the same mechanisms everywhere, no hidden common causes, and normal noise that is
added to smooth functions of one or two causes. Ranges, levels and the expected number of rows are declared, and never
taken from the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation import Federation, Site
from feddag.federation.discrete_gaussian import WholeNoise, simulated_noise, system_noise
from feddag.federation.protocol import Answer, Arrays, Stateless, Task, unknown_task
from feddag.federation.row_privacy import CONSTRAINTS as PRIVACY
from feddag.federation.row_privacy import NoisePlan, RowPrivacy
from feddag.federation.tasks import LARGEST_PARAMETER, Bounds, Output, TaskSpec, by_name
from feddag.graphs import CausalGraph
from feddag.learners import knowledge
from feddag.learners.base import SEED
from feddag.learners.checkpointing import FitContext
from feddag.learners.federated import FederatedLearner
from feddag.learners.knowledge import Edges
from feddag.learners.search.coordinator import SearchCoordinator
from feddag.learners.search.directions import EdgeEvidence
from feddag.learners.search.refinement import edge_scores
from feddag.learners.search.released import Release, ReleasedScores, frame_of
from feddag.learners.single_pass import Records
from feddag.learners.status import Status
from feddag.regression.bounded_features import FeatureMap, feature_map
from feddag.regression.frames import FramedMap
from feddag.silos import Silo
from feddag.silos.declarations import is_range
from feddag.silos.variable_types import KINDS, Kind

RELEASE = TaskSpec(
    "private.release",
    "Sums of products of bounded functions of all variables, with noise that hides every single row",
    {"products": Output("sums of products of bounded functions, with noise that hides every row", ("entry",))},
    every_site=False,
)
ROUGH = TaskSpec(
    "private.rough",
    "Sums of products of all variables, with much noise that hides every single row",
    {"products": Output("sums of products of numbers, with noise that hides every row", ("entry",))},
    every_site=False,
    row_privacy=0.3,
)
FRAMED = TaskSpec(
    "private.framed",
    "Sums of products of nearly uncorrelated combinations of all variables, with noise that hides every single row",
    {"products": Output("sums of products of combinations, with noise that hides every row", ("entry",))},
    every_site=False,
    row_privacy=1 - ROUGH.row_privacy,
)

Range = tuple[float, float] | Sequence[float]
MOST_LEVELS = 16


def _ranges(value: Any) -> bool:
    return is_range(value) or (isinstance(value, Mapping) and all(map(is_range, value.values())))


def _levels(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        constraints.is_whole(count, 2) and count <= MOST_LEVELS for count in value.values()
    )


@dataclass(eq=False, repr=False)
class PrivateSearch(FederatedLearner):
    """Learn one causal graph from many sites, with differential privacy of every row.

    Args:
        epsilon, delta: What all that leaves the sites may reveal of one person.
        ranges: The smallest and largest value of each number: by name, or one pair for all. Values beyond are clamped.
            Declare what is plausible (about three standard deviations to either side), never what the data show.
        levels: By name the number of levels of each discrete variable.
        rows_per_person: The most rows that one person has.
        expected_rows: About how many rows all sites have together, known beforehand: it decides how many functions
            are released.
        mechanisms: `"smooth"`: functions of one and of two causes; `"linear"`: straight lines, with the least noise,
            in two releases that together reveal what is stated.
        noise: `"free"`: every variable has its own noise variance, and units do not matter; `"equal"`: all have the
            same, in the units given.
        quorum: How many sites must enter the sum; all unless given. The noise of all of these but one suffices, so
            that no site, which knows its own, learns more.
        restarts: Further searches, each from the best order so far with a fourth of it shuffled.
        required, forbidden, tiers, exogenous: Knowledge about the graph, as of `EvidenceSearch`.
        confidence: How sure an edge, and its direction, must be to be reported.
        keep_doubtful: Whether `graph_` also has the edges that are not surely there.
        seed: The seed of the restarts.
        noise_seed: For simulations: the seed of the privacy noise. Whoever knows it can subtract the noise, so that
            nothing is protected. Without it, noise comes from the operating system, and no two fits are alike.

    Attributes:
        graph_: The learned `CausalGraph`: the edges that are surely there, with open directions undirected.
        dag_: The graph of greatest evidence itself, every edge directed.
        edge_evidence_: A table of the edges, as of `EvidenceSearch`; standard errors hold both sampling and noise.
        release_: The noisy products, as they left the sites: all that was learned from. Of straight lines alone, those
            of both releases.

    Examples:
        >>> import feddag
        >>> simulation = feddag.simulate(4, mechanism="gp", sites=5, rows=4000, seed=1)
        >>> learner = feddag.PrivateSearch(epsilon=3, ranges=(-4, 4), expected_rows=20_000, noise_seed=1)
        >>> learner.fit(simulation).graph_.edges == simulation.truth.edges
        True
    """

    kinds: ClassVar = frozenset(KINDS)
    private: ClassVar = True
    task_specs: ClassVar = (RELEASE, ROUGH, FRAMED)
    parameter_constraints: ClassVar = {
        **PRIVACY,
        "ranges": constraints.Constraint("a pair such as (0, 120), or a mapping from names to such pairs", _ranges),
        "levels": constraints.Constraint(f"a mapping from names to whole numbers from 2 to {MOST_LEVELS}", _levels),
        "expected_rows": constraints.whole(10),
        "mechanisms": constraints.one_of(("smooth", "linear")),
        "noise": constraints.one_of(("free", "equal")),
        "quorum": constraints.whole(1) | constraints.none,
        "restarts": constraints.whole(0),
        **knowledge.CONSTRAINTS,
        "confidence": constraints.number("a number from 0.5 to less than 1", lambda value: 0.5 <= value < 1),
        "keep_doubtful": constraints.boolean,
        "seed": SEED,
        "noise_seed": SEED | constraints.none,
    }

    dag_: CausalGraph = field(init=False)
    edge_evidence_: pd.DataFrame = field(init=False)
    release_: Float[np.ndarray, " entry"] = field(init=False)
    history_: Records = field(init=False)

    epsilon: float = 1.0
    delta: float = 1e-6
    ranges: Range | Mapping[str, Range] = field(default_factory=dict)
    _: KW_ONLY
    levels: Mapping[str, int] = field(default_factory=dict)
    rows_per_person: int = 1
    expected_rows: int = 10_000
    mechanisms: Literal["smooth", "linear"] = "smooth"
    noise: Literal["free", "equal"] = "free"
    quorum: int | None = None
    restarts: int = 5
    required: Edges = ()
    forbidden: Edges = ()
    tiers: Sequence[Sequence[str]] = ()
    exogenous: Sequence[str] = ()
    confidence: float = 0.95
    keep_doubtful: bool = False
    seed: int = 0
    noise_seed: int | None = None

    @property
    def shares(self) -> str:
        """Moments of bounded functions, under noise."""
        return "moments"

    @property
    def privacy(self) -> RowPrivacy:
        """What the release may reveal of one person."""
        return RowPrivacy(self.epsilon, self.delta, self.rows_per_person)

    def check_federation(self, sites: int, columns: Sequence[str]) -> None:
        """Refuse parameters that contradict the variables or the sites."""
        super().check_federation(sites, columns)
        if self.quorum is not None and self.quorum > sites:
            raise FeddagError(f"quorum must be at most the number of sites, {sites}. Got {self.quorum} instead.")
        self.features(columns)

    def check_deployment(self) -> None:
        """Refuse noise that others can subtract."""
        if self.noise_seed is not None:
            raise FeddagError(
                "noise_seed is for simulations: whoever reads the study can subtract the noise. Leave it out."
            )

    def check_kinds(self, kinds: Mapping[str, Kind]) -> None:
        """Refuse discrete variables whose levels are not declared, or with noise of equal variance."""
        super().check_kinds(kinds)
        for name, kind in kinds.items():
            declared = self.levels.get(name, 0)
            if len(kind.levels) != declared:
                raise FeddagError(
                    f"{name!r} is {kind}, and levels declares {declared} levels of it. Declare all levels of discrete "
                    f"variables and none of others: levels={{{name!r}: {len(kind.levels)}}}."
                    if kind.discrete
                    else f"{name!r} is continuous, and levels declares {declared} levels of it. Leave it out of levels."
                )
            if kind.discrete and self.noise == "equal":
                raise FeddagError(
                    f"With noise='equal' all variables must be continuous, and {name!r} is {kind.name}. "
                    "Choose noise='free'."
                )

    def features(self, columns: Sequence[str]) -> FeatureMap:
        """Return the functions that are released of these variables, known before any row is seen."""
        return feature_map(
            {name: self._range(name) for name in columns if name not in self.levels},
            {name: self.levels.get(name, 0) for name in columns},
            expected_rows=self.expected_rows,
            multiplier=self.privacy.multiplier * self.rows_per_person,
            linear=self.mechanisms == "linear",
        )

    def releases(self, columns: Sequence[str]) -> tuple[TaskSpec, ...]:
        """Return what is released: once, or of straight lines alone first what tells the frame of the second."""
        return (ROUGH, FRAMED) if self.features(columns).linear else (RELEASE,)

    def plan(self, columns: Sequence[str], sites: int, spec: TaskSpec) -> NoisePlan:
        """Return how the sites make the noise of a release together."""
        features = self.features(columns)
        if spec is FRAMED:
            features = FramedMap.of(features)  # whatever the frame, no row adds more
        shares = max(1, (self.quorum or sites) - 1)
        return NoisePlan(self.privacy.part(spec.row_privacy), features.sensitivity, shares, features.entries)

    def _range(self, name: str) -> tuple[float, float]:
        found = self.ranges.get(name) if isinstance(self.ranges, Mapping) else self.ranges
        if found is None:
            raise FeddagError(
                f"There is no range of {name!r}. Declare which values are plausible, without a look at the data: "
                f"ranges={{{name!r}: (low, high)}}; in a study, range = [low, high] of the variable."
            )
        return float(found[0]), float(found[1])

    def site(self, silo: Silo, position: int) -> Site:
        """Return the side that sums products of bounded functions, and adds its share of the noise."""
        self.check_kinds(dict(zip(silo.columns, silo.kinds, strict=True)))
        noise = system_noise if self.noise_seed is None else simulated_noise(self.noise_seed, position)
        return ReleasingSite(silo.name, silo.values, self.features(silo.columns), noise)

    def tasks(self, columns: Sequence[str], sites: int) -> Mapping[str, TaskSpec]:
        """Return the releases, which bring the σ of each site's share, and the frame of a second one."""
        return by_name(self._bounded(spec, columns, sites) for spec in self.releases(columns))

    def _bounded(self, spec: TaskSpec, columns: Sequence[str], sites: int) -> TaskSpec:
        deviation = float(self.plan(columns, sites, spec).share_deviation)
        nodes = len(columns)
        shapes = {"center": (nodes,), "frame": (nodes, nodes)} if spec is FRAMED else {}
        return spec.with_bounds(
            numbers={"deviation": Bounds(deviation, deviation, whole=True)},
            arrays={name: Bounds(-LARGEST_PARAMETER, LARGEST_PARAMETER, shape=shape) for name, shape in shapes.items()},
        )

    def learn(self, federation: Federation, columns: tuple[str, ...], context: FitContext) -> None:
        """Ask for the releases, search in the last one, and weigh each edge."""
        state = _Asked()
        checkpointer = context.checkpointer(state, federation)
        features, numbers = self.features(columns), 0
        for place, spec in enumerate(self.releases(columns)):
            arrays = frame_of(features, *state.asked[-1]) if spec is FRAMED else {}
            features = FramedMap.of(features, **arrays) if spec is FRAMED else features
            plan = self.plan(columns, len(federation.sites), spec)
            numbers += plan.numbers
            if place == len(state.asked):  # a fit that is resumed must not ask for another release
                mean = spec.ask(federation, place, arrays, {"deviation": float(plan.share_deviation)})
                entries = np.rint(mean["products"] * federation.summed)
                state.asked.append((entries, plan.share_deviation * math.sqrt(federation.summed)))
                checkpointer.save()
                checkpointer.after_round(Status(None, {"stage": spec.name, "numbers": numbers}, context.seconds))
        release = Release.of(features, *state.asked[-1])
        with threadpool_limits(1):
            self._search(federation, columns, context, release)
        self.release_ = np.concatenate([entries for entries, _ in state.asked])
        self.communication_ = federation.ledger
        edges = len(self.graph_.edges) + len(self.graph_.undirected_edges)
        self.history_ = Records([{"rows": release.rows, "edges": edges, **federation.ledger.so_far()}])

    def _search(self, federation: Federation, columns: tuple[str, ...], context: FitContext, release: Release) -> None:
        known = self.knowledge_of(columns)
        coordinator = SearchCoordinator(
            federation,
            known,
            scores=ReleasedScores(release),
            equal_noise=self.noise == "equal",
            clock=lambda: context.seconds,
        )
        best, _ = coordinator.run(None, self.restarts, None, np.random.default_rng(self.seed))
        scores = edge_scores(coordinator.scores, known, best.dag)
        directions = coordinator.weigh(best.dag, self.confidence)
        reported = directions.graph if self.keep_doubtful else directions.sure_edges()
        self.dag_ = CausalGraph(best.dag, columns, scores)
        self.graph_ = CausalGraph(reported, columns, scores)
        self.edge_evidence_ = directions.table(columns)

    @property
    def guessed_graph(self) -> CausalGraph:
        """Return the reported edges, each directed as in the graph of greatest evidence."""
        check_is_fitted(self)
        kept = self.graph_.adjacency | self.graph_.adjacency.T
        return CausalGraph(self.dag_.adjacency & kept, self.dag_.names, self.dag_.scores)

    @property
    def doubtful_edges(self) -> tuple[tuple[str, str], ...]:
        """List the edges of which it is not sure that they are there."""
        check_is_fitted(self)
        doubtful = self.edge_evidence_[self.edge_evidence_.present.eq(False)]
        return tuple(zip(doubtful.cause, doubtful.effect, strict=True))

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the evidence of each edge."""
        return super().tables() | {"edge_evidence": self.edge_evidence_}

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what was learned, as a document and arrays."""
        document, arrays = super().snapshot()
        document |= {"edge_evidence": self.edge_evidence_.to_dict("records"), "rows": self.history_.rows}
        return document, arrays | {"dag": self.dag_.adjacency, "release": self.release_}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> Self:
        """Take over a snapshot."""
        super().restore(document, arrays)
        self.dag_ = CausalGraph(arrays["dag"], document["columns"], self.graph_.scores)
        self.edge_evidence_ = pd.DataFrame(document["edge_evidence"], columns=list(EdgeEvidence._fields))
        self.history_ = Records(document["rows"])
        self.release_ = arrays["release"]
        return self


class ReleasingSite(Stateless):
    """A site that answers one task: its sums with its share of the noise, whole numbers both."""

    def __init__(
        self, name: str, values: Float[np.ndarray, "row node"], features: FeatureMap, noise: WholeNoise
    ) -> None:
        self.name = name
        self._values, self._features, self._noise = values, features, noise

    def answer(self, task: Task) -> Answer:
        """Sum, and add noise."""
        if task.name not in (specs := by_name(PrivateSearch.task_specs)):
            raise unknown_task(self.name, task, specs)
        features = FramedMap.of(self._features, **task.arrays) if task.name == FRAMED.name else self._features
        products = features.products(self._values)
        return Answer(1.0, {"products": products + self._noise(len(products), int(task.numbers["deviation"]))})


@dataclass
class _Asked:
    """What a checkpoint holds: the releases so far, and the deviation of the noise in each."""

    asked: list[tuple[Float[np.ndarray, " entry"], float]] = field(default_factory=list)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        entries = {f"entries {place}": each for place, (each, _) in enumerate(self.asked)}
        return {"deviations": [deviation for _, deviation in self.asked]}, entries

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        self.asked = [(arrays[f"entries {place}"], each) for place, each in enumerate(document["deviations"])]
