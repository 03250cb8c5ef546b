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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import joblib
import pandas as pd

from feddag import constraints
from feddag.constraints import Grid
from feddag.errors import FeddagError
from feddag.federation import InProcess
from feddag.graphs import CausalGraph
from feddag.learners.base import PROPORTION, SEED
from feddag.learners.factory import make_learner
from feddag.learners.registry import Regime, find_method
from feddag.learners.status import Status
from feddag.learners.validation import SHARE_LAID_ASIDE, Validation, mean_score
from feddag.silos import read_silos

PUBLISHED_GRID: dict[str, tuple[float, ...]] = {"rho_init": (0.006, 0.008), "beta": (2.0, 10.0), "l1": (0.01, 0.3)}
"""The paper prints no grid; this one is spanned by the values that it reports for few variables, real and simulated."""

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


def _rank(candidate: Candidate) -> tuple[float, int]:
    """Rank by score; of graphs that predict alike, the one with fewer edges comes first."""
    return round(candidate.score, 9), int(candidate.graph.adjacency.sum())
