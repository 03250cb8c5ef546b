"""By how much one variable changes another in all, if the learned graph is right.

The effect is the coefficient of the cause in a linear regression that adjusts for the cause's parents in the graph
(Pearl's back-door criterion). Where edges at the cause are undirected, every set of parents that it may have gives an
effect, and the true one is among them (IDA: Maathuis, Kalisch and Bühlmann 2009). Of a learner that has mechanisms,
these say what would follow besides: the cause is set, and what it changes is carried on along the graph.

Where the graph allows hidden common causes, the parents do not suffice: a set of observed variables that makes up for
them is adjusted for, if there is one, and otherwise the effect is not identified (`feddag.graphs.adjustment_set`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from jaxtyping import Float

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph, adjustment_set, dag_extension, parent_sets
from feddag.graphs.adjustment import may_act
from feddag.graphs.dag import reachable
from feddag.learners.base import Learner, SitePredictor
from feddag.regression.features import level_counts
from feddag.silos import Silo, read_silos
from feddag.trust import tasks
from feddag.trust.assessment import trust_sites

TOGETHER = "all sites"


class Estimate(NamedTuple):
    """An estimate of an effect, at a site or over all of them."""

    site: str
    adjusted_for: str
    """The cause's parents, separated by semicolons."""
    slope: float
    error: float
    """The standard error."""
    by_mechanisms: float | None
    """What the learner's mechanisms say instead, if it has any."""


@dataclass(frozen=True)
class TotalEffect:
    """The total effect of one variable on another: the change of the effect for a unit of the cause."""

    cause: str
    effect: str
    reachable: bool
    """Whether a path leads from the cause to the effect. If none does, an effect other than 0 speaks against it."""
    estimates: tuple[Estimate, ...]
    """For each site and each set of parents that the cause may have, then for all sites together."""

    def table(self) -> pd.DataFrame:
        """Return a row per site and set of parents."""
        return pd.DataFrame(self.estimates, columns=list(Estimate._fields)).dropna(axis=1, how="all")

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        estimates = [each._asdict() for each in self.estimates]
        return {"cause": self.cause, "effect": self.effect, "reachable": self.reachable, "effects": estimates}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Take up what `as_dict` returned."""
        estimates = tuple(Estimate(**each) for each in document["effects"])
        return cls(document["cause"], document["effect"], document["reachable"], estimates)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest effect over all sites together; equal where the parents are certain."""
        slopes = [each.slope for each in self.estimates if each.site == TOGETHER]
        return min(slopes), max(slopes)


def total_effect(learner: Learner, silos: Any, cause: str, effect: str) -> TotalEffect:
    """Estimate an effect at every site, and as a mean weighted by rows, which comes from sums alone."""
    silos = read_silos(silos)
    columns = silos[0].columns
    graph = learner.graph_.reordered(columns)
    pair = _positions(silos[0], cause, effect)
    adjusted = _adjusted(learner, graph, *pair)
    members = np.zeros((len(adjusted), len(columns)), dtype=np.uint8)
    for k, parents in enumerate(adjusted):
        members[k, list(parents)] = 1
    task = {"pair": np.array(pair), "adjust": members}
    with trust_sites(silos) as (federation, local):
        found = {site.name: site.slopes(task) for site in local}
        found[TOGETHER] = _mean(tasks.EFFECTS.ask(federation, 0, task), federation.summed)
    by_mechanisms = {}
    if isinstance(learner, SitePredictor) and not graph.allows_hidden_causes:
        by_mechanisms = _by_mechanisms(learner, silos, *pair)
    names = ["; ".join(columns[parent] for parent in parents) for parents in adjusted]
    estimates = tuple(
        Estimate(site, names[k], float(slope), float(np.sqrt(variance)), by_mechanisms.get(site))
        for site, of_site in found.items()
        for k, (slope, variance) in enumerate(of_site)
    )
    return TotalEffect(cause, effect, _reaches(graph, *pair), estimates)


def _adjusted(learner: Learner, graph: CausalGraph, cause: int, effect: int) -> list[tuple[int, ...]]:
    """Return the sets of variables to adjust for: the parents that the cause may have, or what makes up for more."""
    if graph.allows_hidden_causes:
        chosen = adjustment_set(graph, graph.names[cause], graph.names[effect])
        return [tuple(graph.names.index(name) for name in chosen)]
    guessed = dag_extension(learner.guessed_graph.reordered(graph.names).adjacency)
    parents_guessed = tuple(np.flatnonzero(guessed[:, cause]).tolist())
    return list(dict.fromkeys([*parent_sets(graph.adjacency, cause), parents_guessed]))


def _mean(answer: dict[str, np.ndarray], count: int) -> Float[np.ndarray, "set two"]:
    """Return the mean weighted by rows, and its squared standard error, from means over sites."""
    rows = answer["rows"]
    if not rows.all():
        raise FeddagError(
            "The cause's parents determine it at every site, so it has no effect of its own. Choose another cause."
        )
    return np.stack([answer["slope"] / rows, answer["variance"] / count / rows**2], axis=1)


def _positions(silo: Silo, cause: str, effect: str) -> tuple[int, int]:
    for name in (cause, effect):
        if name not in silo.columns:
            raise FeddagError(f"There is no variable {name!r}. The variables are {', '.join(silo.columns)}.")
        levels = int(level_counts(silo.kinds)[silo.columns.index(name)])
        if levels > 2:
            raise FeddagError(
                f"{name!r} has {levels} levels, and effects are those of numbers and binary variables. Code it as one "
                "column per level."
            )
    if cause == effect:
        raise FeddagError(f"The cause and the effect are both {cause!r}. Name two variables.")
    return silo.columns.index(cause), silo.columns.index(effect)


def _reaches(graph: CausalGraph, cause: int, effect: int) -> bool:
    """Say whether some DAG that the graph stands for may lead from cause to effect."""
    onward = graph.adjacency.astype(bool) | may_act(graph.marks)
    return bool(reachable(onward, cause)[effect])


def _by_mechanisms(learner: SitePredictor, silos: Sequence[Silo], cause: int, effect: int) -> dict[str, float]:
    by_site = {silo.name: carried_on(learner, silo, cause, effect) for silo in silos}
    together = np.average(list(by_site.values()), weights=[silo.rows for silo in silos])
    return by_site | {TOGETHER: float(together)}


def carried_on(learner: SitePredictor, silo: Silo, cause: int, effect: int) -> float:
    """Return the mean change of the effect for a unit of the cause, by a site's mechanisms.

    The cause of every row is raised by its standard deviation; what its descendants add to their mechanisms (the noise)
    stays as it is.
    """

    def explained(values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row node"]:
        frame = pd.DataFrame(values, columns=list(silo.columns))
        return pd.DataFrame(learner.predict(frame, silo.name), columns=learner.feature_names_in_)[
            list(silo.columns)
        ].to_numpy(dtype=np.float64)

    before, step = silo.values, float(silo.values[:, cause].std())
    noise, changed = before - explained(before), before.copy()
    changed[:, cause] += step
    for _ in silo.columns:  # each pass carries the change one edge further
        carried = explained(changed) + noise
        carried[:, cause] = changed[:, cause]
        changed = carried
    return float((changed[:, effect] - before[:, effect]).mean() / step)
