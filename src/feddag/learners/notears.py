"""NOTEARS (Zheng et al., "DAGs with NO TEARS", NeurIPS 2018): linear equations, smoothly constrained to be acyclic.

Minimises ½ E|X − XW|² + λ|W|₁ subject to tr e^(W∘W) = d, by an augmented Lagrangian and L-BFGS-B, with the published
code's constants. It sees the data through their covariance alone, so that many sites give the very result of their
pooled rows.

Assumes: linear mechanisms that all sites share, no hidden common causes, noise of equal variance. Squared error makes
the result depend on the units of the columns: do not use it where scales are arbitrary, or mechanisms not linear.
Where they differ by orders of magnitude, the search ends far from a DAG (h, in its history), and only cuts make it one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import expm
from scipy.optimize import minimize

from feddag import constraints
from feddag.graphs import CausalGraph, threshold_to_dag
from feddag.learners import knowledge
from feddag.learners.knowledge import Edges, Knowledge
from feddag.learners.moments import FromMoments
from feddag.learners.single_pass import Note
from feddag.regression.moments import Moments

_RHO_FACTOR, _PROGRESS = 10.0, 0.25


@dataclass(eq=False, repr=False)
class NOTEARS(FromMoments):
    """Learn linear equations under the constraint that their graph be acyclic.

    Args:
        l1: The weight λ of the sparsity term.
        threshold: Edges have a |weight| above it; then the weakest edge of every cycle is cut.
        required, forbidden: Edges, as (cause, effect) pairs of names, that must be or cannot be in the graph.
        tiers: Lists of names; nothing in a later one causes anything in an earlier one.
        exogenous: Names of variables that nothing in the graph causes.
        h_tol, rho_max, it_max: The search ends when the distance h from a DAG has fallen to `h_tol`, ρ has reached
            `rho_max`, or after `it_max` updates of the multiplier α.

    Attributes:
        edge_scores_: Each edge's |weight|.
        history_: One row per solved sub-problem.
    """

    parameter_constraints: ClassVar = {
        "l1": constraints.at_least_zero,
        "threshold": constraints.positive,
        "h_tol": constraints.positive,
        "rho_max": constraints.positive,
        "it_max": constraints.whole(1),
        **knowledge.CONSTRAINTS,
    }

    _: KW_ONLY
    l1: float = 0.1
    threshold: float = 0.3
    h_tol: float = 1e-8
    rho_max: float = 1e16
    it_max: int = 100
    required: Edges = ()
    forbidden: Edges = ()
    tiers: Sequence[Sequence[str]] = ()
    exogenous: Sequence[str] = ()

    def edge_threshold(self) -> float:
        """Return the parameter `threshold`."""
        return self.threshold

    def learn_moments(self, moments: Moments, note: Note) -> CausalGraph:
        """Solve for the weights, drop weak edges and cut every cycle; required edges stay."""
        known = self.knowledge_of(moments.columns)
        scores = np.abs(self.solve(moments.covariance, known, note))
        return CausalGraph(threshold_to_dag(scores, self.threshold, known.certain), moments.columns, scores)

    def solve(
        self, covariance: Float[np.ndarray, "node node"], known: Knowledge, note: Note = lambda figures: None
    ) -> Float[np.ndarray, "node node"]:
        """Return the weights before any threshold; [i, j] belongs to the edge i → j."""
        nodes = len(covariance)
        weights = np.zeros(2 * nodes**2)  # W⁺ and W⁻
        # the diagonal and what else cannot be are fixed at zero
        bounds = [(0.0, 0.0) if fixed else (0.0, None) for _ in range(2) for fixed in known.impossible.flat]
        alpha, rho, h = 0.0, 1.0, np.inf
        for sub_problem in range(1, self.it_max + 1):
            while True:
                found = minimize(
                    _lagrangian,
                    weights,
                    (covariance, self.l1, alpha, rho, known.certain),
                    "L-BFGS-B",
                    jac=True,
                    bounds=bounds,
                ).x
                h_found, _ = acyclicity(np.where(known.certain, 1.0, joined(found, covariance.shape)))
                note({"sub_problem": sub_problem, "rho": rho, "h": h_found})
                if h_found <= _PROGRESS * h or rho >= self.rho_max:
                    break
                rho *= _RHO_FACTOR
            weights, h = found, h_found
            alpha += rho * h
            if h <= self.h_tol or rho >= self.rho_max:
                break
        return joined(weights, covariance.shape)


def joined(halves: Float[np.ndarray, " parameter"], shape: tuple[int, ...]) -> Float[np.ndarray, "*unit node node"]:
    """Return W = W⁺ − W⁻. Both halves are at least zero, so that |W|₁ is smooth: it is their sum."""
    half = len(halves) // 2
    return (halves[:half] - halves[half:]).reshape(shape)


def acyclicity(W: Float[np.ndarray, "*unit node node"]) -> tuple[float, Float[np.ndarray, "*unit node node"]]:
    """Compute h = tr e^(W∘W) − d, and its gradient. Where an edge has many weights, W∘W is the sum of their squares."""
    nodes = W.shape[-1]
    with np.errstate(over="ignore", invalid="ignore"):  # where a step went too far, which the line search takes back
        exponential = expm((W * W).reshape(-1, nodes, nodes).sum(axis=0))
        return float(np.trace(exponential) - nodes), exponential.T * W * 2


def _lagrangian(
    halves: Float[np.ndarray, " parameter"],
    covariance: Float[np.ndarray, "node node"],
    l1: float,
    alpha: float,
    rho: float,
    certain: Bool[np.ndarray, "node node"],
) -> tuple[float, Float[np.ndarray, " parameter"]]:
    """Compute the augmented Lagrangian. Certain edges count in full towards cycles, and not at all towards |W|₁."""
    W = joined(halves, covariance.shape)
    remainder = np.eye(len(W)) - W
    explained = covariance @ remainder
    h, h_gradient = acyclicity(np.where(certain, 1.0, W))
    h_gradient[certain] = 0.0
    free = np.tile(~certain.ravel(), 2)
    with np.errstate(over="ignore", invalid="ignore"):  # as in the acyclicity itself
        value = np.sum(remainder * explained) / 2 + l1 * (halves * free).sum() + (alpha + rho * h / 2) * h
        gradient = ((alpha + rho * h) * h_gradient - explained).ravel()
    return value, np.concatenate([gradient, -gradient]) + l1 * free
