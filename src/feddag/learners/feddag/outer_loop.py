"""The server's side of FedDAG (Algorithms 1 and 2): it draws participants, averages, and presses for a DAG.

It sees weighted means of the sites' shared parameters and nothing else, and runs on any `Federation`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool

from feddag.federation import Federation
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.graphs import is_dag
from feddag.learners.feddag.augmented_lagrangian import AugmentedLagrangian, Schedule
from feddag.learners.feddag.history import FedDAGHistory, FedDAGRound, SiteView
from feddag.learners.feddag.local_solver import (
    SERVER,
    SOLVE,
    Objective,
    initial_parameters,
    shared_part,
    site_key,
    take_over,
)
from feddag.models import Parameters
from feddag.silos.interventions import never_observed

_ACYCLICITY_DRAWS = 16
"""Masks over which E[h(U)] is averaged."""

_ROUNDING = 1e-6
"""A sum over sites takes less for 0."""

SETTLED_H = 1e-6
"""Above this acyclicity edges that close cycles still compete, and a graph that has not changed for a while may yet."""


@dataclass(frozen=True)
class Plan:
    """What the server needs to know before the first round."""

    nodes: int
    objective: Objective
    schedule: Schedule
    phases: tuple[int, ...]
    """Local steps between aggregations, over one sub-problem."""
    participants: int
    """How many sites enter each average."""
    sharing: str
    threshold: float
    seed: int
    patience: int | None = None
    """Sub-problems that must leave a settled graph as it is before the run ends; `None` never ends it early."""


_COUNTERS = ("phase", "round", "step", "seconds", "scored")


@dataclass
class _State:
    """Where the run stands; with the sites' own state, all that is needed to go on."""

    lagrangian: AugmentedLagrangian
    shared: Arrays
    phase: int = 0
    round: int = 0
    step: int = 0
    seconds: float = 0.0
    scored: list[bool] = field(default_factory=list)
    """Whether, for each variable, some site has rows in which no experiment set it; empty where there are none."""
    history: FedDAGHistory = field(default_factory=FedDAGHistory)


class OuterLoop:
    """Runs a plan on a federation, and can be stopped and taken up after any round."""

    def __init__(self, federation: Federation, plan: Plan, view: Callable[[], SiteView] | None = None) -> None:
        """`view` shows each site's own model to the history; only an engine that holds all sites has one."""
        self._federation = federation
        self._plan = plan
        self._view = view
        self._template = initial_parameters(plan.objective.model, plan.nodes, plan.seed, SERVER)
        self._state = _State(AugmentedLagrangian.start(plan.schedule), shared_part(self._template, plan.sharing))

    @property
    def history(self) -> FedDAGHistory:
        """All rounds so far."""
        return self._state.history

    @property
    def params(self) -> Parameters:
        """The averaged parameters, as far as they are shared, and what is known."""
        return self._plan.objective.held(take_over(self._template, self._state.shared))

    @property
    def shared(self) -> Arrays:
        """The last average, as it goes out to the sites."""
        return self._state.shared

    def run(self, after_round: Callable[[FedDAGRound], None]) -> None:
        """Solve sub-problems until the graph is acyclic or settled, or ρ or the number of updates reaches its limit."""
        state, plan = self._state, self._plan
        while not state.lagrangian.finished and not self._settled():
            record = self._aggregate(plan.phases[state.phase])
            state.history.rounds.append(record)
            state.phase += 1
            if state.phase == len(plan.phases):
                state.phase = 0
                state.lagrangian = state.lagrangian.after(record.h, plan.schedule)
                state.history.graphs.append(np.array(self.params["graph"]))
            after_round(record)
        self._check_scored()

    def _check_scored(self) -> None:
        """Refuse a variable that experiments set in all rows of all sites that took part."""
        if not all(self._state.scored):
            raise never_observed(f"number {self._state.scored.index(False) + 1}", "of every site")

    def _settled(self) -> bool:
        state, plan = self._state, self._plan
        if plan.patience is None or state.phase or not state.history.rounds:
            return False
        last = state.history.graphs[-plan.patience - 1 :]
        graphs = [plan.objective.edge_scores({**self.params, "graph": graph}) > plan.threshold for graph in last]
        return settled(graphs, state.history.rounds[-1].h, plan.patience)

    def _aggregate(self, steps: int) -> FedDAGRound:
        """Run one round: all sites learn, those drawn are averaged, and the average goes to all."""
        state, plan, started = self._state, self._plan, time.monotonic()
        lagrangian = state.lagrangian
        answer = SOLVE.ask(
            self._federation,
            state.round,
            state.shared,
            {
                "steps": steps,
                "alpha": lagrangian.alpha,
                "rho": lagrangian.rho,
                "h": state.history.rounds[-1].h if state.history.rounds else 1.0,
            },
            _draw_participants(len(self._federation.sites), plan.participants, plan.seed, state.round),
        )
        scored = answer.pop("scored", None)
        if scored is not None:
            known = state.scored or [False] * plan.nodes
            state.scored = [had or bool(share > _ROUNDING) for had, share in zip(known, scored, strict=True)]
            if plan.participants == len(self._federation.sites):
                self._check_scored()
        state.shared = answer
        params = self.params
        h = _expected_acyclicity(plan.objective, params, plan.seed, state.round)
        scores = plan.objective.edge_scores(params)
        state.round += 1
        state.step += steps
        state.seconds += time.monotonic() - started
        return FedDAGRound(
            round=state.round,
            sub_problem=lagrangian.sub_problem + 1,
            step=state.step,
            rho=lagrangian.rho,
            alpha=lagrangian.alpha,
            h=h,
            edges=int((scores > plan.threshold).sum()),
            seconds=state.seconds,
            sites=None if self._view is None else self._view(),
            **self._federation.ledger.so_far(),
        )

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the server's state as a JSON document and named arrays."""
        state = self._state
        rounds, graphs = state.history.snapshot()
        document = {
            "lagrangian": asdict(state.lagrangian),
            "rounds": rounds,
            **{name: getattr(state, name) for name in _COUNTERS},
        }
        return document, prefixed("shared", state.shared) | prefixed("graphs", graphs)

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take up what `snapshot` returned."""
        self._state = _State(
            lagrangian=AugmentedLagrangian(**document["lagrangian"]),
            shared=under("shared", arrays),
            **{name: document[name] for name in _COUNTERS},
            history=FedDAGHistory.restored(document["rounds"], under("graphs", arrays)),
        )


def settled(graphs: Sequence[Bool[np.ndarray, "node node"]], h: float, patience: int) -> bool:
    """Decide whether further sub-problems are unlikely to change the graph.

    Args:
        graphs: The edges above the threshold at the end of each sub-problem so far.
        h: The acyclicity that the last sub-problem reached.
        patience: How many sub-problems must have left the graph as it was.
    """
    last = graphs[-patience - 1 :]
    same = len(last) > patience and all(np.array_equal(graph, last[-1]) for graph in last)
    return same and h <= SETTLED_H and is_dag(last[-1].astype(np.int8))


def _draw_participants(sites: int, participants: int, seed: int, round_: int) -> tuple[int, ...]:
    """Draw the sites that enter this round's average: a function of the seed and the round alone."""
    chosen = np.random.default_rng([seed, round_]).choice(sites, size=participants, replace=False)
    return tuple(sorted(chosen.tolist()))


def _expected_acyclicity(objective: Objective, params: Parameters, seed: int, round_: int) -> float:
    """Estimate `E[h(U)]` over a few masks drawn from the averaged parameters."""
    key = jax.random.fold_in(site_key(seed, SERVER), round_)
    return float(_compiled_acyclicity(objective)(params, key))


@cache
def _compiled_acyclicity(objective: Objective) -> Any:
    def evaluate(params, key):
        keys = jax.random.split(key, _ACYCLICITY_DRAWS)
        return jax.lax.map(lambda k: objective.h(params, objective.model.adjacency(params, k)), keys).mean()

    return jax.jit(evaluate)
