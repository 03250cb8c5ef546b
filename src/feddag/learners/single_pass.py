"""The bases of learners that keep no state on the way: an interrupted fit begins again."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from feddag.errors import FeddagError
from feddag.federation import Federation, Ledger
from feddag.federation.protocol import Arrays
from feddag.graphs import CausalGraph
from feddag.learners.base import Learner, graph_arrays, graph_from_arrays
from feddag.learners.checkpointing import FitContext
from feddag.learners.federated import FederatedLearner
from feddag.learners.status import Status
from feddag.silos import CheckedSilos, Silo

Note = Callable[[dict[str, float]], None]
"""Record figures by identifier: the caller receives them as a `Status`, and they become a row of the history."""


@dataclass
class Records:
    """The figures that a learner noted."""

    rows: list[dict[str, float]] = field(default_factory=list)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per note."""
        return pd.DataFrame(self.rows)


class SinglePass(Learner):
    """A learner of which only the outcome is kept: a fit that had ended is not repeated."""

    history_: Records

    def _once(self, context: FitContext, learn: Callable[[Note], CausalGraph], ledger: Ledger) -> None:
        """Set the graph that `learn` returns, the history, and the bytes that `ledger` has counted by then."""
        started = time.monotonic()
        outcome = _Outcome()
        checkpointer = context.checkpointer(outcome)

        def note(figures: dict[str, float]) -> None:
            outcome.records.rows.append(figures | ledger.so_far())
            checkpointer.after_round(Status(None, dict(figures), time.monotonic() - started))

        if outcome.graph is None:
            with threadpool_limits(1):  # on small matrices BLAS's threads but wait for each other
                outcome.graph, outcome.ledger = learn(note), ledger
            note({"edges": outcome.graph.edge_count})
            checkpointer.save()
        self.graph_, self.history_, self.communication_ = outcome.graph, outcome.records, outcome.ledger

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that was learned, with the history."""
        document, arrays = super().snapshot()
        return {**document, "rows": self.history_.rows}, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> Self:
        """Become the fitted estimator, with the history."""
        self.history_ = Records(document["rows"])
        return super().restore(document, arrays)


@dataclass
class _Outcome:
    """What a checkpoint holds."""

    graph: CausalGraph | None = None
    records: Records = field(default_factory=Records)
    ledger: Ledger = field(default_factory=Ledger)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        document = {"rows": self.records.rows, "ledger": vars(self.ledger)}
        if self.graph is None:
            return document, {}
        arrays = {**graph_arrays(self.graph), "scores": np.asarray(self.graph.scores)}
        return {**document, "columns": self.graph.names}, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        if arrays:
            self.graph = graph_from_arrays(arrays, document["columns"], arrays["scores"])
            self.records, self.ledger = Records(document["rows"]), Ledger(**document["ledger"])


class FederatedSinglePass(SinglePass, FederatedLearner):
    """A learner with two sides that writes `learn_once`."""

    @abstractmethod
    def learn_once(self, federation: Federation, columns: tuple[str, ...], note: Note) -> CausalGraph:
        """Return the graph with its scores."""

    def learn(self, federation: Federation, columns: tuple[str, ...], context: FitContext) -> None:
        """Call `learn_once`, unless the checkpoint already holds a graph."""
        self._once(context, lambda note: self.learn_once(federation, columns, note), federation.ledger)


class OneTable(SinglePass):
    """A learner that knows no sites: it learns from one table of variables none of which the others determine."""

    @abstractmethod
    def learn_table(self, table: Silo) -> CausalGraph:
        """Return the graph with its scores."""

    def fit_silos(self, silos: tuple[Silo, ...], context: FitContext) -> None:
        """Call `learn_table`, unless the checkpoint already holds a graph."""
        self._once(context, lambda note: self.learn_table(silos[0]), Ledger())

    def check(self, silos: Any) -> CheckedSilos:
        """Check the tables, that there is only one, and that no column is a linear function of others."""
        silos = super().check(silos)
        if len(silos) > 1:
            raise FeddagError(
                f"{type(self).__name__} learns from one table, and there are {len(silos)} sites. "
                "Choose a regime: InRegime(learner, 'separate')."
            )
        check_rank(silos)
        return silos


def check_rank(silos: Sequence[Silo]) -> None:
    """Refuse tables, taken together, in which a variable is a linear function of others."""
    where = f"Site {silos[0].name!r}" if len(silos) == 1 else "All sites together"
    values = np.concatenate([silo.values for silo in silos])
    check_covariance(np.cov(values, rowvar=False), len(values), silos[0].columns, where)


def check_covariance(covariance: Float[np.ndarray, "node node"], rows: int, columns: Sequence[str], where: str) -> None:
    """Refuse a covariance matrix from too few rows, or in which a variable is a linear function of others."""
    if rows <= len(columns):
        raise FeddagError(f"{where}: {rows} rows are too few for {len(columns)} columns. Give more rows than columns.")
    deviations = np.sqrt(covariance.diagonal())
    correlations = covariance / np.outer(deviations, deviations)
    if np.linalg.matrix_rank(correlations, hermitian=True) == len(columns):
        return
    dependent = next(
        k for k in range(1, len(columns)) if np.linalg.matrix_rank(correlations[: k + 1, : k + 1], hermitian=True) <= k
    )
    raise FeddagError(
        f"{where}: column {columns[dependent]!r} is a linear function of columns before it. Drop one of them."
    )
