"""NOTEARS-ADMM (Ng and Zhang, "Towards Federated Bayesian Network Structure Learning with Continuous Optimization",
AISTATS 2022): linear equations that sites fit alone, and that are pressed to agree and to be acyclic (see `admm`).

As in the published code, the diagonal of W is not bounded.

Assumes: linear mechanisms that all sites share, no hidden common causes, noise of equal variance. Do not use it where
covariances may be summed: NOTEARS then solves the same problem exactly, in two rounds. Squared error makes the result
depend on the units of the columns: do not use it where scales are arbitrary, or mechanisms not linear.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from feddag.federation import Site
from feddag.learners.admm import AgreeingSite, ConsensusADMM, Flat
from feddag.silos import Silo


class NOTEARSADMM(ConsensusADMM):
    """Learn linear equations that every site fits alone, and that are pressed to agree and to be acyclic.

    Args:
        l1: The weight λ of the sparsity term.
        threshold: Edges have a |weight| above it; then the weakest edge of every cycle is cut.
        rho_max, it_max: The search ends when both coefficients have reached `rho_max`, or after `it_max` rounds.

    Attributes:
        edge_scores_: Each edge's |weight|.
        history_: One row per round.
    """

    def __init__(self, *, l1: float = 0.01, threshold: float = 0.3, rho_max: float = 1e16, it_max: int = 200) -> None:
        self.l1 = l1
        self.threshold = threshold
        self.rho_max = rho_max
        self.it_max = it_max

    def site(self, silo: Silo, position: int) -> Site:
        """Return a site that fits linear equations to its covariance."""
        del position
        return _Equations(silo.name, silo.values)

    def site_worker_count(self) -> int:
        """Return 1: the sites answer one after the other."""
        return 1

    def initial_arrays(self, nodes: int) -> dict[str, np.ndarray]:
        """Return weights of zero."""
        return {"W": np.zeros((nodes, nodes))}


class _Equations(AgreeingSite):
    """A site's linear equations, by its covariance."""

    def __init__(self, name: str, values: Float[np.ndarray, "row node"]) -> None:
        super().__init__(name, len(values))
        self._covariance = np.cov(values, rowvar=False, bias=True)

    def nearest(self, target: Flat, pull: float, start: Flat) -> Flat:
        del start
        covariance = self._covariance
        drawn = covariance + pull * np.eye(len(covariance))
        return np.linalg.solve(drawn, pull * target.reshape(covariance.shape) + covariance).ravel()
