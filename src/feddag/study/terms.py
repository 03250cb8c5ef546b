"""What a study says about its method, its sites, the federation, privacy and trust, once it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from feddag.learners.registry import Regime
from feddag.silos.interventions import NO_INTERVENTIONS, Interventions

LEAST_QUORUM = 3
"""With fewer answers, a site that subtracts its own from the sum is left with one other's."""


@dataclass(frozen=True)
class MethodChoice:
    """How to learn, by the names of `feddag methods`."""

    name: str
    regime: Regime | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteTerms:
    """What the study says about one site."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of variables that have another name there."""
    identity: str | None = None
    """The site's Ed25519 public key, in hexadecimal digits."""
    interventions: Interventions = NO_INTERVENTIONS
    """What the site's experiments set."""


@dataclass(frozen=True)
class FederationTerms:
    """How many sites must answer, and in what time."""

    quorum: int
    """So many sites must answer a task, or the run stops. More than half of the sites, and at least three (or all)
    unless the study says otherwise."""
    timeout: float = 600.0
    """The seconds that a site may take for a task."""
    minimum_sites: int = LEAST_QUORUM
    """The fewest sites that any combination of sums may tell about."""
    maximum_rows: int = 10_000_000
    """The largest number of rows that a site may claim."""


@dataclass(frozen=True)
class DifferentialPrivacy:
    """What a whole run may reveal of one site, and how the noise is laid out for it."""

    epsilon: float
    rounds: int
    delta: float = 1e-5
    clip: float = 1.0


@dataclass(frozen=True)
class RowTerms:
    """What the one release of a study may reveal of one person."""

    epsilon: float
    delta: float
    expected_rows: int
    rows_per_person: int = 1


@dataclass(frozen=True)
class PrivacyTerms:
    """How sums are protected."""

    secure_sum: bool
    """On unless one or two sites are named: from the sum of two, each computes the other's."""
    differential: DifferentialPrivacy | None = None
    rows: RowTerms | None = None

    @property
    def noisy(self) -> bool:
        """Whether sums have noise."""
        return self.differential is not None or self.rows is not None


@dataclass(frozen=True)
class TrustTerms:
    """Which checks follow the fit."""

    assess: bool
    """Off by default: it needs further sums, of moments of all variables and of scores of graphs."""
    bootstraps: int = 0
    """How many times every site draws half of its rows, for the graph's stability."""
    leave_one_out: bool = False
    """Whether the graph is learned without each site, too: such sums, held against the others, tell about one site."""
    mechanisms: bool = False
    """Whether sites compare their mechanisms with common ones."""
    effects: tuple[tuple[str, str], ...] = ()
    """Pairs of a cause and an effect whose total effect is estimated."""
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    """Values of the method's parameters whose combinations are compared by rows that sites lay aside."""
    tables: bool = False
    """Whether sums tell before the fit what is missing, and warn of what is seldom meant."""

    def document(self) -> dict[str, Any]:
        """Return the content of the file's table: what is off by default stands there only where it is on."""
        content = {**vars(self), "effects": [list(pair) for pair in self.effects], "grid": dict(self.grid)}
        return {key: value for key, value in content.items() if value or key == "assess"}
