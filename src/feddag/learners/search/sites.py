"""A site's part in the search. It keeps nothing between tasks but what it computed from its own rows.

This is all that ever touches a site's data, whichever engine carries the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from feddag.federation.protocol import Answer, Arrays, Stateless, Task, unknown_task
from feddag.learners.search import tasks
from feddag.regression.comparison import row_losses, spread
from feddag.regression.evidence import LEAST_VARIANCE, CoarseEvidence, best_fit, coefficients
from feddag.regression.features import Features, Frame, level_counts
from feddag.regression.gram import centred_gram, means_of_products, triangle
from feddag.regression.noise_shape import shape_of
from feddag.silos import Silo

FamilyScores = tuple[Float[np.ndarray, " family"], Float[np.ndarray, "row family"], dict[str, np.ndarray]]
"""The joint evidence of families, the negative log-likelihood of every row, and the shape of the noise."""


class FamilySite(Stateless):
    """The base of all sites of the search. Satisfies `feddag.federation.Site`."""

    methods: ClassVar[dict[str, str]]
    """The names of the methods that answer tasks, by the task's name."""

    def __init__(self, silo: Silo) -> None:
        self.name = silo.name
        self._values = silo.values

    def answer(self, task: Task) -> Answer:
        """Answer one of the tasks in `methods`, or the number of rows."""
        if task.name == tasks.ROWS.name:
            return Answer(1.0, {"rows": np.array(float(len(self._values)))})
        if task.name not in self.methods:
            raise unknown_task(self.name, task, (tasks.ROWS.name, *self.methods))
        answer: Callable[[Arrays], dict[str, np.ndarray]] = getattr(self, self.methods[task.name])
        return Answer(float(len(self._values)), answer(task.arrays))


class OwnMechanisms(FamilySite):
    """A site whose mechanisms are its own: what leaves it is one number for each family, inside a sum."""

    methods: ClassVar = {
        tasks.NEIGHBOURHOODS.name: "_neighbourhoods",
        tasks.SCORES.name: "_scores",
        tasks.COMPARISONS.name: "_comparisons",
    }

    def __init__(self, silo: Silo, *, equal_noise: bool) -> None:
        super().__init__(silo)
        self._equal_noise = equal_noise
        self._variances = silo.values.var(axis=0)
        self._levels = level_counts(silo.kinds)
        self._precisions = lru_cache(maxsize=1)(self._precisions_given)
        self._coarse = lru_cache(maxsize=1)(self._coarse_given)

    @cached_property
    def _features(self) -> Features:
        return Features(self._standardised())

    def _standardised(self) -> Float[np.ndarray, "row node"]:
        return Frame.of(self._values.mean(axis=0), self._variances, self._levels).standardise(self._values)

    @cached_property
    def _gram(self) -> Float[np.ndarray, "feature feature"]:
        return centred_gram(*means_of_products(self._features.coarse()), len(self._values))

    def _neighbourhoods(self, arrays: Arrays) -> dict[str, np.ndarray]:
        evidence = self._coarse(arrays["reference"].tobytes())
        return {"scores": evidence.neighbourhoods(arrays["children"], arrays["parents"].astype(bool))}

    def _scores(self, arrays: Arrays) -> dict[str, np.ndarray]:
        precisions = self._precisions(arrays["reference"].tobytes())
        scores, _ = self._fits(arrays, precisions, residuals=False)
        return {"scores": scores}

    def _comparisons(self, arrays: Arrays) -> dict[str, np.ndarray]:
        scores, losses, shape = self._with_rows(arrays)
        terms = arrays["terms"].astype(float)
        return {"difference": terms @ scores} | spread(terms @ scores, losses @ terms.T) | shape

    def _with_rows(self, arrays: Arrays) -> FamilyScores:
        precisions = self._precisions(arrays["reference"].tobytes())
        scores, residuals = self._fits(arrays, precisions, residuals=True)
        variances = residuals.var(axis=0) if precisions is None else 1 / precisions[arrays["children"]]
        return scores, row_losses(residuals, np.maximum(variances, LEAST_VARIANCE)), shape_of(residuals)

    def _coarse_given(self, reference: bytes) -> CoarseEvidence:
        return CoarseEvidence(self._gram, len(self._values), self._precisions(reference), len(self._variances))

    def _precisions_given(self, reference: bytes) -> Float[np.ndarray, " node"] | None:
        """Return each variable's variance over that of its noise, where the latter is the same for all variables.

        Without a reference graph the smallest variance of any variable stands for it: that of one without parents.
        With one it is the mean of what this graph leaves unexplained.
        """
        if not self._equal_noise:
            return None
        nodes = len(self._variances)
        graph = np.frombuffer(reference, dtype=np.uint8).reshape(-1, nodes).astype(bool)
        if not len(graph):
            return self._variances / self._variances.min()
        families = {"children": np.arange(nodes), "parents": graph.T}
        _, residuals = self._fits(families, self._variances / self._variances.min(), residuals=True)
        return self._variances / (self._variances * (residuals**2).mean(axis=0)).mean()

    def _fits(
        self, families: Arrays, precisions: Float[np.ndarray, " node"] | None, *, residuals: bool
    ) -> tuple[Float[np.ndarray, " family"], Float[np.ndarray, "row family"]]:
        """Return the joint evidence of families, and what their regressions leave unexplained (standardised)."""
        count = len(self._values)
        scores = np.empty(len(families["children"]))
        left = np.empty((count if residuals else 0, len(scores)))
        for parents, members in by_parents(families["parents"]):
            features = self._features.joint(parents, count)
            features -= features.mean(axis=0)
            gram, ends = features.T @ features, self._features.layers(parents, count)
            for family in members:
                child = int(families["children"][family])
                values = self._features.values[:, child]
                cross = features.T @ values
                precision = None if precisions is None else float(precisions[child])
                fit = best_fit(gram, cross, float(values @ values), count, ends, precision)
                scores[family] = fit.score
                if residuals:
                    left[:, family] = values - features[:, : fit.size] @ coefficients(gram, cross, fit)
        return scores, left


class CommonMechanisms(OwnMechanisms):
    """A site whose mechanisms may be those of all sites: what leaves it beside scores are means of products.

    These are means of products of functions of two variables at most, inside a sum.
    """

    methods: ClassVar = {
        tasks.GRAM.name: "_common_gram",
        tasks.SCORES.name: "_scores",
        tasks.COMPARISONS.name: "_comparisons",
    }

    def answer(self, task: Task) -> Answer:
        """Answer a task of this class, or the common moments."""
        if task.name in (spec.name for spec in tasks.MOMENTS.specs):
            return tasks.MOMENTS.answer(self.name, task, self._values)
        return super().answer(task)

    def _common_gram(self, arrays: Arrays) -> dict[str, np.ndarray]:
        common = Features((self._values - arrays["origin"]) / arrays["scale"])
        mean, second = means_of_products(common.coarse(int(arrays["functions"])))
        return {"mean": mean, "second": triangle(second)}


def by_parents(parents: Bool[np.ndarray, "family node"] | Int[np.ndarray, "family node"]):
    """Group families by their set of parents: these share their features."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for family, members in enumerate(parents):
        groups.setdefault(tuple(np.flatnonzero(members).tolist()), []).append(family)
    return groups.items()
