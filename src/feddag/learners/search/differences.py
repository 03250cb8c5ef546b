"""How sites differ: the comparison of sites assumes that each differs in few mechanisms, and else not at all.

Then a site that differs tells directions. Two things break that. Where mechanisms vary a little at every site, nothing
is quite the same anywhere, and which sites seem to follow a common line is chance. And where one reason changes many
columns of a site at once (a device, how rows were selected), the graph that explains it by fewer mechanisms need not be
the true one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2, poisson

_RARE_VARIATION = 0.01
"""What sites that follow common lines differ by chance is larger than found with this probability."""
_RARE_COINCIDENCE = 0.05
"""So many sites differ in two variables at once by chance with this probability, if these do so independently."""

_MANY = 4
"""So many sites that differ, each in one variable, leave little room for reasons that change several columns."""


class Differences(NamedTuple):
    """What all sites together answer about the mechanisms of one graph."""

    evidence: Float[np.ndarray, " node"]
    """The log-evidence that some sites differ in a variable's mechanism; 0 where it was not asked."""
    sites: Float[np.ndarray, " node"]
    """The number of sites that surely do."""
    at_once: Float[np.ndarray, ""]
    """The pairs of variables in both of which a site differs, of all sites."""
    distance: Float[np.ndarray, ""]
    """How far the lines of sites that follow common ones are from these, in all."""
    parameters: Float[np.ndarray, ""]
    """The number of these lines' parameters: the distance by chance."""

    @classmethod
    def unknown(cls, nodes: int) -> Differences:
        """Return what is there where nobody was asked."""
        none = np.zeros(())
        return cls(np.zeros(nodes), np.zeros(nodes), none, none, none)

    @property
    def vary_everywhere(self) -> bool:
        """Whether sites that seem to follow common lines surely do not quite."""
        return bool(self.parameters > 0 and chi2.sf(self.distance, self.parameters) < _RARE_VARIATION)

    @property
    def one_by_one(self) -> bool:
        """Whether many sites differ, and each of them in one variable alone; a secure sum adds a little."""
        return bool(self.at_once < 0.5 and self.sites.sum() >= _MANY)

    def come_together(self, sites: int) -> bool:
        """Say whether the same sites differ in several variables at once, more often than by chance."""
        by_chance = (self.sites.sum() ** 2 - (self.sites**2).sum()) / 2 / sites
        return bool(self.at_once > by_chance and poisson.sf(self.at_once - 1, by_chance) < _RARE_COINCIDENCE)
