"""CAM (Bühlmann, Peters and Ernest, "CAM: Causal additive models, high-dimensional order search and penalized
regression", Annals of Statistics 2014): each variable is a sum of smooth functions of its causes.

In three steps, with the defaults of the authors' package: boosting finds each variable's possible parents; edges are
added greedily, the one first that raises the likelihood most; tests of the terms then remove those without effect.
Functions are cubic splines with a penalty on their curvature, whose weight, one for all terms of a variable, minimises
the generalised cross-validation error. All is computed from the products of the spline bases, so that rows matter once.

Assumes: additive effects of the causes, Gaussian noise, no hidden common causes. The likelihood does not depend on the
units of the columns. Do not use it where causes interact, nor on linear relations with Gaussian noise, which leave
directions open; with many variables the products (`basis_functions` · d)² fill the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from jaxtyping import Float
from scipy.interpolate import BSpline
from scipy.linalg import block_diag, cholesky, eigh, solve_triangular
from scipy.optimize import brentq
from scipy.stats import f as f_distribution

from feddag import constraints
from feddag.graphs import CausalGraph
from feddag.learners.base import PROPORTION
from feddag.learners.single_pass import OneTable
from feddag.silos import Silo

_DEGREE = 3
_ROWS_PER_FUNCTION = 3
"""A basis has fewer functions where there would not be so many rows for each."""
_BOOSTING_STEPS, _BOOSTING_RATE, _BOOSTING_FREEDOM, _SELECTED_SHARE = 100, 0.1, 3.0, 0.02
_SMOOTHING = np.logspace(-6, 6, 49)
"""The weights of the penalty that are tried."""
_RIDGE = 1e-9
"""With this, a variable with few distinct values has a solution, too."""


class CAM(OneTable):
    """Learn a causal additive model by a greedy search for its order.

    Args:
        basis_functions: The number of functions of each spline; fewer where there are not three rows for each.
        neighbours: How many possible parents of a variable enter the search, at most.
        alpha: The level of the tests that prune the edges.

    Attributes:
        edge_scores_: By how much the edge, given the others, lowers the logarithm of its target's noise variance.
    """

    parameter_constraints: ClassVar = {
        "basis_functions": constraints.whole(_DEGREE + 1),
        "neighbours": constraints.whole(1),
        "alpha": PROPORTION,
    }

    def __init__(self, *, basis_functions: int = 10, neighbours: int = 10, alpha: float = 0.001) -> None:
        self.basis_functions = basis_functions
        self.neighbours = neighbours
        self.alpha = alpha

    def learn_table(self, table: Silo) -> CausalGraph:
        """Select possible parents, add edges greedily, and prune them by tests."""
        nodes = len(table.columns)
        products = self.products(table)
        edges = greedy_dag(products, possible_parents(products, self.neighbours))
        scores = np.zeros((nodes, nodes))
        for j in range(nodes):
            parents = np.flatnonzero(edges[:, j])
            parents = parents[products.p_values(j, parents) < self.alpha]
            edges[:, j] = False
            edges[parents, j] = True
            variance = products.variance(j, parents)
            for i in parents:
                scores[i, j] = np.log(products.variance(j, parents[parents != i]) / variance)
        return CausalGraph(edges, table.columns, np.maximum(scores, 0))

    def products(self, table: Silo) -> Products:
        """Compute the products of bases as large as the rows allow."""
        most = table.rows // (_ROWS_PER_FUNCTION * len(table.columns))
        return Products.of(table.values, max(_DEGREE + 1, min(self.basis_functions, most)))


@dataclass(frozen=True)
class Products:
    """The means of all products of two spline functions, or of one and a variable, in which all is centred."""

    rows: int
    bases: Float[np.ndarray, "node function node function"]
    with_variables: Float[np.ndarray, "node function node"]
    """[i, k, j]: the product of the k-th function of variable i and of variable j, which has variance 1."""
    penalties: Float[np.ndarray, "node function function"]
    """The integrated squared curvature of each variable's function, as large as its variance in the mean."""

    @classmethod
    def of(cls, values: Float[np.ndarray, "row node"], functions: int) -> Products:
        """Compute the products from a table's rows, with `functions` splines per variable."""
        values = (values - values.mean(axis=0)) / values.std(axis=0)
        rows, nodes = values.shape
        splines = [_spline(values[:, i], functions) for i in range(nodes)]
        # the functions sum to one, which centring makes zero: the last is not needed
        design = np.stack([spline(values[:, i])[:, :-1] for i, spline in enumerate(splines)], axis=1)
        design -= design.mean(axis=0)
        flat = design.reshape(rows, -1)
        bases = (flat.T @ flat / rows).reshape(nodes, functions - 1, nodes, functions - 1)
        penalties = np.stack([_curvature(spline)[:-1, :-1] for spline in splines])
        for i in range(nodes):
            variance = np.trace(bases[i, :, i])
            penalties[i] *= variance / np.trace(penalties[i])
            bases[i, :, i] += _RIDGE * variance * np.eye(functions - 1)
        return cls(rows, bases, (flat.T @ values / rows).reshape(nodes, functions - 1, nodes), penalties)

    def variance(self, target: int, parents: np.ndarray) -> float:
        """Return the variance of the target that an additive function of the parents leaves."""
        return _Regression(self, target, parents).variance if len(parents) else 1.0

    def p_values(self, target: int, parents: np.ndarray) -> Float[np.ndarray, " parent"]:
        """Return, for each parent, the p-value of the hypothesis that its function is zero."""
        return _Regression(self, target, parents).p_values() if len(parents) else np.zeros(0)


class _Regression:
    """A penalised additive regression, with the weight of the penalty that cross-validation prefers."""

    def __init__(self, products: Products, target: int, parents: np.ndarray) -> None:
        self._rows = products.rows
        self._functions = products.bases.shape[1]
        size = len(parents) * self._functions
        self._gram = products.bases[parents][:, :, parents].reshape(size, size)
        with_target = products.with_variables[parents, :, target].reshape(size)
        # in the basis that diagonalises products and penalty both, smoothing divides by 1 + λ·roughness
        factor = cholesky(self._gram, lower=True)
        halfway = solve_triangular(factor, block_diag(*products.penalties[parents]), lower=True)
        roughness, rotation = eigh(solve_triangular(factor, halfway.T, lower=True))
        self._axes = solve_triangular(factor, rotation, lower=True, trans=1)
        self._effect = self._axes.T @ with_target
        shrinkage = 1 / (1 + _SMOOTHING[:, None] * np.maximum(roughness, 0))
        variances = np.maximum(1 - (shrinkage * (2 - shrinkage)) @ self._effect**2, _RIDGE)
        freedom = self._rows - 1 - shrinkage.sum(axis=1)
        errors = np.where(freedom > 0, variances / np.maximum(freedom, _RIDGE) ** 2, np.inf)
        best = int(np.argmin(errors))
        self._shrinkage, self._freedom, self.variance = shrinkage[best], float(freedom[best]), float(variances[best])

    def p_values(self) -> Float[np.ndarray, " parent"]:
        """Run an F-test of each function's coefficients, given their covariance under the penalty as a prior."""
        coefficients = self._axes @ (self._shrinkage * self._effect)
        covariance = (self._axes * self._shrinkage) @ self._axes.T
        effective = np.sum(covariance * self._gram, axis=1).reshape(-1, self._functions).sum(axis=1)
        noise = self.variance * self._rows / self._freedom
        statistics = []
        for k in range(len(effective)):
            own = slice(k * self._functions, (k + 1) * self._functions)
            explained = coefficients[own] @ np.linalg.solve(covariance[own, own], coefficients[own])
            statistics.append(explained * self._rows / noise)
        return f_distribution.sf(np.array(statistics) / effective, effective, self._freedom)


def _spline(values: Float[np.ndarray, " row"], functions: int) -> BSpline:
    """Return the basis of cubic splines whose knots part the distinct values evenly."""
    knots = np.quantile(np.unique(values), np.linspace(0, 1, functions - _DEGREE + 1))
    knots = np.concatenate([[knots[0]] * _DEGREE, knots, [knots[-1]] * _DEGREE])
    return BSpline(knots, np.eye(functions), _DEGREE)


def _curvature(spline: BSpline) -> Float[np.ndarray, "function function"]:
    """Integrate products of two second derivatives; these are linear between knots, so Simpson's rule is exact."""
    knots = np.unique(spline.t)
    widths = np.diff(knots)
    second = spline.derivative(2)
    total = np.zeros((len(spline.c), len(spline.c)))
    for share, place in ((1 / 6, 0.0), (4 / 6, 0.5), (1 / 6, 1.0)):
        inside = knots[:-1] + widths * np.clip(place, 1e-9, 1 - 1e-9)
        values = second(inside)
        total += share * (values * widths[:, None]).T @ values
    return total


def possible_parents(products: Products, most: int) -> np.ndarray:
    """Find by componentwise boosting which variables explain which; [i, j] says whether i explains j.

    In each step the one variable whose function explains most of what is left is added to the model, much reduced.
    """
    nodes = len(products.penalties)
    smoothers = np.stack([_smoother(products.bases[i, :, i], products.penalties[i]) for i in range(nodes)])
    left = products.with_variables.copy()
    chosen = np.zeros((nodes, nodes), dtype=int)
    targets = np.arange(nodes)
    for _ in range(_BOOSTING_STEPS):
        fits = np.einsum("ikl,ilj->ikj", smoothers, left)
        own = np.einsum("ikil,ilj->ikj", products.bases, fits)
        gains = np.sum(fits * (2 * left - own), axis=1)
        np.fill_diagonal(gains, -np.inf)
        best = np.argmax(gains, axis=0)
        chosen[best, targets] += 1
        steps = _BOOSTING_RATE * fits[best, :, targets]
        left -= np.einsum("jikl,jl->ikj", products.bases.transpose(2, 0, 1, 3)[best], steps)
    enough = chosen >= _SELECTED_SHARE * _BOOSTING_STEPS
    ranks = np.argsort(np.argsort(-chosen, axis=0, kind="stable"), axis=0)
    return enough & (ranks < most)


def _smoother(
    gram: Float[np.ndarray, "function function"], penalty: Float[np.ndarray, "function function"]
) -> Float[np.ndarray, "function function"]:
    """Return the matrix from products with a variable to the coefficients of a fit with few degrees of freedom."""
    roughness = np.maximum(eigh(penalty, gram, eigvals_only=True), 0)

    def freedom(log_weight: float) -> float:
        return float(np.sum(1 / (1 + np.exp(log_weight) * roughness))) - _BOOSTING_FREEDOM

    weight = np.exp(cast(float, brentq(freedom, -40, 40))) if freedom(-40) > 0 > freedom(40) else 0.0
    return np.linalg.inv(gram + weight * penalty)


def greedy_dag(products: Products, allowed: np.ndarray) -> np.ndarray:
    """Add allowed edges that close no cycle, those first that lower the noise variances most."""
    nodes = len(allowed)
    edges = np.zeros((nodes, nodes), dtype=bool)
    reaches = np.eye(nodes, dtype=bool)  # [i, j]: there is a path from i to j
    variances = np.ones(nodes)
    lowered = np.full((nodes, nodes), np.nan)

    def update(j: int) -> None:
        parents = np.flatnonzero(edges[:, j])
        for i in np.flatnonzero(allowed[:, j] & ~edges[:, j] & ~reaches[j]):
            lowered[i, j] = products.variance(j, np.append(parents, i))

    for j in range(nodes):
        update(j)
    while (open_ := allowed & ~edges & ~reaches.T).any():
        gains = np.where(open_, np.log(variances) - np.log(np.where(open_, lowered, 1.0)), -np.inf)
        i, j = np.unravel_index(np.argmax(gains), gains.shape)
        edges[i, j] = True
        variances[j] = lowered[i, j]
        reaches |= np.outer(reaches[:, i], reaches[j])
        update(int(j))
    return edges
