"""By how much one variable changes another in all, if the learned graph is right.

The effect is the coefficient of the cause in a linear regression that adjusts for the cause's parents in the graph
(Pearl's back-door criterion). Where edges at the cause are undirected, every set of parents that it may have gives an
effect, and the true one is among them (IDA: Maathuis, Kalisch and Bühlmann 2009). Of a learner that has mechanisms,
these say what would follow besides: the cause is set, and what it changes is carried on along the graph.

Where the graph allows hidden common causes, the parents do not suffice: a set of observed variables that makes up for
them is adjusted for, if there is one, and otherwise the effect is not identified (`feddag.graphs.adjustment_set`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import norm

from feddag.errors import FeddagError
from feddag.federation import Federation
from feddag.graphs import CausalGraph, adjustment_set, dag_extension, parent_sets
from feddag.graphs.adjustment import may_act
from feddag.graphs.dag import reachable
from feddag.learners.base import Learner, SitePredictor
from feddag.silos import Silo, read_silos
from feddag.silos.variable_types import Kind
from feddag.trust import tasks
from feddag.trust.assessment import trust_sites
from feddag.trust.sites import TOGETHER, TrustSite

CONFIDENCE = 0.95


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
    tau2: float | None = None
    """How much the effects of all sites vary beyond what chance explains, as a variance (DerSimonian and
    Laird 1986)."""
    pooled: float | None = None
    """The mean effect over sites if these are a sample of others, weighted by how certain each is."""
    low: float | None = None
    high: float | None = None
    """The bounds of its interval, with 95 % confidence."""


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
    """Estimate an effect at every site, and over all of them, which comes from sums alone."""
    silos = read_silos(silos)
    kinds = dict(zip(silos[0].columns, silos[0].kinds, strict=True))
    question = _Question.of(learner, kinds, cause, effect)
    by_mechanisms = {}
    if isinstance(learner, SitePredictor) and not learner.graph_.allows_hidden_causes:
        by_mechanisms = _by_mechanisms(learner, silos, *question.pair)
    with trust_sites(silos) as (federation, local):
        found = [each for site in local for each in question.at_site(site, by_mechanisms.get(site.name))]
        found += question.over_all(federation, by_mechanisms.get(TOGETHER))
    return TotalEffect(cause, effect, question.reachable, tuple(found))


def effect_of_sums(
    learner: Learner, federation: Federation, kinds: Mapping[str, Kind], cause: str, effect: str, minimum_sites: int
) -> TotalEffect:
    """Estimate an effect over all sites, from sums alone; refuse one that fewer than `minimum_sites` sites can tell."""
    question = _Question.of(learner, kinds, cause, effect)
    _check_sites(federation, question, minimum_sites)
    return TotalEffect(cause, effect, question.reachable, tuple(question.over_all(federation)))


def _check_sites(federation: Federation, question: _Question, minimum_sites: int) -> None:
    mean = tasks.EFFECT_SITES.ask(federation, 0, question.arrays)["sites"]
    fewest = min(round(float(count)) for count in federation.summed * mean)
    if 0 < fewest < minimum_sites:
        cause, effect = (question.columns[place] for place in question.pair)
        raise FeddagError(
            f"At fewer than minimum_sites = {minimum_sites} sites {cause!r} varies by itself, and sums about its "
            f"effect on {effect!r} would be about these sites alone. Choose another cause."
        )


@dataclass(frozen=True)
class _Question:
    """A cause, an effect, and the sets of variables to adjust for."""

    columns: tuple[str, ...]
    pair: tuple[int, int]
    adjusted: list[tuple[int, ...]]
    reachable: bool

    @classmethod
    def of(cls, learner: Learner, kinds: Mapping[str, Kind], cause: str, effect: str) -> Self:
        columns = tuple(kinds)
        pair = _positions(kinds, cause, effect)
        graph = learner.graph_.reordered(columns)
        return cls(columns, pair, _adjusted(learner, graph, *pair), _reaches(graph, *pair))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        members = np.zeros((len(self.adjusted), len(self.columns)), dtype=np.uint8)
        for k, parents in enumerate(self.adjusted):
            members[k, list(parents)] = 1
        return {"pair": np.array(self.pair, dtype=np.int64), "adjust": members}

    def name(self, k: int) -> str:
        return "; ".join(self.columns[parent] for parent in self.adjusted[k])

    def at_site(self, site: TrustSite, by_mechanisms: float | None) -> list[Estimate]:
        return [
            Estimate(site.name, self.name(k), float(slope), float(np.sqrt(variance)), by_mechanisms)
            for k, (slope, variance) in enumerate(site.slopes(self.arrays))
        ]

    def over_all(self, federation: Federation, by_mechanisms: float | None = None) -> list[Estimate]:
        slopes, variances = _mean(tasks.EFFECTS.ask(federation, 0, self.arrays), federation.summed).T
        pooled = _pool(federation, self.arrays, slopes, variances)
        return [
            Estimate(TOGETHER, self.name(k), float(slope), float(np.sqrt(variance)), by_mechanisms, *pooled[k])
            for k, (slope, variance) in enumerate(zip(slopes, variances, strict=True))
        ]


def _pool(
    federation: Federation,
    question: Mapping[str, np.ndarray],
    slopes: Float[np.ndarray, " set"],
    variances: Float[np.ndarray, " set"],
) -> list[tuple[float, float, float, float] | tuple[()]]:
    """Return τ², the mean of a random-effects model and its interval, for each set; nothing below two sites."""
    scale = np.where(variances > 0, variances * federation.summed, 1.0)  # about the squared error at one site
    ask = partial(_spread, federation, {**question, "centre": slopes, "scale": scale})
    at_once = ask(np.zeros(len(slopes)))
    sites, weight = at_once["sites"], np.maximum(at_once["weight"], np.finfo(float).tiny)
    beyond = at_once["second"] - at_once["first"] ** 2 / weight - (sites - 1)
    freedom = np.maximum(weight - at_once["weight_squared"] / weight, np.finfo(float).tiny)
    tau2 = np.where(sites > 1, np.maximum(beyond, 0.0) / freedom, 0.0)
    varying = ask(tau2)
    weight = np.maximum(varying["weight"], np.finfo(float).tiny)
    mean, error = slopes + np.sqrt(scale) * varying["first"] / weight, np.sqrt(scale / weight)
    half = float(norm.ppf((1 + CONFIDENCE) / 2)) * error
    figures = np.stack([scale * tau2, mean, mean - half, mean + half], axis=1).tolist()
    return [tuple(figures[k]) if round(float(count)) > 1 else () for k, count in enumerate(sites)]


def _spread(
    federation: Federation, question: Mapping[str, np.ndarray], tau2: Float[np.ndarray, " set"]
) -> dict[str, np.ndarray]:
    """Return sums over sites of how their effects differ."""
    mean = tasks.EFFECT_SPREAD.ask(federation, 0, {**question, "tau2": tau2})
    return {name: federation.summed * array for name, array in mean.items()}


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
    rows = answer["counted"]
    if not rows.all():
        raise FeddagError(
            "The cause's parents determine it at every site, so it has no effect of its own. Choose another cause."
        )
    return np.stack([answer["slope"] / rows, answer["variance"] / count / rows**2], axis=1)


def _positions(kinds: Mapping[str, Kind], cause: str, effect: str) -> tuple[int, int]:
    for name in (cause, effect):
        if name not in kinds:
            raise FeddagError(f"There is no variable {name!r}. The variables are {', '.join(kinds)}.")
        levels = len(kinds[name].levels)
        if levels > 2:
            raise FeddagError(
                f"{name!r} has {levels} levels, and effects are those of numbers and binary variables. Code it as one "
                "column per level."
            )
    if cause == effect:
        raise FeddagError(f"The cause and the effect are both {cause!r}. Name two variables.")
    return list(kinds).index(cause), list(kinds).index(effect)


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
