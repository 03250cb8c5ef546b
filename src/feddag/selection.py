"""Hyper-parameters chosen without the true graph, after appendix B.5 of the paper.

Every site lays some rows aside. Each combination of a grid learns a graph from the other rows; its edges are then
fixed, and each site fits its own mechanisms anew, without the acyclicity constraint, which spoils them late in a fit.
The rows laid aside tell how well these predict, and the combination with the best mean over all sites' rows is
chosen.

The paper fits its own networks anew. Here a mechanism is a regression that has nothing to tune
(`regression.prediction`), so that all methods are judged alike; and a row's score is its negative log-likelihood,
variable by variable, so that units do not matter. Only the mean score leaves a site.

A graph with superfluous edges predicts nearly as well as the right one, so the choice guards against lost edges more
than against false ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd

from feddag import constraints
from feddag.constraints import Grid
from feddag.errors import AssumptionWarning, FeddagError
from feddag.federation import Answer, Federation, InProcess, Site, Task
from feddag.federation.protocol import Arrays
from feddag.federation.side_by_side import JointSite, JointTaskSpec, Lane, run_side_by_side
from feddag.federation.tasks import Bounds, Output, TaskSpec, by_name
from feddag.graphs import CausalGraph, is_dag
from feddag.learners.base import PROPORTION, SEED
from feddag.learners.factory import make_learner
from feddag.learners.federated import FederatedLearner
from feddag.learners.registry import Regime, find_method
from feddag.learners.status import Status
from feddag.learners.validation import SCORE, SHARE_LAID_ASIDE, Validation, mean_score
from feddag.silos import Silo, read_silos
from feddag.study import Study

PUBLISHED_GRID: dict[str, tuple[float, ...]] = {"rho_init": (0.006, 0.008), "beta": (2.0, 10.0), "l1": (0.01, 0.3)}
"""The paper prints no grid; this one is spanned by the values that it reports for few variables, real and simulated."""

CANDIDATES = TaskSpec(
    "selection.candidates",
    "What the method asks with several combinations of parameters at once, and how well their graphs predict rows that "
    "the site has laid aside",
    {"*": Output("what the method's own tasks disclose, of rows that were not laid aside", None)},
)

Progress = Callable[[int, int, Status], None]
"""Called with the combination's position, their number, and where its fit stands."""


@dataclass(frozen=True)
class Candidate:
    """A combination of parameters, the graph it leads to, and how well that predicts."""

    parameters: dict[str, Any]
    score: float
    """Negative log-likelihood of a row laid aside, on average: lower is better."""
    graph: CausalGraph
    seconds: float


@dataclass(frozen=True)
class Selection:
    """All combinations, and the best of them."""

    candidates: tuple[Candidate, ...]
    best: Candidate

    def to_frame(self) -> pd.DataFrame:
        """Return one row per combination, the best first."""
        ranked = sorted(self.candidates, key=_rank)
        return pd.DataFrame(
            [
                {
                    **each.parameters,
                    "score": each.score,
                    "edges": each.graph.edge_count,
                    "seconds": each.seconds,
                    "chosen": each is self.best,
                }
                for each in ranked
            ]
        )


def select(
    silos: Any,
    method: str = "feddag",
    grid: Grid | None = None,
    *,
    regime: Regime | None = None,
    validation_share: float = SHARE_LAID_ASIDE,
    seed: int = 0,
    progress: Progress = lambda position, total, status: None,
    **fixed: Any,
) -> Selection:
    """Choose a method's parameters by how well its graphs predict rows laid aside.

    Args:
        silos: As of `Learner.fit`.
        method: Its name; see `feddag.methods`.
        grid: Values to try, by parameter; every combination is tried. `PUBLISHED_GRID` unless given, for FedDAG.
        regime: As of `make_learner`.
        validation_share: The share of each site's rows that is laid aside; drawn at random.
        seed: The seed of that draw, and of the learner where it has one.
        progress: Called after every round of every fit. What it raises ends the selection.
        fixed: Further parameters of the method, the same for all combinations.
    """
    constraints.check(
        {"validation_share": validation_share, "seed": seed}, {"validation_share": PROPORTION, "seed": SEED}
    )
    if grid is None and method != "feddag":
        raise FeddagError(
            f"There is no published grid for {method!r}. Say what to try, such as grid={{'l1': [0.01, 0.1]}}, or "
            "--grid l1=0.01,0.1."
        )
    combinations = constraints.combinations(PUBLISHED_GRID if grid is None else grid)
    if "seed" in find_method(method).parameters():
        fixed = {"seed": seed, **fixed}
    learners = [make_learner(method, regime, **{**fixed, **each}) for each in combinations]
    tables = read_silos(silos)
    for learner in learners:
        learner.check(tables)
    sites = [Validation(silo, validation_share, seed, k) for k, silo in enumerate(tables)]
    training = read_silos([site.training for site in sites])
    columns = training[0].columns
    candidates = []
    with InProcess(sites, min(joblib.cpu_count(), len(sites))) as federation:
        for k, (given, learner) in enumerate(zip(combinations, learners, strict=True), start=1):
            learner.fit(training, progress=lambda status, k=k: progress(k, len(learners), status))
            score = mean_score(federation, learner.guessed_graph, columns, round_=k)
            candidates.append(Candidate(given, score, learner.graph_, learner.seconds_))
            shown = ", ".join(f"{name}={value}" for name, value in given.items())
            figures = {"parameters": shown, "score": score}
            progress(k, len(learners), Status(None, figures, learner.seconds_))
    return Selection(tuple(candidates), min(candidates, key=_rank))


@dataclass(frozen=True)
class Candidates:
    """The combinations of a study, which sites on any engine try side by side; draws and figures as of `select`."""

    learners: tuple[FederatedLearner, ...]
    combinations: tuple[dict[str, Any], ...]
    columns: tuple[str, ...]
    sites: tuple[str, ...]
    seed: int = 0

    @classmethod
    def of(cls, study: Study) -> Self | None:
        """Return those of a study; `None` if it compares none."""
        if not study.trust.grid:
            return None
        combinations = constraints.combinations(study.trust.grid)
        seed = {"seed": 0} if "seed" in find_method(study.method.name).parameters() else {}
        given = {**seed, **study.method.parameters, **study.knowledge}
        learners = [make_learner(study.method.name, study.method.regime, **{**given, **each}) for each in combinations]
        federated = [each for each in learners if isinstance(each, FederatedLearner)]
        for learner in federated:
            learner.check_federation(len(study.sites), study.columns)
            specs = learner.tasks(study.columns, len(study.sites)).values()
            if any(spec.participants not in (None, len(study.sites)) for spec in specs):
                raise FeddagError(f"{study.source}: trust.grid needs every site in each round. Let all take part.")
        sites = tuple(site.name for site in study.sites)
        trials = tuple(each.with_sites(len(sites)) for each in federated)
        return cls(trials, tuple(combinations), study.columns, sites)

    def task_spec(self) -> JointTaskSpec:
        """Return the declaration of the one task."""
        nodes = len(self.columns)
        acyclic = {"a graph without cycles": lambda arrays: is_dag(arrays["adjacency"])}
        score = SCORE.with_bounds(arrays={"adjacency": Bounds(0, 1, "int8", (nodes, nodes))}, rules=acyclic)
        parts = [{**learner.tasks(self.columns, len(self.sites)), SCORE.name: score} for learner in self.learners]
        everyone = [tuple(range(len(self.sites)))] * len(parts)
        return JointTaskSpec.of(CANDIDATES.name, CANDIDATES.discloses, parts, everyone)

    def tasks(self) -> dict[str, TaskSpec]:
        """Return the task by its name."""
        return by_name((self.task_spec(),))

    def site(self, silo: Silo, position: int, secret: bytes = b"") -> JointSite:
        """Return a site's side. All combinations and all studies lay the same rows aside, so nothing here is secret."""
        del secret
        validation = Validation(silo, SHARE_LAID_ASIDE, self.seed, position)
        return JointSite(
            silo.name,
            position,
            self.task_spec(),
            lambda lane: _CandidateSite(self.learners[lane].site(validation.training, position), validation),
        )

    def learn(self, federation: Federation, *, maximum_weight: float = float("inf")) -> pd.DataFrame:
        """Try all combinations, and return one row for each, the best first."""
        spec, everyone = self.task_spec(), tuple(range(len(self.sites)))
        lanes = {
            lane: Lane(everyone, partial(self._candidate, lane, learner)) for lane, learner in enumerate(self.learners)
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)  # the fit itself has them
            found = run_side_by_side(federation, spec, spec, lanes, maximum_weight=maximum_weight)
        return Selection(tuple(found), min(found, key=_rank)).to_frame().drop(columns="seconds")

    def _candidate(self, lane: int, learner: FederatedLearner, federation: Federation) -> Candidate:
        learner.fit_federation(federation, self.columns)
        score = mean_score(federation, learner.guessed_graph, self.columns, round_=lane + 1)
        return Candidate(self.combinations[lane], score, learner.graph_, learner.seconds_)


class _CandidateSite:
    """A learner's site on the rows to learn from, and the rows laid aside. Satisfies `feddag.federation.Site`."""

    def __init__(self, learning: Site, validation: Validation) -> None:
        self.name = validation.name
        self._learning = learning
        self._validation = validation

    def answer(self, task: Task) -> Answer:
        return (self._validation if task.name == SCORE.name else self._learning).answer(task)

    def snapshot(self) -> dict[str, np.ndarray]:
        return self._learning.snapshot()

    def restore(self, state: Arrays) -> None:
        self._learning.restore(state)


def _rank(candidate: Candidate) -> tuple[float, int]:
    """Rank by score; of graphs that predict alike, the one with fewer edges comes first."""
    return round(candidate.score, 9), int(candidate.graph.adjacency.sum())
