"""How well a graph predicts rows that sites have laid aside, whatever method has learned it.

Every site fits its own mechanisms for the graph to some of its rows, and tries them on the others. A mechanism is a
regression that has nothing to tune (`regression.prediction`); a row's score is its negative log-likelihood, variable
by variable, so that units do not matter. Only the mean score leaves a site.
"""

from __future__ import annotations

from collections.abc import Sequence

import joblib
import numpy as np

from feddag.errors import FeddagError
from feddag.federation import Answer, Federation, InProcess, Stateless, Task, unknown_task
from feddag.federation.tasks import Output, TaskSpec
from feddag.graphs import Adjacency, CausalGraph, dag_extension
from feddag.regression.features import level_counts
from feddag.regression.prediction import OwnRegressions
from feddag.silos import CheckedSilos, Silo
from feddag.silos.checks import MINIMUM_ROWS

SHARE_LAID_ASIDE = 0.2
"""The share of each site's rows that graphs are tried on."""
SCORE = TaskSpec(
    "selection.score",
    "How well a graph predicts rows that the site has laid aside",
    {"score": Output("one number for the graph")},
)


def log_likelihood(graph: CausalGraph, silos: CheckedSilos) -> float:
    """Return the mean log-likelihood of rows laid aside, drawn at random but always the same: higher is better."""
    sites = [Validation(silo, SHARE_LAID_ASIDE, 0, k) for k, silo in enumerate(silos)]
    with InProcess(sites, min(joblib.cpu_count(), len(sites))) as federation:
        return -mean_score(federation, graph, silos[0].columns)


def mean_score(federation: Federation, graph: CausalGraph, columns: Sequence[str], *, round_: int = 1) -> float:
    """Score a graph on the validation rows of all sites; open directions are those of some DAG that it stands for."""
    adjacency = dag_extension(graph.reordered(columns).adjacency)
    mean = SCORE.ask(federation, round_, {"adjacency": adjacency})
    return float(mean["score"])


class Validation(Stateless):
    """A site's side: it fits mechanisms to some rows, and tries them on the others."""

    def __init__(self, silo: Silo, share: float, seed: int, position: int) -> None:
        aside = max(1, round(share * silo.rows))
        if silo.rows - aside < MINIMUM_ROWS:
            raise FeddagError(
                f"Site {silo.name!r}: {silo.rows} rows less {aside} to validate on are too few to learn from. "
                f"Keep at least {MINIMUM_ROWS}: choose a smaller validation share, or leave the site out."
            )
        order = np.random.default_rng([seed, position]).permutation(silo.rows)
        rest, chosen = np.sort(order[aside:]), np.sort(order[:aside])
        self.name = silo.name
        self.training = silo.with_rows(rest)
        """The rows to learn a graph from."""
        self._own = OwnRegressions(self.training.values, silo.values[chosen], level_counts(silo.kinds))

    def answer(self, task: Task) -> Answer:
        """Answer the one task, `SCORE`."""
        if task.name != SCORE.name:
            raise unknown_task(self.name, task, (SCORE.name,))
        return Answer(float(len(self._own.held_out)), {"score": np.array(self.score(task.arrays["adjacency"]))})

    def score(self, adjacency: Adjacency) -> float:
        """Return the mean negative log-likelihood of a validation row, after each number was brought to deviation 1."""
        units = np.log(self._own.frame.scale).sum()
        return float(-units - self._own.of_graph(adjacency).mean())
