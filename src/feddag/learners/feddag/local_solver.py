"""A site's part in FedDAG (Algorithm 2, "self-updating"): some steps of Adam on its own rows.

This is all that ever touches a site's data, whichever engine carries the task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from feddag.errors import FeddagError
from feddag.federation.protocol import Answer, Arrays, Task, unknown_task
from feddag.federation.tasks import Output, TaskSpec
from feddag.learners.knowledge import Knowledge
from feddag.models import ACYCLICITY, Model, Parameters
from feddag.models.pytrees import flatten, unflatten
from feddag.silos import Silo
from feddag.silos.interventions import scored_rows

SOLVE = TaskSpec(
    "feddag.solve",
    "Parameters of the common graph, and of mechanisms that sites share, learned on the site's own rows",
    {
        "graph": Output("for each possible edge its logit or its weights", None),
        "mechanism/*": Output("parameters of the mechanisms, where all sites have them in common", None),
        "scored": Output("of each variable whether no experiment set it in some rows, if any set any", ("variable",)),
    },
    every_site=False,
)


@dataclass(frozen=True)
class Objective:
    """The local sub-problem (eq. 7), but for α and ρ, which come with every task."""

    model: Model
    acyclicity: str
    l1: float
    learning_rate: float
    knowledge: Knowledge | None = None
    """The edges that are certain or impossible, whatever the parameters say; None for none."""

    def __call__(
        self,
        params: Parameters,
        data: Any,
        alpha: Float[Array, ""],
        rho: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return the loss to minimise, and its first term alone."""
        params = self.held(params)
        adjacency = self.model.adjacency(params, key)
        fit = self.model.fit(params, adjacency, data)
        h = self.h(params, adjacency)
        # h·(α + ρ/2·h), since h² may overflow where ρ/2·h² does not
        return fit + self.l1 * self._sparsity(params, adjacency) + h * (alpha + rho / 2 * h), fit

    def held(self, params: Parameters) -> Parameters:
        """Set edges that are known to their known values."""
        if self.knowledge is None:
            return params
        impossible, certain = self.knowledge.impossible, self.knowledge.certain
        graph = self.model.held(jnp.asarray(params["graph"]), impossible=impossible, certain=certain)
        return {**params, "graph": graph}

    def movable(self, params: Parameters, scored: Bool[np.ndarray, " node"]) -> Bool[np.ndarray, "..."]:
        """Say which of the graph's parameters a site may move: all but of edges into variables always set there."""
        ones = jnp.ones_like(params["graph"])
        into_others = np.tile(~scored, (len(scored), 1))
        held = self.model.held(ones, impossible=into_others, certain=np.zeros_like(into_others))
        return np.asarray(held == ones)

    def h(self, params: Parameters, adjacency: Float[Array, "node node"]) -> Float[Array, ""]:
        """Measure how far a drawn adjacency matrix is from acyclic. Certain edges count in full, however small.

        Where the model has edges <->, also how far it is from one edge for each pair.
        """
        if self.knowledge is not None:
            adjacency = jnp.where(self.knowledge.certain, 1, adjacency)
        return ACYCLICITY[self.acyclicity](adjacency**2) + self.model.bows(params, adjacency)

    def _sparsity(self, params: Parameters, adjacency: Float[Array, "node node"]) -> Float[Array, ""]:
        """Return the sparsity term of the edges that are not certain."""
        if self.knowledge is not None:
            certain = self.knowledge.certain
            graph = self.model.held(params["graph"], impossible=certain, certain=np.zeros_like(certain))
            params, adjacency = {**params, "graph": graph}, jnp.where(certain, 0, adjacency)
        return self.model.sparsity(params, adjacency)

    def edge_scores(self, params: Parameters) -> Float[np.ndarray, "node node"]:
        """Score each edge by the model's parameters and by what is known."""
        return self.model.edge_scores(np.asarray(self.held(params)["graph"]))

    def bidirected_scores(self, params: Parameters) -> Float[np.ndarray, "node node"] | None:
        """Score each edge <->, if the model has such edges."""
        return self.model.bidirected_scores(np.asarray(params["graph"]))


SERVER = -1
"""The server's place among the sites, as far as randomness goes."""


def site_key(seed: int, position: int) -> PRNGKeyArray:
    """Return the key that a site's masks are drawn from."""
    return jax.random.fold_in(jax.random.key(seed), position + 1)


def initial_parameters(model: Model, nodes: int, seed: int, position: int) -> Parameters:
    """Draw a model's first parameters: a function of the seed and the site's place."""
    return model.init(np.random.default_rng([seed, position + 1]), nodes)


@cache
def _optimiser(learning_rate: float) -> optax.GradientTransformation:
    return optax.adam(learning_rate)


@cache
def _compiled_phase(objective: Objective, steps: int) -> Any:
    """Compile `steps` steps of Adam to one program: no Python between them."""
    optimiser = _optimiser(objective.learning_rate)

    def phase(params, optimiser_state, data, alpha, rho, h, key, movable):
        def step(carry, k):
            params, optimiser_state = carry
            (loss, fit), gradient = jax.value_and_grad(objective, has_aux=True)(
                params, data, alpha, rho, jax.random.fold_in(key, k)
            )
            updates, optimiser_state = optimiser.update(gradient, optimiser_state, params)
            updates = objective.model.scaled(updates, params, h)
            if movable is not None:  # else sparsity alone would move the rest, and Adam moves it by full steps
                updates = {**updates, "graph": jnp.where(movable, updates["graph"], 0)}
            return (optax.apply_updates(params, updates), optimiser_state), (loss, fit)

        carry, (losses, fits) = jax.lax.scan(step, (params, optimiser_state), jnp.arange(steps))
        return *carry, losses[-1], fits[-1]

    return jax.jit(phase, donate_argnums=(0, 1))


class LocalSolver:
    """One site: its rows, its model, its Adam state. Satisfies `feddag.federation.Site`."""

    def __init__(
        self,
        silo: Silo,
        position: int,
        objective: Objective,
        *,
        sharing: str,
        weighting: str,
        seed: int,
    ) -> None:
        self.name = silo.name
        self.means = silo.values.mean(axis=0)
        self.loss = self.fit = math.nan
        self._device = jax.local_devices()[position % jax.local_device_count()]
        self._objective = objective
        self._sharing = sharing
        self._weight = float(silo.rows) if weighting == "rows" else 1.0
        self._key = site_key(seed, position)
        with jax.default_device(self._device):
            targets = silo.unlike_others if sharing == "all" else silo.targets
            scored = None if targets is None else scored_rows(targets)
            self._data = objective.model.prepare(silo.values, scored)
            self.params = jax.device_put(initial_parameters(objective.model, len(silo.columns), seed, position))
            self._scored = None if scored is None else np.asarray(scored.any(axis=0))
            self._movable = None if self._scored is None else objective.movable(self.params, self._scored)
            self._optimiser_state = _optimiser(objective.learning_rate).init(self.params)

    def answer(self, task: Task) -> Answer:
        """Take over what is shared, improve it on the site's own rows, and give it back."""
        if task.name != SOLVE.name:
            raise unknown_task(self.name, task, (SOLVE.name,))
        with jax.default_device(self._device):
            params = take_over(self.params, task.arrays)
            phase = _compiled_phase(self._objective, int(task.numbers["steps"]))
            self.params, self._optimiser_state, loss, fit = phase(
                params,
                self._optimiser_state,
                self._data,
                *(jnp.float32(task.numbers[name]) for name in ("alpha", "rho", "h")),
                jax.random.fold_in(self._key, task.round),
                self._movable,
            )
            self.loss, self.fit = float(loss), float(fit)
        if not math.isfinite(self.loss):
            raise FeddagError(
                f"Site {self.name!r}: the loss is {self.loss} after round {task.round + 1}. Bring the columns to "
                "scales near 1, lower learning_rate or, with hundreds of variables, choose acyclicity='log-det'."
            )
        answer = shared_part(self.params, self._sharing)
        if self._scored is not None:
            answer["scored"] = np.asarray(self._scored, np.float32)
        return Answer(self._weight, answer)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the model's parameters and Adam's state."""
        return flatten((self.params, self._optimiser_state))

    def restore(self, state: Arrays) -> None:
        """Restore the model's parameters and Adam's state."""
        with jax.default_device(self._device):
            self.params, self._optimiser_state = unflatten((self.params, self._optimiser_state), state)


def shared_part(params: Parameters, sharing: str) -> dict[str, np.ndarray]:
    """Select what leaves a site: the graph's parameters (GS-FedDAG), or all of them (AS-FedDAG)."""
    return flatten(params if sharing == "all" else {"graph": params["graph"]})


def take_over(params: Parameters, shared: Arrays) -> Parameters:
    """Replace the shared part of the parameters."""
    return unflatten(params, flatten(params) | dict(shared))
