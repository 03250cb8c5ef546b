"""How likely a site's own regressions find rows that they were not fitted to: what scores of a graph are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from feddag.trust.regression import CategoryFit, Design, Frame, GaussianFit, Sums, layer_ends

Family = tuple[int, tuple[int, ...]]
"""A child and its parents."""


def families(graph: np.ndarray) -> list[Family]:
    return [(child, tuple(np.flatnonzero(graph[:, child]).tolist())) for child in range(len(graph))]


@dataclass(frozen=True)
class OwnRegressions:
    """Of each variable on any parents, fitted to some rows and tried on others. They never leave the site."""

    training: Float[np.ndarray, "row node"]
    held_out: Float[np.ndarray, "other node"]
    levels: Int[np.ndarray, " node"]
    """The number of levels of each column that holds categories; 0 for a number."""
    _known: dict[Family, Float[np.ndarray, " other"]] = field(default_factory=dict)

    @cached_property
    def designs(self) -> tuple[Design, Design]:
        """Of the rows to fit to, and of those held out, as this site standardises them."""
        frame = Frame.of(self.training.mean(axis=0), self.training.var(axis=0), self.levels)
        return Design(self.training, frame), Design(self.held_out, frame)

    def of_graph(self, graph: np.ndarray) -> Float[np.ndarray, " other"]:
        """The log-density of each row held out, every variable given its parents."""
        return np.sum([self.of_family(family) for family in families(graph)], axis=0)

    def of_family(self, family: Family) -> Float[np.ndarray, " other"]:
        if family not in self._known:
            self._known[family], _ = self.fit(family)
        return self._known[family]

    def fit(self, family: Family) -> tuple[Float[np.ndarray, " other"], Float[np.ndarray, " other"] | None]:
        """The log-density of the child in each row held out and, of a number, the errors in predicting it."""
        child, parents = family
        training, held_out = self.designs
        rows, levels = len(self.training), int(self.levels[child])
        features, unseen = (design.functions(parents, rows) for design in self.designs)
        ends = layer_ends(parents, self.levels, rows)
        if levels:
            fit = CategoryFit.to(features, training.codes(child), levels, ends)
            return fit.log_densities(unseen, held_out.codes(child)), None
        fit = GaussianFit.to(Sums.of(features, training.values[:, child]), ends, rows)
        values = held_out.values[:, child]
        return fit.log_densities(unseen, values, held_out.frame.scale[child]), values - fit.predictions(unseen)
