"""The outer loop of FedDAG (Algorithm 1): how hard the next sub-problem presses for a DAG."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import PchipInterpolator

_PUBLISHED_NODES = (10, 20, 40)
_PUBLISHED_RHO = {"graph": (6e-3, 6e-5, 1e-11), "all": (6e-3, 1e-5, 1e-11)}
_PUBLISHED_BETA = (10.0, 20.0, 120.0)


@dataclass(frozen=True)
class Schedule:
    """The coefficients' parameters, named as in the paper (tables 11 and 12)."""

    alpha_init: float
    rho_init: float
    rho_max: float
    beta: float
    gamma: float
    h_tol: float
    it_max: int
    rho_update: str


def default_pair(nodes: int, sharing: str, acyclicity: str) -> tuple[float, float]:
    """Return the default `ρ_init` and `β`."""
    if acyclicity == "log-det":
        # The published pairs are for tr(e^A). Here a cycle of two weighs 1/d², and ρh² must press as hard at any d;
        # the factor was chosen on 10 nodes.
        return 0.1 * nodes**4, 10.0
    return published_pair(nodes, sharing)


def published_pair(nodes: int, sharing: str) -> tuple[float, float]:
    """Return `ρ_init` and `β` for a number of nodes: the published pairs at 10, 20 and 40.

    Their logarithms follow a monotone cubic between these, and go on with its end slopes: below 10 per node, above 40
    per relative growth, lest ρ vanish in single precision.
    """
    return _interpolated(nodes, _PUBLISHED_RHO[sharing]), _interpolated(nodes, _PUBLISHED_BETA)


def _interpolated(nodes: int, published: tuple[float, ...]) -> float:
    if nodes in _PUBLISHED_NODES:
        return published[_PUBLISHED_NODES.index(nodes)]
    curve = PchipInterpolator(_PUBLISHED_NODES, np.log(published))
    first, last = _PUBLISHED_NODES[0], _PUBLISHED_NODES[-1]
    if nodes < first:
        logarithm = curve(first) + (nodes - first) * curve(first, 1)
    elif nodes > last:
        logarithm = curve(last) + last * math.log(nodes / last) * curve(last, 1)
    else:
        logarithm = curve(nodes)
    return math.exp(logarithm)


@dataclass(frozen=True)
class AugmentedLagrangian:
    """Where the outer loop stands: the coefficients of the sub-problem that comes next."""

    alpha: float
    rho: float
    h: float = math.inf
    """The acyclicity that the last accepted sub-problem reached."""
    sub_problem: int = 0
    multiplier_updates: int = 0
    finished: bool = False

    @classmethod
    def start(cls, schedule: Schedule) -> AugmentedLagrangian:
        """Return the coefficients of the first sub-problem."""
        return cls(alpha=schedule.alpha_init, rho=schedule.rho_init)

    def after(self, h: float, schedule: Schedule) -> AugmentedLagrangian:
        """Return the next sub-problem, once this one has reached the acyclicity `h`.

        With `rho_update="repeat"`, as in the published figures, ρ is raised and the problem solved again until h has
        fallen by γ, and only then is α updated; with `"once"`, as Algorithm 1 is printed, both happen every time.
        """
        stalled = h > schedule.gamma * self.h and h > schedule.h_tol
        rho = self.rho * schedule.beta if stalled else self.rho
        following = replace(self, rho=rho, sub_problem=self.sub_problem + 1)
        if not (stalled and schedule.rho_update == "repeat"):
            following = replace(
                following,
                alpha=self.alpha + self.rho * h,
                h=h,
                multiplier_updates=self.multiplier_updates + 1,
            )
        finished = h <= schedule.h_tol or rho > schedule.rho_max or following.multiplier_updates >= schedule.it_max
        return replace(following, finished=finished)
