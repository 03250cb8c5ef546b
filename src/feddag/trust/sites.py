"""A site's part in the checks: the only code here that touches rows. What it answers enters weighted means alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from feddag.federation import Answer, Stateless, Task
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.regression.comparison import spread
from feddag.regression.features import Frame, IndicatorFeatures, level_counts
from feddag.regression.moments import COVARIANCE
from feddag.regression.prediction import (
    CategoryFit,
    Family,
    GaussianFit,
    OwnRegressions,
    RegressionSums,
    families,
    likelihood,
    seen_levels,
)
from feddag.silos import Silo
from feddag.trust import tasks

TOGETHER = "all sites"
"""Stands for a site's name where figures are of all of them."""
CERTAIN = 2.0
"""Standard errors from which on a difference counts."""
ROUNDING = 1e-9
HELD_OUT_SHARE = 0.2
MOST_ROWS = 2000
"""More rows of a site than this would only take time: the differences of interest show in fewer."""


def held_out_rows(rows: int) -> int:
    """Return how many of a site's rows are laid aside."""
    return max(1, round(HELD_OUT_SHARE * min(rows, MOST_ROWS)))


class MechanismFit(NamedTuple):
    """How well a site's own regression of a variable on its parents predicts rows that it has not seen."""

    r2: float
    """The share of the variance that it explains; of a category, McFadden's: the share of the log-likelihood."""
    own_gain: float
    """By how much, in nats per row, it beats the one regression that is common to all sites."""
    error: float
    """The standard error of the gain."""

    @property
    def differs(self) -> bool:
        """Whether the gain is certain."""
        return bool(self.own_gain > max(CERTAIN * self.error, ROUNDING))


class TrustSite(Stateless):
    """Splits its rows once, always alike, and answers tasks. Satisfies `feddag.federation.Site`."""

    def __init__(self, silo: Silo) -> None:
        self.name = silo.name
        self._levels = level_counts(silo.kinds)
        self._all = silo.values
        # as they are where all are continuous: sums over rows round by the layout of a table
        self._numbers = silo.values[:, tasks.continuous_columns(silo.kinds)] if self._levels.any() else silo.values
        chosen = np.random.default_rng(0).permutation(silo.rows)[:MOST_ROWS]
        held_out = held_out_rows(silo.rows)
        self._held_out, self._training = silo.values[chosen[:held_out]], silo.values[chosen[held_out:]]
        self._own = OwnRegressions(self._training, self._held_out, self._levels)
        self.mechanisms: list[MechanismFit] | None = None
        """How well this site's own mechanisms fare, once a server has asked; for the site itself alone."""

    def answer(self, task: Task) -> Answer:
        """Answer a task of `trust.tasks`, or the moments of all rows of the continuous columns."""
        if task.name == tasks.ROWS.name:
            counts = {"held_out": len(self._held_out), "training": len(self._training)}
            return Answer(1.0, {name: np.array(float(count)) for name, count in counts.items()})
        if task.name in (spec.name for spec in tasks.MOMENTS.specs):
            return tasks.MOMENTS.answer(self.name, task, self._training)
        answers: dict[str, tuple[float, Callable[[Arrays], dict[str, np.ndarray]]]] = {
            tasks.HELD_OUT.name: (len(self._held_out), self._graphs),
            tasks.SUMS.name: (len(self._training), self._sums),
            tasks.LOGISTIC.name: (len(self._training), self._logistic),
            tasks.MECHANISMS.name: (len(self._held_out), self._mechanisms),
            tasks.EFFECT_SITES.name: (1.0, self._effect_sites),
            tasks.EFFECTS.name: (1.0, self._effects),
            tasks.EFFECT_SPREAD.name: (1.0, self._effect_spread),
        }
        if task.name not in answers:
            return COVARIANCE.answer(self.name, task, self._numbers)
        weight, answer = answers[task.name]
        return Answer(float(weight), answer(task.arrays))

    def _graphs(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return how well each graph predicts the rows held out, and by how much the graphs differ.

        Each number is of all variables and of all rows held out; of single levels, or of pairs of them, there is none.
        """
        likelihoods = np.column_stack([self._own.of_graph(graph) for graph in arrays["graphs"]])
        rows = likelihoods @ arrays["terms"].T
        return {"scores": likelihoods.mean(axis=0)} | spread(rows.mean(axis=0), rows, len(rows))

    def _sums(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return what a regression common to all sites needs of each family; of a category, what it begins with."""
        common = self._common_features(self._training, arrays)
        answer = {}
        for child, parents in families(arrays["graph"]):
            if self._levels[child]:
                counts = np.bincount(common.codes[child], minlength=int(self._levels[child]))
                answer |= prefixed(f"{child}", {"frequencies": counts / len(self._training)})
                continue
            features = common.joint(parents, int(arrays["rows"]), summed=True)
            answer |= prefixed(f"{child}", asdict(RegressionSums.of(features, common.values[:, child])))
        return answer

    def _logistic(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return the log-likelihood of a category's rows by a regression common to all sites, and its derivatives."""
        common, rows = self._common_features(self._training, arrays), int(arrays["rows"])
        child, parents = families(arrays["graph"])[int(arrays["child"])]
        levels = seen_levels(common.codes[child], arrays["frequencies"])
        found = likelihood(arrays["theta"], common.joint(parents, rows, summed=True), levels)
        return {name: np.asarray(value) / len(self._training) for name, value in found._asdict().items()}

    def _mechanisms(self, arrays: Arrays) -> dict[str, np.ndarray]:
        rows, fits = self._gains(arrays), self.mechanism_fits(arrays)
        self.mechanisms = fits
        return {
            "row_first": rows.mean(axis=0),
            "row_second": (rows**2).mean(axis=0),
            "r2": np.array([fit.r2 for fit in fits]),
            # a count of sites, in means that rows weigh
            "differs": np.array([float(fit.differs) for fit in fits]) / len(rows),
        }

    def _gains(self, arrays: Arrays) -> Float[np.ndarray, "row node"]:
        """Return by how much this site's own regressions beat the common ones, on each row held out."""
        features, scale = self._common_features(self._held_out, arrays), self._common_frame(arrays).scale
        gains = np.zeros(self._held_out.shape)
        for child, parents in families(arrays["graph"]):
            fitted = under(f"{child}", arrays)
            joint = features.joint(parents, int(arrays["rows"]), summed=True)
            if self._levels[child]:
                common = CategoryFit(**fitted).log_densities(joint, features.codes[child])
            else:
                common = GaussianFit(**fitted).log_densities(joint, features.values[:, child], scale[child])
            gains[:, child] = self._own.of_family((child, parents)) - common
        return gains

    def mechanism_fits(self, arrays: Arrays) -> list[MechanismFit]:
        """Return the fit of each variable. It is one site's, in no sum: only a process that holds the site can ask."""
        rows = self._gains(arrays)
        gains, errors = rows.mean(axis=0), rows.std(axis=0) / np.sqrt(len(rows))
        return [
            MechanismFit(self._r2(family), float(gains[family[0]]), float(errors[family[0]]))
            for family in families(arrays["graph"])
        ]

    def _r2(self, family: Family) -> float:
        child, parents = family
        if not parents:
            return 0.0
        likelihoods, errors = self._own.fit(family)
        if errors is None:
            nothing = self._own.of_family((child, ()))
            return float(1 - likelihoods.sum() / nothing.sum())
        values = self._own.features[1].values[:, child]  # about the mean of the rows fitted to
        return float(1 - (errors @ errors) / (values @ values)) if values.any() else 0.0

    def _common_features(self, rows: Float[np.ndarray, "row node"], arrays: Arrays) -> IndicatorFeatures:
        """Return the features of rows as all sites standardise them."""
        return IndicatorFeatures(self._common_frame(arrays).standardise(rows), self._levels)

    def _common_frame(self, arrays: Arrays) -> Frame:
        return Frame.of(arrays["mean"], arrays["variance"], self._levels)

    def _effect_sites(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return for which sets to adjust for the cause varies here by itself."""
        return {"sites": 1.0 - np.isnan(self.slopes(arrays)[:, 0])}

    def _effects(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return the coefficient of the cause in a linear regression, for each set to adjust for; times rows."""
        slopes, variances = self.slopes(arrays).T
        rows = np.where(np.isnan(slopes), 0.0, len(self._all))  # a site that cannot tell counts for nothing
        return {"slope": rows * np.nan_to_num(slopes), "variance": rows**2 * np.nan_to_num(variances), "counted": rows}

    def _effect_spread(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return how the site's effects differ from given ones, weighted by how certain they are."""
        slopes, variances = self.slopes(arrays).T
        tells = np.nan_to_num(variances) > 0
        scale, tau2 = arrays["scale"], arrays["tau2"]
        weight = np.where(tells, scale / np.where(tells, variances + tau2 * scale, 1.0), 0.0)
        difference = np.where(tells, np.nan_to_num(slopes) - arrays["centre"], 0.0) / np.sqrt(scale)
        return {
            "weight": weight,
            "weight_squared": weight**2,
            "first": weight * difference,
            "second": weight * difference**2,
            "sites": tells.astype(float),
        }

    def slopes(self, arrays: Arrays) -> Float[np.ndarray, "set two"]:
        """Return the coefficient and its squared standard error, for each set to adjust for. One site's: see above."""
        cause, effect = arrays["pair"].tolist()
        return np.array([self._slope(cause, effect, np.flatnonzero(each).tolist()) for each in arrays["adjust"]])

    def _slope(self, cause: int, effect: int, adjust: Sequence[int]) -> tuple[float, float]:
        if effect in adjust:
            return 0.0, 0.0  # what comes before the cause is not changed by it
        columns = [np.ones((len(self._all), 1)), *(self._linear(each) for each in adjust)]
        others = np.concatenate(columns, axis=1)
        y, x = (_residual(others, self._all[:, each]) for each in (effect, cause))
        freedom = len(y) - np.linalg.matrix_rank(others) - 1
        explained, values = x @ x, self._all[:, cause]
        # what rounding leaves of a constant is no variation
        if freedom < 1 or explained <= max(1e-12 * len(x) * values.var(), 1e-24 * (values @ values)):
            return np.nan, np.nan
        slope = float(x @ y / explained)
        left = y - slope * x
        return slope, float(left @ left / freedom / explained)

    def _linear(self, column: int) -> Float[np.ndarray, "row column"]:
        levels, values = int(self._levels[column]), self._all[:, column, None]
        return (values == np.arange(1, levels)).astype(float) if levels else values


def _residual(others: Float[np.ndarray, "row column"], values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    return values - others @ np.linalg.lstsq(others, values, rcond=None)[0]
