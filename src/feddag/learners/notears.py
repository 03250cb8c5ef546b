"""NOTEARS (Zheng et al., "DAGs with NO TEARS", NeurIPS 2018): linear equations, smoothly constrained to be acyclic.

Minimises ½ E|X − XW|² + λ|W|₁ subject to tr e^(W∘W) = d, by an augmented Lagrangian and L-BFGS-B, with the published
code's constants. It sees the data through their covariance alone, so that many sites give the very result of their
pooled rows.

Assumes: linear mechanisms that all sites share, no hidden common causes, noise of equal variance. Squared error makes
the result depend on the units of the columns: do not use it where scales are arbitrary, or mechanisms not linear.
Where they differ by orders of magnitude, the search ends far from a DAG (h, in its history), and only cuts make it one.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.linalg import expm
from scipy.optimize import minimize

from feddag import parameters as must_be
from feddag.graphs import CausalGraph, threshold_to_dag
from feddag.learners.moments import FromMoments, Moments
from feddag.learners.one_step import Note

_RHO_FACTOR, _PROGRESS = 10.0, 0.25


class NOTEARS(FromMoments):
    """Learn linear equations under the constraint that their graph be acyclic.

    Args:
        l1: The weight λ of the sparsity term.
        threshold: Edges have a |weight| above it; then the weakest edge of every cycle is cut.
        h_tol, rho_max, it_max: The search ends when the distance h from a DAG has fallen to `h_tol`, ρ has reached
            `rho_max`, or after `it_max` updates of the multiplier α.

    Attributes:
        edge_scores_: Each edge's |weight|.
        history_: One row per solved sub-problem.
    """

    constraints: ClassVar = {
        "l1": must_be.at_least_zero,
        "threshold": must_be.positive,
        "h_tol": must_be.positive,
        "rho_max": must_be.positive,
        "it_max": must_be.whole(1),
    }

    def __init__(
        self,
        *,
        l1: float = 0.1,
        threshold: float = 0.3,
        h_tol: float = 1e-8,
        rho_max: float = 1e16,
        it_max: int = 100,
    ) -> None:
        self.l1 = l1
        self.threshold = threshold
        self.h_tol = h_tol
        self.rho_max = rho_max
        self.it_max = it_max

    def _threshold(self) -> float:
        return self.threshold

    def _learn_moments(self, moments: Moments, note: Note) -> CausalGraph:
        scores = np.abs(self.solve(moments.covariance, note))
        return CausalGraph(threshold_to_dag(scores, self.threshold), moments.columns, scores)

    def solve(
        self, covariance: Float[np.ndarray, "node node"], note: Note = lambda figures: None
    ) -> Float[np.ndarray, "node node"]:
        """The weights before any threshold; [i, j] is that of the edge i → j."""
        nodes = len(covariance)
        weights = np.zeros(2 * nodes**2)  # W⁺ and W⁻
        # only the diagonal is fixed at zero
        bounds = [(0.0, 0.0) if i == j else (0.0, None) for _ in range(2) for i in range(nodes) for j in range(nodes)]
        alpha, rho, h = 0.0, 1.0, np.inf
        for sub_problem in range(1, self.it_max + 1):
            while True:
                found = minimize(
                    _lagrangian, weights, (covariance, self.l1, alpha, rho), "L-BFGS-B", jac=True, bounds=bounds
                ).x
                h_found, _ = acyclicity(joined(found))
                note({"sub-problem": sub_problem, "ρ": rho, "h": h_found})
                if h_found <= _PROGRESS * h or rho >= self.rho_max:
                    break
                rho *= _RHO_FACTOR
            weights, h = found, h_found
            alpha += rho * h
            if h <= self.h_tol or rho >= self.rho_max:
                break
        return joined(weights)


def joined(halves: Float[np.ndarray, " parameter"]) -> Float[np.ndarray, "node node"]:
    """W = W⁺ − W⁻, of halves that are both at least zero, so that |W|₁ is smooth: their sum."""
    half = len(halves) // 2
    nodes = math.isqrt(half)
    return (halves[:half] - halves[half:]).reshape(nodes, nodes)


def acyclicity(W: Float[np.ndarray, "node node"]) -> tuple[float, Float[np.ndarray, "node node"]]:
    """h = tr e^(W∘W) − d, and its gradient."""
    with np.errstate(over="ignore", invalid="ignore"):  # where a step went too far, which the line search takes back
        exponential = expm(W * W)
        return float(np.trace(exponential) - len(W)), exponential.T * W * 2


def _lagrangian(
    halves: Float[np.ndarray, " parameter"],
    covariance: Float[np.ndarray, "node node"],
    l1: float,
    alpha: float,
    rho: float,
) -> tuple[float, Float[np.ndarray, " parameter"]]:
    W = joined(halves)
    remainder = np.eye(len(W)) - W
    explained = covariance @ remainder
    h, h_gradient = acyclicity(W)
    value = np.sum(remainder * explained) / 2 + l1 * halves.sum() + (alpha + rho * h / 2) * h
    gradient = ((alpha + rho * h) * h_gradient - explained).ravel()
    return value, np.concatenate([gradient + l1, l1 - gradient])
