"""How well discrete parents explain a discrete variable: the evidence of complete tables.

A table has a free probability for each level of the child under each combination of its parents' levels, with a
Dirichlet prior (BDeu; Heckerman, Geiger and Chickering, "Learning Bayesian networks", Machine Learning 1995). The
log-evidence of a family is F(child and parents) − F(parents), where a set S of variables has

    F(S) = Σ log Γ(a + N) − log Γ(a),    a = SAMPLE_SIZE / (combinations of levels of S),

summed over the combinations that occur, each in N rows. Since F is a function of the set alone, all graphs of a Markov
equivalence class have the same score: no direction is preferred unless conditional independences tell it.

**Several sites.** The log-evidence is the sum of how well each row is predicted by the rows before it. Among K sites
the first n rows, as many as one site has, are learned from nothing: that is F at a site. The other (K − 1) n rows are
predicted from n rows and more, at least as well as a site's rows are predicted from all its other rows:

    L(S) = Σ N log(a + N − 1).

So a site's share in the evidence of all rows is about F/K + (1 − 1/K) L, again a function of the set. With K = 1 it is
the evidence itself. Were every site to learn its tables from nothing, K sites would pay K times for each probability,
and few edges would be worth it; with this share the price is near that of one table for all rows, whether tables are
alike at all sites or not, and one number per family leaves a site.

**Small cells.** Where fewer rows than a site allows share a combination, its rows count one by one, each with

    log(SMALL_CELL_ROWS · Π share of the row's level of each variable):

as often as if the variables were independent. So a family predicts such a row by the level's share alone. What leaves
depends on which levels these rows have, all of them together, and not on which levels go together in one row. Where
even all of them are too few, every level has the same share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from feddag.regression.dependence import PairDependence, table_dependence

SAMPLE_SIZE = 2.0
"""The rows that the prior is worth, over a whole table."""
SMALL_CELL_ROWS = 20.0
"""The rows that it is worth for rows of small cells."""


class _Cells(NamedTuple):
    """The combinations of levels of a set of variables that occur."""

    of_rows: Int[np.ndarray, " row"]
    """The number of each row's combination."""
    rows: Float[np.ndarray, " cell"]
    """How many rows each combination has."""
    prior: float
    """The a of each."""


class Tables:
    """The discrete variables of one site, and the scores of their families."""

    def __init__(
        self,
        codes: Int[np.ndarray, "row node"],
        levels: Sequence[int],
        *,
        sites: int,
        minimum_cell: int = 1,
    ) -> None:
        """Keep the columns.

        Args:
            codes: The number of each row's level, 0, 1, ..., of each variable.
            levels: How many levels each has.
            sites: The number of sites, this one included.
            minimum_cell: Rows that share their levels with fewer rows count one by one.
        """
        self._codes = np.asfortranarray(codes, dtype=np.int64)
        self._levels = list(levels)
        self._own_share = 1 / sites
        self._minimum_cell = minimum_cell
        self._known: dict[frozenset[int], float] = {}

    def score(self, child: int, parents: Iterable[int]) -> float:
        """Return the negative log-evidence of a family, per row."""
        given = frozenset(parents)
        return (self._log_evidence(given) - self._log_evidence(given | {child})) / len(self._codes)

    def row_losses(self, child: int, parents: Iterable[int]) -> Float[np.ndarray, " row"]:
        """Return each row's negative log-probability by the tables learned from all rows. It never leaves a site."""
        given = frozenset(parents)
        return self._row_logs(given) - self._row_logs(given | {child})

    def dependence(self, one: int, other: int, given: Iterable[int]) -> PairDependence:
        """Say how far two variables depend on each other given some others.

        Where few rows that share a combination may not tell of it, the other cells are compared, by their likelihood.
        """
        nodes = frozenset(given)
        if self._minimum_cell > 1:
            return self._dependence_of_large_cells(one, other, nodes)
        of_rows, sizes = self._cells(nodes).of_rows, (self._levels[one], self._levels[other])
        cells = (of_rows * sizes[0] + self._codes[:, one]) * sizes[1] + self._codes[:, other]
        strata = int(of_rows.max()) + 1
        return table_dependence(np.bincount(cells, minlength=strata * sizes[0] * sizes[1]).reshape(strata, *sizes))

    def _dependence_of_large_cells(self, one: int, other: int, given: frozenset[int]) -> PairDependence:
        """Compare tables by twice the log-likelihood, whose mean by chance is the number of parameters."""
        rows = len(self._codes)
        alone, few = self._fit(one, given)
        both, more = self._fit(one, given | {other})
        return PairDependence((2 * (alone - both) - (more - few)) / rows, 2 * max(more - few, 0) / rows)

    def _fit(self, child: int, given: frozenset[int]) -> tuple[float, int]:
        """Return the least negative log-likelihood of a family, and its free probabilities."""
        (having, _), (without, combinations) = self._likelihood(given | {child}), self._likelihood(given)
        return without - having, combinations * (self._levels[child] - 1)

    def _likelihood(self, nodes: frozenset[int]) -> tuple[float, int]:
        """Return Σ N log N, and how many combinations of levels occur."""
        rows = self._cells(nodes).rows
        small = self._small(rows)
        together = rows[~small]
        return float((together * np.log(together)).sum()), len(together) + int(rows[small].sum())

    def _log_evidence(self, nodes: frozenset[int]) -> float:
        if nodes not in self._known:
            of_rows, rows, prior = self._cells(nodes)
            small = self._small(rows)
            together = rows[~small]
            evidence = (gammaln(prior + together) - gammaln(prior)).sum()
            others = (together * np.log(prior + together - 1)).sum() if self._own_share < 1 else 0.0
            share = self._own_share * evidence + (1 - self._own_share) * others
            alone = self._independent(nodes, np.flatnonzero(small[of_rows])).sum() if small.any() else 0.0
            self._known[nodes] = float(share + alone)
        return self._known[nodes]

    def _row_logs(self, nodes: frozenset[int]) -> Float[np.ndarray, " row"]:
        of_rows, rows, prior = self._cells(nodes)
        logs = np.log(prior + rows)[of_rows]
        alone = np.flatnonzero(self._small(rows)[of_rows])
        logs[alone] = self._independent(nodes, alone)
        return logs

    def _independent(self, nodes: frozenset[int], rows: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
        """Return what some rows of small cells count."""
        logs = np.full(len(rows), np.log(SMALL_CELL_ROWS))
        if len(rows) < self._minimum_cell:
            return logs - sum(np.log(self._levels[node]) for node in nodes)
        for node in nodes:
            shares = np.bincount(self._codes[:, node]) / len(self._codes)
            logs += np.log(shares[self._codes[rows, node]])
        return logs

    def _cells(self, nodes: frozenset[int]) -> _Cells:
        code, size, combinations = np.zeros(len(self._codes), dtype=np.int64), 1, 1.0
        for node in sorted(nodes):
            levels = self._levels[node]
            code = code * levels + self._codes[:, node]
            size, combinations = size * levels, combinations * levels
            if size > 4 * len(code):  # most of these do not occur
                occurring, code = np.unique(code, return_inverse=True)
                size = len(occurring)
        rows = np.bincount(code, minlength=size)
        occurs = rows > 0
        return _Cells((np.cumsum(occurs) - 1)[code], rows[occurs].astype(float), SAMPLE_SIZE / combinations)

    def _small(self, rows: Float[np.ndarray, " cell"]) -> Bool[np.ndarray, " cell"]:
        return rows < self._minimum_cell
