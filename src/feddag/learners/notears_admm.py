"""NOTEARS-ADMM (Ng and Zhang, "Towards Federated Bayesian Network Structure Learning with Continuous Optimization",
AISTATS 2022): NOTEARS by the alternating direction method of multipliers.

Every site fits linear equations to its own rows, drawn towards common weights W; the server chooses W, sparse and
acyclic, nearest to what the sites found. Each round both forces grow, until all agree. Constants are those of the
published code, which neither bounds the diagonal of W nor stops before ρ has reached its limit. So fast a growth
freezes the weights before they are the best for their graph.

Assumes: linear mechanisms that all sites share, no hidden common causes, noise of equal variance. Do not use it where
covariances may be summed: NOTEARS then solves the same problem exactly, in two rounds. Squared error makes the result
depend on the units of the columns: do not use it where scales are arbitrary, or mechanisms not linear.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from feddag import parameters as must_be
from feddag.federation import Answer, Federation, Site, Task
from feddag.federation.protocol import Arrays
from feddag.graphs import CausalGraph, threshold_to_dag
from feddag.learners.notears import acyclicity, joined
from feddag.learners.one_step import FederatedOneStep, Note
from feddag.silos import Silo

ROWS = "admm.rows"
FIT = "admm.fit"

_RHO_INIT, _ACYCLICITY_FACTOR, _CONSENSUS_FACTOR = 1e-3, 1.75, 1.25
_PRECISE = {"ftol": 0.0, "gtol": 1e-8, "maxiter": 500}
"""Small ρ make a flat problem, whose solution scipy's own tolerances leave to the order of the variables."""


class NOTEARSADMM(FederatedOneStep):
    """Learn linear equations that every site fits alone, and that are pressed to agree and to be acyclic.

    Args:
        l1: The weight λ of the sparsity term.
        threshold: Edges have a |weight| above it; then the weakest edge of every cycle is cut.
        rho_max, it_max: The search ends when both coefficients have reached `rho_max`, or after `it_max` rounds.

    Attributes:
        edge_scores_: Each edge's |weight|.
        history_: One row per round.
    """

    constraints: ClassVar = {
        "l1": must_be.at_least_zero,
        "threshold": must_be.positive,
        "rho_max": must_be.positive,
        "it_max": must_be.whole(1),
    }

    def __init__(self, *, l1: float = 0.01, threshold: float = 0.3, rho_max: float = 1e16, it_max: int = 200) -> None:
        self.l1 = l1
        self.threshold = threshold
        self.rho_max = rho_max
        self.it_max = it_max

    def _threshold(self) -> float:
        return self.threshold

    def site(self, silo: Silo, position: int) -> Site:
        del position
        return _Equations(silo.name, silo.values)

    def _site_workers(self) -> int:
        return 1

    def _ask(self, federation: Federation, columns: tuple[str, ...], note: Note) -> CausalGraph:
        scores = np.abs(self.solve(federation, len(columns), note))
        np.fill_diagonal(scores, 0)
        return CausalGraph(threshold_to_dag(scores, self.threshold), columns, scores)

    def solve(
        self, federation: Federation, nodes: int, note: Note = lambda figures: None
    ) -> Float[np.ndarray, "node node"]:
        """The common weights before any threshold; [i, j] is that of the edge i → j."""
        everyone = tuple(range(len(federation.sites)))
        rows = float(federation.aggregate(Task(ROWS, 0, {}, {}, everyone, complete=True))["rows"]) * len(everyone)
        W = np.zeros((nodes, nodes))
        alpha, rho, consensus_rho = 0.0, _RHO_INIT, _RHO_INIT
        for round_ in range(1, self.it_max + 1):
            numbers = {"rows": rows, "rho": consensus_rho}
            found = federation.aggregate(Task(FIT, round_, numbers, {"W": W}, everyone))["W"]
            halves = np.concatenate([np.maximum(W, 0).ravel(), np.maximum(-W, 0).ravel()])
            arguments = (found, federation.summed * consensus_rho, self.l1, alpha, rho)
            bounds = [(0.0, None)] * len(halves)
            W = joined(
                minimize(_lagrangian, halves, arguments, "L-BFGS-B", jac=True, bounds=bounds, options=_PRECISE).x
            )
            h, _ = acyclicity(W)
            note({"round": round_, "ρ": rho, "h": h})
            alpha += rho * h
            if rho < self.rho_max:
                rho *= _ACYCLICITY_FACTOR
            if consensus_rho < self.rho_max:
                consensus_rho *= _CONSENSUS_FACTOR
            if min(rho, consensus_rho) >= self.rho_max:
                break
        return W


def _lagrangian(
    halves: Float[np.ndarray, " parameter"],
    found: Float[np.ndarray, "node node"],
    pull: float,
    l1: float,
    alpha: float,
    rho: float,
) -> tuple[float, Float[np.ndarray, " parameter"]]:
    """The server's: how far W is from what the sites found, from sparse, and from acyclic."""
    W = joined(halves)
    h, h_gradient = acyclicity(W)
    with np.errstate(over="ignore", invalid="ignore"):  # as in the acyclicity itself
        value = pull / 2 * np.sum((W - found) ** 2) + l1 * halves.sum() + (alpha + rho * h / 2) * h
        gradient = (pull * (W - found) + (alpha + rho * h) * h_gradient).ravel()
    return value, np.concatenate([gradient + l1, l1 - gradient])


@dataclass
class _Equations:
    """A site's side: its own weights, and the multipliers of their difference from the common ones, which stay here."""

    name: str
    values: Float[np.ndarray, "row node"]
    covariance: Float[np.ndarray, "node node"] = field(init=False)
    weights: Float[np.ndarray, "node node"] = field(init=False)
    multipliers: Float[np.ndarray, "node node"] = field(init=False)
    rho: float = 0.0

    def __post_init__(self) -> None:
        centred = self.values - self.values.mean(axis=0)
        self.covariance = centred.T @ centred
        self.weights, self.multipliers = np.zeros_like(self.covariance), np.zeros_like(self.covariance)

    def answer(self, task: Task) -> Answer:
        """The weights plus the multipliers over ρ: all that the server's problem needs of them, summed over sites."""
        if "W" not in task.arrays:
            return Answer(1.0, {"rows": np.array(float(len(self.values)))})
        W, rho = task.arrays["W"], task.numbers["rho"]
        self.multipliers = self.multipliers + self.rho * (self.weights - W)
        covariance = self.covariance / task.numbers["rows"]
        drawn = covariance + rho * np.eye(len(covariance))
        self.weights = np.linalg.solve(drawn, rho * W - self.multipliers + covariance)
        self.rho = rho
        return Answer(1.0, {"W": self.weights + self.multipliers / rho})

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights, "multipliers": self.multipliers, "rho": np.array(self.rho)}

    def restore(self, state: Arrays) -> None:
        self.weights, self.multipliers, self.rho = state["weights"], state["multipliers"], float(state["rho"])
