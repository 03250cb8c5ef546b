"""A site some of whose variables are discrete: their functions as parents, and their regressions as children.

A discrete parent acts by an indicator of each of its levels (as orthonormal contrasts of them), an ordinal one too. In
coarse scores a discrete child is regressed as if its indicators were numbers of known variance: the evidence of the
logistic regression, expanded about no effect at all, which needs Gram matrices only.

What leaves is one number for each family: a score of all rows. Were there a level with one row, the score of a number
given that level would tell this row's value, so a site on a network has none (`deployment.site.check_site`). For the
same reason its regressions leave out products of functions that tell apart combinations of levels with few rows
(`Silo.minimum_cell`). A discrete child's regression on a discrete parent's levels alone stays: its score is one of
counts, over all combinations of both, and no other column enters it.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from feddag.federation.protocol import Arrays
from feddag.learners.search.sites import FamilyScores, OwnMechanisms
from feddag.regression.evidence import CoarseEvidence, Targets
from feddag.regression.features import FUNCTIONS, ContrastFeatures
from feddag.regression.logistic import MOST_JOINT_FUNCTIONS, Levels, fit_levels
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
        discrete = np.isin(children, list(self._discrete))
        scores = np.zeros(parents.shape)
        smooth = {"children": children[~discrete], "parents": parents[~discrete], "reference": arrays["reference"]}
        scores[~discrete] = super()._neighbourhoods(smooth)["scores"]
        nodes, _, weights = self._indicators
        families, targets = np.nonzero(children[:, None] == nodes)
        found = self._coarse_of_indicators.neighbourhoods(targets, parents[families])
        np.add.at(scores, families, weights[targets, None] * found)
        return {"scores": scores}

    def _scores(self, arrays: Arrays) -> dict[str, np.ndarray]:
        return {"scores": self._judge(arrays, rows=False)[0]}

    def _with_rows(self, arrays: Arrays) -> FamilyScores:
        return self._judge(arrays, rows=True)

    def _judge(self, arrays: Arrays, *, rows: bool) -> FamilyScores:
        children, parents, count = arrays["children"], arrays["parents"], len(self._values)
        discrete = np.isin(children, list(self._discrete))
        smooth = {"children": children[~discrete], "parents": parents[~discrete], "reference": arrays["reference"]}
        scores, losses = np.empty(len(children)), np.empty((count if rows else 0, len(children)))
        if rows:
            scores[~discrete], losses[:, ~discrete] = super()._with_rows(smooth)
        else:
            scores[~discrete] = super()._scores(smooth)["scores"]
        places = np.flatnonzero(discrete)
        for members, families in by_parents(parents[discrete]):
            features, ends = self._contrasts.joint(members, count), self._contrasts.layers(members, count)
            additive = self._contrasts.additive(members)
            used = [end for end in ends if end <= additive]
            used.append(max(end for end in ends if end <= additive + MOST_JOINT_FUNCTIONS))
            features = features[:, : used[-1]] - features[:, : used[-1]].mean(axis=0)
            for family in places[families]:
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
