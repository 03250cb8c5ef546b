"""Mechanisms that one site has of its own, while all others are common: shifts, experiments, and further causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from jaxtyping import Bool, Float

from feddag.errors import FeddagError
from feddag.graphs import Adjacency, CausalGraph
from feddag.silos.simulation.mechanisms import MECHANISMS, Mechanism
from feddag.silos.simulation.noise import NOISE_LAWS
from feddag.silos.simulation.streams import Stream, generator
from feddag.silos.simulation.structural_model import StructuralModel

_DEVIATIONS = (0.4, 0.6, 1.6, 2.0)
"""The noise of a mechanism of a site's own has one of these times the common deviation."""
_MEANS = (-2.0, -1.5, 1.5, 2.0)


@dataclass(frozen=True)
class OwnMechanism:
    """How one site alone makes one variable."""

    kind: str
    """"mechanism", "mean", "experiment" or "further cause"."""
    parents: tuple[int, ...]
    function: Mechanism | None
    """None: the common one, or none at all where an experiment sets the variable."""
    mean: float
    deviation: float

    def column(
        self,
        common: Float[np.ndarray, " row"],
        values: Float[np.ndarray, "row node"],
        noise: str,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, " row"]:
        """Return the site's values, given those that the common mechanism makes, and the causes' values."""
        if self.kind == "mean":
            return common + self.mean
        own = self.mean + self.deviation * NOISE_LAWS[noise](rng, len(values))
        return own if self.function is None else own + self.function(values[:, list(self.parents)])


@dataclass(frozen=True)
class SiteChanges:
    """The mechanisms of each site's own, by site and variable."""

    noise: str
    seed: int
    nodes: int
    slices: Sequence[slice]
    mechanisms: Sequence[Mapping[int, OwnMechanism]]

    def apply(self, node: int, column: Float[np.ndarray, " row"], values: Float[np.ndarray, "row node"]) -> None:
        """Replace the values of a variable at the sites that have a mechanism of their own for it."""
        for site, (rows, own) in enumerate(zip(self.slices, self.mechanisms, strict=True)):
            if node in own:
                rng = generator(self.seed, Stream.OWN_NOISE, site, node)
                column[rows] = own[node].column(column[rows], values[rows], self.noise, rng)

    def masks(self) -> list[Bool[np.ndarray, "row node"]]:
        """Return for each site which variables an experiment set, row by row."""
        is_set = [
            [node in own and own[node].kind == "experiment" for node in range(self.nodes)] for own in self.mechanisms
        ]
        return [
            np.tile(np.array(each), (rows.stop - rows.start, 1)) for rows, each in zip(self.slices, is_set, strict=True)
        ]

    def record(self, site: int, truth: CausalGraph) -> dict[str, Any]:
        """Name the variables that a site makes in its own way, and the graph that its rows follow.

        An experiment does not change the graph.
        """
        graph, own = truth.adjacency.copy(), self.mechanisms[site]
        for node, mechanism in own.items():
            if mechanism.kind == "further cause":
                observed = [parent for parent in mechanism.parents if parent < len(graph)]
                graph[observed, node] = 1
        kinds = {truth.names[node]: mechanism.kind for node, mechanism in sorted(own.items())}
        return {"own": kinds, "graph": graph.tolist()}


@dataclass(frozen=True)
class Differences:
    """The parameters of `simulate` that let sites differ."""

    shifted: int = 0
    shift: str = "mechanism"
    interventions: Mapping[str, Sequence[str]] | int | None = None
    varying: int = 0
    names: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether sites differ at all."""
        return bool(self.shifted or self.interventions or self.varying)

    def draw(self, sites: Sequence[str], counts: Sequence[int], model: StructuralModel, seed: int) -> SiteChanges:
        """Draw which variables each site makes in its own way, and how."""
        self._check_targets(sites)
        ends = np.cumsum(counts).tolist()
        slices = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
        mechanisms = [self._draw_site(k, site, model, seed) for k, site in enumerate(sites)]
        return SiteChanges(model.noise, seed, len(self.names), slices, mechanisms)

    def _check_targets(self, sites: Sequence[str]) -> None:
        named = self.interventions if isinstance(self.interventions, Mapping) else {}
        for site, targets in named.items():
            for found, known in ((site, sites), *((target, self.names) for target in targets)):
                if found not in known:
                    raise FeddagError(f"interventions has {found!r}. There are {', '.join(known)}.")

    def targets(self, site: int, name: str, seed: int) -> list[int]:
        """Return the variables that an experiment sets at a site."""
        if isinstance(self.interventions, Mapping):
            return [self.names.index(target) for target in self.interventions.get(name, ())]
        order = generator(seed, Stream.TARGETS).permutation(len(self.names))
        count = self.interventions or 0
        return sorted({int(order[(site * count + k) % len(order)]) for k in range(count)})

    def _draw_site(self, site: int, name: str, model: StructuralModel, seed: int) -> dict[int, OwnMechanism]:
        adjacency = model.adjacency
        rng = generator(seed, Stream.OWN_MECHANISM, site)
        own: dict[int, OwnMechanism] = {}

        def draw(kind: str, node: int, parents: np.ndarray) -> None:
            has_function = kind != "experiment" and len(parents) > 0
            function = MECHANISMS[model.mechanism].draw(len(parents), rng) if has_function else None
            deviation = float(rng.choice(_DEVIATIONS) * model.noise_deviations[node])
            own[node] = OwnMechanism(kind, tuple(parents.tolist()), function, float(rng.choice(_MEANS)), deviation)

        if site < self.varying and (further := _further_causes(adjacency, len(self.names))):
            cause, node = further[rng.integers(len(further))]
            draw("further cause", node, np.append(np.flatnonzero(adjacency[:, node]), cause))
        free = [node for node in range(len(self.names)) if node not in own]
        for node in sorted(rng.choice(free, size=min(self.shifted, len(free)), replace=False).tolist()):
            draw(self.shift, node, np.flatnonzero(adjacency[:, node]))
        for node in self.targets(site, name, seed):
            draw("experiment", node, np.flatnonzero(adjacency[:, node]))
        return own


def _further_causes(adjacency: Adjacency, observed: int) -> list[tuple[int, int]]:
    """List the edges between observed variables that the order in which variables are drawn leaves room for."""
    order = [node for node in nx.topological_sort(nx.DiGraph(adjacency)) if node < observed]
    return [(i, j) for k, j in enumerate(order) for i in order[:k] if not adjacency[i, j]]
