"""Agreement by the alternating direction method of multipliers (Ng and Zhang, "Towards Federated Bayesian Network
Structure Learning with Continuous Optimization", AISTATS 2022).

Every site fits equations to its own rows, drawn towards common ones; the server chooses the common ones, sparse and
acyclic, nearest to what the sites found. Each round both forces grow, until all agree. The constants are those of
the published code for linear equations, which does not stop before ρ has reached its limit. So fast a growth freezes
the parameters before they are the best for their graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from feddag import constraints
from feddag.federation import Answer, Federation, Task, unknown_task
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import MOST_ROWS, Bounds, Output, TaskSpec, bounds_like, by_name
from feddag.graphs import CausalGraph, threshold_to_dag
from feddag.learners.notears import acyclicity, joined
from feddag.learners.single_pass import FederatedSinglePass, Note

ROWS = TaskSpec("admm.rows", "The number of rows", {"rows": Output("the number of rows")})
FIT = TaskSpec(
    "admm.fit",
    "Equations fitted to the site's own rows, drawn towards the common ones",
    {
        "W": Output("for each possible edge its weights, plus the scaled multipliers", None),
        "*": Output("other parameters of the equations, plus the scaled multipliers", None),
    },
    every_site=False,
)

_RHO_INIT, _ACYCLICITY_FACTOR, _CONSENSUS_FACTOR = 1e-3, 1.75, 1.25
_PRECISE = {"ftol": 0.0, "gtol": 1e-8, "maxiter": 500}
"""Small ρ make a flat problem, whose solution scipy's own tolerances leave to the order of the variables."""

Flat = Float[np.ndarray, " parameter"]


class ConsensusADMM(FederatedSinglePass):
    """A learner that writes `site`, whose sites are `AgreeingSite`s, and `initial_arrays`."""

    task_specs: ClassVar = (ROWS, FIT)
    parameter_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {
        "l1": constraints.at_least_zero,
        "threshold": constraints.positive,
        "rho_max": constraints.positive,
        "it_max": constraints.whole(1),
    }

    l1: float
    threshold: float
    rho_max: float
    it_max: int

    @abstractmethod
    def initial_arrays(self, nodes: int) -> dict[str, np.ndarray]:
        """Return the first common parameters. All of `W[..., i, j]` are zero just where there is no edge i → j."""

    def tasks(self, columns: Sequence[str], sites: int) -> Mapping[str, TaskSpec]:
        """Return both tasks, with bounds on the rows, ρ and the common parameters."""
        del sites
        rho = Bounds(_RHO_INIT, max(_RHO_INIT, self.rho_max * _CONSENSUS_FACTOR))
        numbers = {"rows": Bounds(1, MOST_ROWS, whole=True), "rho": rho}
        return by_name((ROWS, FIT.with_bounds(numbers=numbers, arrays=bounds_like(self.initial_arrays(len(columns))))))

    @property
    def most_rounds(self) -> int:
        """The rounds of the row counts and of all updates."""
        return 1 + self.it_max

    def edge_threshold(self) -> float:
        """Return the parameter `threshold`."""
        return self.threshold

    def learn_once(self, federation: Federation, columns: tuple[str, ...], note: Note) -> CausalGraph:
        """Solve for the common weights, drop weak edges and cut every cycle."""
        W = self.solve(federation, len(columns), note)["W"]
        scores = np.linalg.norm(W.reshape(-1, *W.shape[-2:]), axis=0)
        np.fill_diagonal(scores, 0)
        return CausalGraph(threshold_to_dag(scores, self.threshold), columns, scores)

    def solve(self, federation: Federation, nodes: int, note: Note = lambda figures: None) -> dict[str, np.ndarray]:
        """Return the common parameters before any threshold."""
        rows = float(ROWS.ask(federation)["rows"]) * len(federation.sites)
        common = self.initial_arrays(nodes)
        alpha, rho, consensus_rho = 0.0, _RHO_INIT, _RHO_INIT
        for round_ in range(1, self.it_max + 1):
            found = FIT.ask(federation, round_, common, {"rows": rows, "rho": consensus_rho})
            pull = federation.summed * consensus_rho
            # on all but the graph the sites decide alone
            common = found | {"W": _compromise(common["W"], found["W"], pull, self.l1, alpha, rho)}
            h, _ = acyclicity(common["W"])
            note({"round": round_, "rho": rho, "h": h})
            alpha += rho * h
            if rho < self.rho_max:
                rho *= _ACYCLICITY_FACTOR
            if consensus_rho < self.rho_max:
                consensus_rho *= _CONSENSUS_FACTOR
            if min(rho, consensus_rho) >= self.rho_max:
                break
        return common


def _compromise(
    W: Float[np.ndarray, "*unit node node"], found: Float[np.ndarray, "*unit node node"], *forces: float
) -> Float[np.ndarray, "*unit node node"]:
    halves = np.concatenate([np.maximum(W, 0).ravel(), np.maximum(-W, 0).ravel()])
    bounds = [(0.0, None)] * len(halves)
    solution = minimize(_lagrangian, halves, (found, *forces), "L-BFGS-B", jac=True, bounds=bounds, options=_PRECISE)
    return joined(solution.x, W.shape)


def _lagrangian(
    halves: Flat, found: Float[np.ndarray, "*unit node node"], pull: float, l1: float, alpha: float, rho: float
) -> tuple[float, Flat]:
    """Compute the server's objective: how far W is from what the sites found, from sparse, and from acyclic."""
    W = joined(halves, found.shape)
    h, h_gradient = acyclicity(W)
    with np.errstate(over="ignore", invalid="ignore"):  # as in the acyclicity itself
        value = pull / 2 * np.sum((W - found) ** 2) + l1 * halves.sum() + (alpha + rho * h / 2) * h
        gradient = (pull * (W - found) + (alpha + rho * h) * h_gradient).ravel()
    return value, np.concatenate([gradient + l1, l1 - gradient])


class AgreeingSite(ABC):
    """A site's side: its own parameters, and the multipliers of their difference from the common ones, which stay here.

    A site that extends it writes `nearest`.
    """

    def __init__(self, name: str, rows: int) -> None:
        self.name = name
        self.rows = rows
        self.own: Flat | None = None
        self.multipliers: Flat | None = None
        self.rho = 0.0

    @abstractmethod
    def nearest(self, target: Flat, pull: float, start: Flat) -> Flat:
        """Return the parameters that minimise the loss per row plus `pull`/2 · |parameters − target|²."""

    def answer(self, task: Task) -> Answer:
        """Return the parameters plus the multipliers over ρ: their sum is all that the server's problem needs."""
        if task.name == ROWS.name:
            return Answer(1.0, {"rows": np.array(float(self.rows))})
        if task.name != FIT.name:
            raise unknown_task(self.name, task, (ROWS.name, FIT.name))
        common, rho = _flat(task.arrays), task.numbers["rho"]
        if self.own is None or self.multipliers is None:
            self.own, self.multipliers = common, np.zeros_like(common)
        self.multipliers = self.multipliers + self.rho * (self.own - common)
        pull = rho * task.numbers["rows"] / self.rows
        self.own = self.nearest(common - self.multipliers / rho, pull, self.own)
        self.rho = rho
        return Answer(1.0, named(self.own + self.multipliers / rho, task.arrays))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the site's parameters, multipliers and ρ; nothing before the first fit."""
        if self.own is None or self.multipliers is None:
            return {}
        return {"own": self.own, "multipliers": self.multipliers, "rho": np.array(self.rho)}

    def restore(self, state: Arrays) -> None:
        """Restore the site's parameters, multipliers and ρ."""
        self.own, self.multipliers, self.rho = state.get("own"), state.get("multipliers"), float(state.get("rho", 0.0))


def _flat(arrays: Arrays) -> Flat:
    """Join all parameters, in the order of their names."""
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])


def named(flat: Any, template: Arrays) -> dict[str, Any]:
    """Undo `_flat`, for NumPy's arrays and for JAX's."""
    arrays, begin = {}, 0
    for name in sorted(template):
        end = begin + template[name].size
        arrays[name] = flat[begin:end].reshape(template[name].shape)
        begin = end
    return arrays
