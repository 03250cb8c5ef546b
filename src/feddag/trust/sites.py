"""A site's part in the checks: the only code here that touches rows. What it answers enters weighted means alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from feddag.federation import Answer, Task
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.learners.moments import Summands
from feddag.learners.search.sites import spread
from feddag.silos import Silo
from feddag.trust.regression import CategoryFit, Design, Frame, GaussianFit, Sums, layer_ends

ROWS = "trust.rows"
HELD_OUT = "trust.held-out"
MEANS = "trust.means"
VARIANCES = "trust.variances"
SUMS = "trust.sums"
MECHANISMS = "trust.mechanisms"
EFFECTS = "trust.effects"

HELD_OUT_SHARE = 0.2
MOST_ROWS = 2000
"""More rows of a site than this would only take time: the differences of interest show in fewer."""

Family = tuple[int, tuple[int, ...]]
"""A child and its parents."""


class MechanismFit(NamedTuple):
    """How well a site's own regression of a variable on its parents predicts rows that it has not seen."""

    r2: float
    """The share of the variance that it explains; of a category, McFadden's: the share of the log-likelihood."""
    own_gain: float
    """By how much, in nats per row, it beats the one regression that is common to all sites."""


class TrustSite:
    """Splits its rows once, always alike, and answers tasks. Satisfies `feddag.federation.Site`."""

    def __init__(self, silo: Silo) -> None:
        self.name = silo.name
        self._summands = Summands(silo.name, silo.values)
        self._levels = levels_of(silo)
        self._all = silo.values
        chosen = np.random.default_rng(0).permutation(silo.rows)[:MOST_ROWS]
        held_out = max(1, round(HELD_OUT_SHARE * len(chosen)))
        self._held_out, self._training = silo.values[chosen[:held_out]], silo.values[chosen[held_out:]]
        self._own: dict[Family, Float[np.ndarray, " row"]] = {}

    def answer(self, task: Task) -> Answer:
        if task.name == ROWS:
            counts = {"held_out": len(self._held_out), "training": len(self._training)}
            return Answer(1.0, {name: np.array(float(count)) for name, count in counts.items()})
        answers: dict[str, tuple[float, Callable[[Arrays], dict[str, np.ndarray]]]] = {
            HELD_OUT: (len(self._held_out), self._graphs),
            MEANS: (len(self._training), lambda arrays: {"mean": self._training.mean(axis=0)}),
            VARIANCES: (len(self._training), self._variances),
            SUMS: (len(self._training), self._sums),
            MECHANISMS: (len(self._held_out), self._mechanisms),
            EFFECTS: (1.0, self._effects),
        }
        if task.name not in answers:
            return self._summands.answer(task)
        weight, answer = answers[task.name]
        return Answer(float(weight), answer(task.arrays))

    def snapshot(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, state: Arrays) -> None:
        del state

    @cached_property
    def _designs(self) -> tuple[Design, Design]:
        """Of the rows to fit to, and of those held out, as this site standardises them."""
        frame = Frame.of(self._training.mean(axis=0), self._training.var(axis=0), self._levels)
        return Design(self._training, frame), Design(self._held_out, frame)

    def _graphs(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """How well each graph predicts the rows held out, and by how much the graphs differ."""
        of_graphs = [[self._own_likelihoods(family) for family in families(graph)] for graph in arrays["graphs"]]
        likelihoods = np.array(of_graphs).sum(axis=1).T
        rows = likelihoods @ arrays["terms"].T
        return {"scores": likelihoods.mean(axis=0)} | spread(rows.mean(axis=0), rows)

    def _own_likelihoods(self, family: Family) -> Float[np.ndarray, " row"]:
        if family not in self._own:
            self._own[family], _ = self._own_fit(family)
        return self._own[family]

    def _own_fit(self, family: Family) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"] | None]:
        """The log-density of each row held out by a regression of this site's own and, of a number, the errors."""
        child, parents = family
        training, held_out = self._designs
        rows, levels = len(self._training), int(self._levels[child])
        ends = layer_ends(parents, self._levels, rows)
        features, unseen = (design.functions(parents, rows) for design in (training, held_out))
        if levels:
            simple = ends[:2][-1]
            fit = CategoryFit.to(features[:, :simple], training.codes(child), levels)
            return fit.log_densities(unseen[:, :simple], held_out.codes(child)), None
        fit = GaussianFit.to(Sums.of(features, training.values[:, child]), ends, rows)
        values = held_out.values[:, child]
        return fit.log_densities(unseen, values, held_out.frame.scale[child]), values - fit.predictions(unseen)

    def _variances(self, arrays: Arrays) -> dict[str, np.ndarray]:
        return {"variance": ((self._training - arrays["mean"]) ** 2).mean(axis=0)}

    def _sums(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Of each family, what a regression common to all sites needs."""
        design = Design(self._training, self._common_frame(arrays))
        answer = {}
        for child, parents in self._of_numbers(arrays["graph"]):
            features = design.functions(parents, int(arrays["rows"]))
            answer |= prefixed(f"{child}", asdict(Sums.of(features, design.values[:, child])))
        return answer

    def _mechanisms(self, arrays: Arrays) -> dict[str, np.ndarray]:
        rows = self._gains(arrays)
        return spread(rows.mean(axis=0), rows)

    def _gains(self, arrays: Arrays) -> Float[np.ndarray, "row node"]:
        """By how much this site's own regressions beat the common ones, on each row held out."""
        design = Design(self._held_out, self._common_frame(arrays))
        gains = np.zeros(self._held_out.shape)
        for child, parents in self._of_numbers(arrays["graph"]):
            fit = GaussianFit(**under(f"{child}", arrays))
            features = design.functions(parents, int(arrays["rows"]))
            common = fit.log_densities(features, design.values[:, child], design.frame.scale[child])
            gains[:, child] = self._own_likelihoods((child, parents)) - common
        return gains

    def mechanism_fits(self, arrays: Arrays) -> list[MechanismFit]:
        """Of each variable. Only an engine that holds the sites can ask for it: it is one site's, in no sum."""
        gains = self._gains(arrays).mean(axis=0)
        return [
            MechanismFit(self._r2(family), np.nan if self._levels[family[0]] else float(gains[family[0]]))
            for family in families(arrays["graph"])
        ]

    def _r2(self, family: Family) -> float:
        child, _ = family
        likelihoods, errors = self._own_fit(family)
        if errors is None:
            nothing = self._own_likelihoods((child, ()))
            return float(1 - likelihoods.sum() / nothing.sum())
        values = self._designs[1].values[:, child]  # about the mean of the rows fitted to
        return float(1 - (errors @ errors) / (values @ values)) if values.any() else 0.0

    def _of_numbers(self, graph: UInt8[np.ndarray, "node node"]) -> list[Family]:
        return [family for family in families(graph) if not self._levels[family[0]]]

    def _common_frame(self, arrays: Arrays) -> Frame:
        return Frame.of(arrays["mean"], arrays["variance"], self._levels)

    def _effects(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """The coefficient of the cause in a linear regression, for each set of parents to adjust for; times rows."""
        slopes, variances = self.slopes(arrays).T
        rows = np.where(np.isnan(slopes), 0.0, len(self._all))  # a site that cannot tell counts for nothing
        return {"slope": rows * np.nan_to_num(slopes), "variance": rows**2 * np.nan_to_num(variances), "rows": rows}

    def slopes(self, arrays: Arrays) -> Float[np.ndarray, "set two"]:
        """For each set to adjust for, the coefficient and its squared standard error. One site's: see above."""
        cause, effect = arrays["pair"].tolist()
        return np.array([self._slope(cause, effect, np.flatnonzero(each).tolist()) for each in arrays["adjust"]])

    def _slope(self, cause: int, effect: int, adjust: Sequence[int]) -> tuple[float, float]:
        if effect in adjust:
            return 0.0, 0.0  # what comes before the cause is not changed by it
        columns = [np.ones((len(self._all), 1)), *(self._linear(each) for each in adjust)]
        others = np.concatenate(columns, axis=1)
        y, x = (_residual(others, self._all[:, each]) for each in (effect, cause))
        freedom = len(y) - np.linalg.matrix_rank(others) - 1
        explained = x @ x
        if freedom < 1 or explained <= 1e-12 * len(x) * self._all[:, cause].var():
            return np.nan, np.nan
        slope = float(x @ y / explained)
        left = y - slope * x
        return slope, float(left @ left / freedom / explained)

    def _linear(self, column: int) -> Float[np.ndarray, "row column"]:
        levels, values = int(self._levels[column]), self._all[:, column, None]
        return (values == np.arange(1, levels)).astype(float) if levels else values


def _residual(others: Float[np.ndarray, "row column"], values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    return values - others @ np.linalg.lstsq(others, values, rcond=None)[0]


def families(graph: np.ndarray) -> list[Family]:
    return [(child, tuple(np.flatnonzero(graph[:, child]).tolist())) for child in range(len(graph))]


def levels_of(silo: Silo) -> Int[np.ndarray, " node"]:
    """The number of levels of each column that holds categories; 0 for a number."""
    return np.array([len(kind.levels) if kind.discrete else 0 for kind in silo.kinds])
