"""NOTEARS-MLP-ADMM (Ng and Zhang, "Towards Federated Bayesian Network Structure Learning with Continuous
Optimization", AISTATS 2022): NOTEARS-MLP's networks, which sites fit alone, pressed to agree and to be acyclic
(see `admm`).

The published code begins with a random network at every site and with ρ = 0.1, takes the sum of the weights, rather
than of their absolute values, for the sparsity term, and has no use for λ₂. Here all sites begin with the same
networks, since the units of a hidden layer may stand in any order, and networks that had found different ones could
not be averaged; with a smaller ρ, since 0.1 freezes an order that the sites have not yet learned; and both penalties
are NOTEARS-MLP's.

Assumes: mechanisms that all sites share, no hidden common causes, additive noise of equal variance. Squared error makes
the result depend on the units of the columns: do not use it where scales are arbitrary, nor where mechanisms differ.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from feddag import constraints
from feddag.federation import Site
from feddag.federation.arrays import prefixed, under
from feddag.learners.admm import AgreeingSite, ConsensusADMM, Flat, named
from feddag.learners.base import SEED, WORKERS
from feddag.learners.feddag.local_solver import SERVER, initial_parameters
from feddag.models import NOTEARSMLP, Parameters
from feddag.models.compilation import keep_compiled_programs
from feddag.models.rows import prepared_rows
from feddag.silos import Silo

_PRECISE = {"ftol": 1e-14, "gtol": 1e-6, "maxiter": 2000}
"""Were a search to end before it has converged, the order in which sites are summed would decide on the graph."""


@dataclass(eq=False, repr=False)
class NOTEARSMLPADMM(ConsensusADMM):
    """Learn small networks that every site fits alone, and that are pressed to agree and to be acyclic.

    Args:
        l1: The weight λ of the sparsity term.
        hidden_units: The number of hidden units of each variable's network.
        threshold: Edges whose weights have a norm above it stand; then the weakest edge of every cycle is cut.
        rho_max, it_max: The search ends when both coefficients have reached `rho_max`, or after `it_max` rounds.
        seed: The seed of the networks' first parameters.
        workers: Threads that sites are spread over; the machine's cores where it is None.

    Attributes:
        edge_scores_: The norm of each edge's weights.
        history_: One row per round.
    """

    parameter_constraints: ClassVar = {
        **ConsensusADMM.parameter_constraints,
        "hidden_units": constraints.whole(1),
        "seed": SEED,
        "workers": WORKERS,
    }

    _: KW_ONLY
    l1: float = 0.001
    hidden_units: int = 10
    threshold: float = 0.3
    rho_max: float = 1e16
    it_max: int = 200
    seed: int = 0
    workers: int | None = None

    def site(self, silo: Silo, position: int) -> Site:
        """Return a site that fits one network per variable to its rows."""
        del position
        keep_compiled_programs()
        return _Networks(silo, NOTEARSMLP(self.hidden_units))

    def initial_arrays(self, nodes: int) -> dict[str, np.ndarray]:
        """Draw the networks' first parameters from the seed."""
        return _arrays(initial_parameters(NOTEARSMLP(self.hidden_units), nodes, self.seed, SERVER))


def _arrays(params: Parameters) -> dict[str, np.ndarray]:
    """Name a model's parameters as the server does: `W[unit, i, j]`, and all others."""
    arrays = {"W": params["graph"].transpose(1, 2, 0), **prefixed("mechanism", params["mechanism"])}
    return {name: array.astype(np.float64) for name, array in arrays.items()}


class _Networks(AgreeingSite):
    """A site's networks, one per variable."""

    def __init__(self, silo: Silo, model: NOTEARSMLP) -> None:
        super().__init__(silo.name, silo.rows)
        self._objective = _compiled_objective(model, len(silo.columns))
        with jax.enable_x64(True):
            self._data = prepared_rows(silo.values, precision=np.float64)

    def nearest(self, target: Flat, pull: float, start: Flat) -> Flat:
        def objective(flat: Flat) -> tuple[float, Flat]:
            value, gradient = self._objective(flat, target, pull, self._data)
            return float(value), np.asarray(gradient)

        with jax.enable_x64(True):  # in single precision a line search would end long before its problem is solved
            return minimize(objective, start, method="L-BFGS-B", jac=True, options=_PRECISE).x


@cache
def _compiled_objective(model: NOTEARSMLP, nodes: int) -> Any:
    """Compile what a site minimises, of the same size whatever the pull, and its gradient."""
    template = _arrays(model.init(np.random.default_rng(), nodes))

    def objective(flat, target, pull, data):
        arrays = named(flat, template)
        params: Parameters = {"graph": arrays["W"].transpose(2, 0, 1), "mechanism": under("mechanism", arrays)}
        fit = model.fit(params, jnp.zeros((nodes, nodes)), data)
        return (fit + pull / 2 * jnp.sum((flat - target) ** 2)) / (1 + pull)

    return jax.jit(jax.value_and_grad(objective))
