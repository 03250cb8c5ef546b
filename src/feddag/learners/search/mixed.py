"""A site some of whose variables are discrete: their functions as parents, and their regressions as children.

A discrete parent acts by an indicator of each of its levels (as orthonormal contrasts of them), an ordinal one too. In
coarse scores a discrete child is regressed as if its indicators were numbers of known variance: the evidence of the
logistic regression, expanded about no effect at all, which needs Gram matrices only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from feddag.federation.protocol import Arrays
from feddag.learners.search.discrete import (
    MOST_JOINT_FUNCTIONS,
    Levels,
    contrasts,
    discrete_fit,
    joint_columns,
)
from feddag.learners.search.evidence import (
    FUNCTIONS,
    HIGHEST_DEGREE,
    LINEAR_WEIGHT,
    CoarseEvidence,
    Features,
    Targets,
    most_joint_functions,
)
from feddag.learners.search.noise_shape import STATISTICS
from feddag.learners.search.sites import Judged, OwnMechanisms, by_parents
from feddag.silos import Silo
from feddag.silos.variable_types import Kind

MOST_LEVELS = FUNCTIONS + 1
"""As many contrasts as other variables have functions."""


class MixedFeatures(Features):
    """Functions of columns that are standardised, or numbers of levels."""

    def __init__(self, values: Float[np.ndarray, "row node"], kinds: Sequence[Kind]) -> None:
        discrete = {node: kind for node, kind in enumerate(kinds) if kind.discrete}
        super().__init__(np.where([kind.discrete for kind in kinds], 0.0, values))
        self._contrasts = {
            node: contrasts(len(kind.levels))[values[:, node].astype(int)].T for node, kind in discrete.items()
        }
        for node, functions in self._contrasts.items():
            # a function that is zero everywhere changes no score
            self._single[node] = 0.0
            self._single[node, : len(functions)] = LINEAR_WEIGHT * functions

    def joint(self, parents: tuple[int, ...], most: int) -> Float[np.ndarray, "row feature"]:
        if not self._contrasts.keys() & set(parents):
            return super().joint(parents, most)
        smooth = [node for node in parents if node not in self._contrasts]
        linear = [self._single[node, : self._linear(node)] for node in parents]
        parts = [*linear, self._single[smooth, 1:].reshape(-1, len(self.values))]
        if len(parents) > 1:
            columns = np.concatenate(self._joint_columns(parents, most))
            parts.append(np.prod([self._of_one(node)[columns[:, k]] for k, node in enumerate(parents)], axis=0))
        return np.concatenate(parts).T

    def layers(self, parents: tuple[int, ...], most: int) -> list[int]:
        if not self._contrasts.keys() & set(parents):
            return super().layers(parents, most)
        smooth = sum(node not in self._contrasts for node in parents)
        linear = sum(map(self._linear, parents))
        sizes = [linear, smooth * (FUNCTIONS - 1)]
        if len(parents) > 1:
            sizes += [len(layer) for layer in self._joint_columns(parents, most)]
        return np.cumsum(sizes).tolist()

    def additive(self, parents: tuple[int, ...]) -> int:
        """How many of the features of `joint` are functions of one parent each."""
        return sum(len(self._contrasts[node]) if node in self._contrasts else FUNCTIONS for node in parents)

    def _linear(self, node: int) -> int:
        return len(self._contrasts[node]) if node in self._contrasts else 1

    def _of_one(self, node: int) -> Float[np.ndarray, "function row"]:
        """What joint functions are products of: waves, or a constant and all contrasts."""
        if node not in self._contrasts:
            return self._waves[node]
        return np.concatenate([np.ones((1, len(self.values))), self._contrasts[node]])

    def _joint_columns(self, parents: tuple[int, ...], most: int) -> list[Int[np.ndarray, "function parent"]]:
        waves = (1,) * (HIGHEST_DEGREE + 1)
        widths = tuple((1, self._linear(node)) if node in self._contrasts else waves for node in parents)
        return joint_columns(widths, most)


class _Indicators(NamedTuple):
    """Of all discrete variables, one for each level that occurs, standardised; as targets of coarse evidence."""

    nodes: Int[np.ndarray, " indicator"]
    values: Float[np.ndarray, "row indicator"]
    weights: Float[np.ndarray, " indicator"]
    """So that a variable's scores add up to that of its indicators together, whatever their correlations."""


class MixedMechanisms(OwnMechanisms):
    """A site of continuous and discrete variables whose mechanisms are its own."""

    def __init__(self, silo: Silo) -> None:
        super().__init__(silo, equal_noise=False)
        self._kinds = silo.kinds
        self._levels = {
            node: Levels.of(silo.values[:, node], kind) for node, kind in enumerate(silo.kinds) if kind.discrete
        }

    @cached_property
    def _features(self) -> MixedFeatures:
        discrete = [kind.discrete for kind in self._kinds]
        deviations = np.where(discrete, 1.0, self._values.std(axis=0))
        standardised = (self._values - self._values.mean(axis=0)) / deviations
        return MixedFeatures(np.where(discrete, self._values, standardised), self._kinds)

    @cached_property
    def _indicators(self) -> _Indicators:
        rows = len(self._values)
        nodes, values, weights = [], [np.empty((rows, 0))], [np.empty(0)]
        for node, levels in self._levels.items():
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
        features = self._features.coarse(pairs=False)
        products = (features - features.mean(axis=0)).T @ values
        targets = Targets(nodes, products, np.full(len(nodes), float(len(values))))
        return CoarseEvidence(self._gram, len(values), np.ones(len(nodes)), len(self._kinds), targets)

    def _neighbourhoods(self, arrays: Arrays) -> dict[str, np.ndarray]:
        children, parents = arrays["children"], arrays["parents"].astype(bool)
        discrete = np.isin(children, list(self._levels))
        scores = np.zeros(parents.shape)
        smooth = self._coarse(arrays["reference"].tobytes())
        scores[~discrete] = smooth.neighbourhoods(children[~discrete], parents[~discrete])
        nodes, _, weights = self._indicators
        families, targets = np.nonzero(children[:, None] == nodes)
        found = self._coarse_of_indicators.neighbourhoods(targets, parents[families])
        np.add.at(scores, families, weights[targets, None] * found)
        return {"scores": scores}

    def _scores(self, arrays: Arrays) -> dict[str, np.ndarray]:
        return {"scores": self._judged(arrays, rows=False)[0]}

    def _with_rows(self, arrays: Arrays) -> Judged:
        return self._judged(arrays, rows=True)

    def _judged(self, arrays: Arrays, *, rows: bool) -> Judged:
        children, parents, count = arrays["children"], arrays["parents"], len(self._values)
        discrete = np.isin(children, list(self._levels))
        smooth = {"children": children[~discrete], "parents": parents[~discrete], "reference": arrays["reference"]}
        scores, losses = np.empty(len(children)), np.empty((count if rows else 0, len(children)))
        shape = {}
        if rows:
            scores[~discrete], losses[:, ~discrete], of_smooth = super()._with_rows(smooth)
            shape = {name: np.zeros((STATISTICS, len(children))) for name in of_smooth}  # levels have none
            for name, found in of_smooth.items():
                shape[name][:, ~discrete] = found
        else:
            scores[~discrete] = super()._scores(smooth)["scores"]
        places, most = np.flatnonzero(discrete), most_joint_functions(count)
        for members, families in by_parents(parents[discrete]):
            features, ends = self._features.joint(members, most), self._features.layers(members, most)
            additive = self._features.additive(members)
            used = [end for end in ends if end <= additive]
            used.append(max(end for end in ends if end <= additive + MOST_JOINT_FUNCTIONS))
            features = features[:, : used[-1]] - features[:, : used[-1]].mean(axis=0)
            for family in places[families]:
                fit = discrete_fit(features, self._levels[int(children[family])], used)
                scores[family] = fit.score
                if rows:
                    losses[:, family] = -fit.row_log_likelihoods
        return scores, losses, shape
