"""A site some of whose variables are discrete: their functions as parents, and their regressions as children.

A discrete child's family has the score of the table of its discrete parents (`regression.tables`), which is the same
for all graphs of an equivalence class. What its continuous parents add is the evidence of a logistic regression on
all parents, less that of one on the discrete ones alone. In coarse scores the child is then regressed as if its
indicators were numbers of known variance: the evidence of the logistic regression, expanded about no effect at all,
which needs Gram matrices only. A discrete parent acts by an indicator of each of its levels (as orthonormal contrasts
of them), an ordinal one too.

What leaves is one number for each family: a score of all rows. Were there a level with one row, the score of a number
given that level would tell this row's value, so a site on a network has none (`deployment.site.check_site`). For the
same reason its regressions leave out products of functions that tell apart combinations of levels with few rows
(`Silo.minimum_cell`), and tables do not tell how levels go together in rows of such combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from feddag.federation.protocol import Answer, Arrays, Task
from feddag.learners.search.sites import FamilyScores, OwnMechanisms
from feddag.learners.search.tasks import ROWS
from feddag.regression.dependence import PairDependence
from feddag.regression.evidence import CoarseEvidence, Targets
from feddag.regression.features import FUNCTIONS, ContrastFeatures
from feddag.regression.logistic import MOST_JOINT_FUNCTIONS, Levels, fit_levels
from feddag.regression.tables import Tables
from feddag.regression.views import by_parents
from feddag.silos import Silo

MOST_LEVELS = FUNCTIONS + 1
"""As many contrasts as other variables have functions."""


class _Indicators(NamedTuple):
    """Standardised indicators of all levels that occur, of all discrete variables; targets of coarse evidence."""

    nodes: Int[np.ndarray, " indicator"]
    values: Float[np.ndarray, "row indicator"]
    weights: Float[np.ndarray, " indicator"]
    """So that a variable's scores add up to that of its indicators together, whatever their correlations."""


class MixedMechanisms(OwnMechanisms):
    """A site of continuous and discrete variables whose mechanisms are its own."""

    def __init__(self, silo: Silo) -> None:
        super().__init__(silo, equal_noise=False)
        self._minimum_cell = silo.minimum_cell
        self._discrete = {
            node: Levels.of(silo.values[:, node], kind) for node, kind in enumerate(silo.kinds) if kind.discrete
        }
        self._is_discrete = np.array([kind.discrete for kind in silo.kinds])
        self._tables_among = lru_cache(maxsize=1)(self._tables_given)
        self._tables = self._tables_among(1)

    def answer(self, task: Task) -> Answer:
        """Answer a task of the search, as one of the sites that it is for."""
        self._tables = self._tables_among(len(task.participants))
        answer = super().answer(task)
        if task.name == ROWS.name:
            return replace(answer, arrays={**answer.arrays, "discrete": self._is_discrete.astype(float)})
        return answer

    def score_rows(self, task: Task) -> FamilyScores:
        """Score the families of a task, with every row's part in it."""
        self._tables = self._tables_among(len(task.participants))
        return super().score_rows(task)

    def _tables_given(self, sites: int) -> Tables:
        codes, levels = np.zeros(self._values.shape, dtype=np.int64), [1] * len(self._is_discrete)
        for node, found in self._discrete.items():
            codes[:, node], levels[node] = found.codes, len(found.shifts)
        return Tables(codes, levels, sites=sites, minimum_cell=self._minimum_cell)

    def _features(self, values: Float[np.ndarray, "row node"]) -> ContrastFeatures:
        return ContrastFeatures(values, self._levels, self._minimum_cell)

    @cached_property
    def _contrasts(self) -> ContrastFeatures:
        features = self._views[0].features
        assert isinstance(features, ContrastFeatures)
        return features

    @cached_property
    def _indicators(self) -> _Indicators:
        rows = len(self._values)
        nodes, values, weights = [], [np.empty((rows, 0))], [np.empty(0)]
        for node, levels in self._discrete.items():
            if levels.constant:
                continue
            if levels.directions.shape[1] == 1:  # binary, or ordinal: one number says all
                numbers = levels.directions[levels.codes]
                charged = np.ones(1)
            else:
                numbers = levels.indicators()
                charged = 1 - numbers.mean(axis=0)
            nodes += [node] * numbers.shape[1]
            values.append((numbers - numbers.mean(axis=0)) / numbers.std(axis=0))
            weights.append(charged)
        return _Indicators(np.array(nodes, dtype=int), np.concatenate(values, axis=1), np.concatenate(weights))

    @cached_property
    def _coarse_of_indicators(self) -> CoarseEvidence:
        nodes, values, _ = self._indicators
        features = self._contrasts.coarse()
        products = (features - features.mean(axis=0)).T @ values
        targets = Targets(nodes, products, np.full(len(nodes), float(len(values))))
        return CoarseEvidence(self._views[0].gram, len(values), np.ones(len(nodes)), len(self._levels), targets)

    def _neighbourhoods(self, arrays: Arrays) -> dict[str, np.ndarray]:
        children, parents = arrays["children"], arrays["parents"].astype(bool)
        discrete = self._is_discrete[children]
        scores = np.empty(parents.shape)
        smooth = {"children": children[~discrete], "parents": parents[~discrete], "reference": arrays["reference"]}
        scores[~discrete] = super()._neighbourhoods(smooth)["scores"]
        scores[discrete] = self._near_tables(children[discrete], parents[discrete])
        if not self._is_discrete.all():
            scores[discrete] += self._near_gains_of_numbers(children[discrete], parents[discrete])
        return {"scores": scores}

    def _near_tables(
        self, children: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"]
    ) -> Float[np.ndarray, "family node"]:
        """Score the tables of each family's discrete parents, and with one of these more or less."""
        scores = np.empty(parents.shape)
        for family, (child, given) in enumerate(zip(children.tolist(), parents & self._is_discrete, strict=True)):
            members = frozenset(np.flatnonzero(given).tolist())
            scores[family] = self._tables.score(child, members)
            for other in self._discrete.keys() - {child}:
                scores[family, other] = self._tables.score(child, members ^ {other})
        return scores

    def _near_gains_of_numbers(
        self, children: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"]
    ) -> Float[np.ndarray, "family node"]:
        """Return what each family's continuous parents add to its discrete ones, and with one parent more or less."""
        having = self._near_regressions(children, parents)
        without = self._near_regressions(children, parents & self._is_discrete)
        own = np.take_along_axis(without, children[:, None], axis=1)
        return having - np.where(self._is_discrete, without, own)

    def _near_regressions(
        self, children: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"]
    ) -> Float[np.ndarray, "family node"]:
        nodes, _, weights = self._indicators
        scores = np.zeros(parents.shape)
        families, targets = np.nonzero(children[:, None] == nodes)
        found = self._coarse_of_indicators.neighbourhoods(targets, parents[families])
        np.add.at(scores, families, weights[targets, None] * found)
        return scores

    def _scores(self, arrays: Arrays) -> dict[str, np.ndarray]:
        return {"scores": self._judge(arrays, rows=False)[0]}

    def _with_rows(self, arrays: Arrays) -> FamilyScores:
        return self._judge(arrays, rows=True)

    def _judge(self, arrays: Arrays, *, rows: bool) -> FamilyScores:
        children, parents, count = arrays["children"], arrays["parents"].astype(bool), len(self._values)
        discrete = self._is_discrete[children]
        smooth = {"children": children[~discrete], "parents": parents[~discrete], "reference": arrays["reference"]}
        scores, losses = np.empty(len(children)), np.empty((count if rows else 0, len(children)))
        more: dict[str, np.ndarray] = {}
        if rows:
            more = {name: np.zeros(len(children)) for name in ("lines", "curves")}
            scores[~discrete], losses[:, ~discrete], of_numbers = super()._with_rows(smooth)
            for name, values in of_numbers.items():
                more[name][~discrete] = values
        else:
            scores[~discrete] = super()._scores(smooth)["scores"]
        for family in np.flatnonzero(discrete).tolist():
            table = int(children[family]), np.flatnonzero(parents[family] & self._is_discrete).tolist()
            scores[family] = self._tables.score(*table)
            if rows:
                losses[:, family] = self._tables.row_losses(*table)
        mixed = np.flatnonzero(discrete & (parents & ~self._is_discrete).any(axis=1))
        for given, sign in ((parents[mixed], 1), (parents[mixed] & self._is_discrete, -1)):
            of_regressions, of_rows = self._regressions(children[mixed], given, rows=rows)
            scores[mixed] += sign * of_regressions
            losses[:, mixed] += sign * of_rows
        for name in {"lines", "curves"} & more.keys():
            more[name][discrete] = scores[discrete]
        return scores, losses, more

    def _dependence(self, child: int, other: int, given: Sequence[int]) -> PairDependence:
        if not self._is_discrete[child]:
            return super()._dependence(child, other, given)
        if not self._is_discrete[other]:
            return super()._dependence(other, child, given)
        levels = [node for node in given if self._is_discrete[node]]
        return self._tables.dependence(child, other, levels)

    def _regressions(
        self, children: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"], *, rows: bool
    ) -> tuple[Float[np.ndarray, " family"], Float[np.ndarray, "row family"]]:
        """Return the scores of logistic regressions, and the negative log-likelihood of every row."""
        count = len(self._values)
        scores, losses = np.empty(len(children)), np.empty((count if rows else 0, len(children)))
        for members, families in by_parents(parents):
            features, ends = self._contrasts.joint(members, count), self._contrasts.layers(members, count)
            additive = self._contrasts.additive(members)
            used = [end for end in ends if end <= additive]
            used.append(max(end for end in ends if end <= additive + MOST_JOINT_FUNCTIONS))
            features = features[:, : used[-1]] - features[:, : used[-1]].mean(axis=0)
            for family in families:
                child = int(children[family])
                small = self._contrasts.in_small_cells(members, count, child=child)
                fit = fit_levels(without(features, small), self._discrete[child], used)
                scores[family] = fit.score
                if rows:
                    losses[:, family] = -fit.row_log_likelihoods
        return scores, losses


def without(features: Float[np.ndarray, "row feature"], left_out: Int[np.ndarray, " out"]) -> np.ndarray:
    """Set some functions to zero: such a function changes no score."""
    left_out = left_out[left_out < features.shape[1]]
    if not len(left_out):
        return features
    features = features.copy()
    features[:, left_out] = 0.0
    return features
