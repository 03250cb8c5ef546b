"""What happened in a fit, round by round: the curves of figures 3 and 4 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float


@dataclass(frozen=True)
class SiteView:
    """What only an engine that holds every site can see: each site's own model before it is averaged."""

    loss: dict[str, float]
    fit: dict[str, float]
    l1_distance: float
    """Mean ℓ1 distance between the edge scores of two sites (0 for a single site)."""
    shd_distance: float
    """Mean SHD between the thresholded graphs of two sites."""


@dataclass(frozen=True)
class FedDAGRound:
    """One aggregation."""

    round: int
    sub_problem: int
    step: int
    """Local steps of each site so far."""
    rho: float
    alpha: float
    h: float
    edges: int
    seconds: float
    sites: SiteView | None = None
    bytes_sent: int = 0
    """By all sites so far; likewise what they have received."""
    bytes_received: int = 0

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> FedDAGRound:
        """Take up a round that `FedDAGHistory.snapshot` returned."""
        sites = record["sites"]
        return cls(**{**record, "sites": None if sites is None else SiteView(**sites)})


@dataclass
class FedDAGHistory:
    """All rounds, and the graph's parameters at the end of every sub-problem."""

    rounds: list[FedDAGRound] = field(default_factory=list)
    graphs: list[Float[np.ndarray, "..."]] = field(default_factory=list)

    def snapshot(self) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
        """Return the rounds in the types of JSON, and the graphs by number."""
        graphs = {f"{k}": graph for k, graph in enumerate(self.graphs)}
        return [asdict(round_) for round_ in self.rounds], graphs

    @classmethod
    def restored(cls, rounds: list[dict[str, Any]], graphs: Mapping[str, np.ndarray]) -> FedDAGHistory:
        """Take up what `snapshot` returned."""
        return cls(
            rounds=[FedDAGRound.from_dict(record) for record in rounds],
            graphs=[graphs[f"{k}"] for k in range(len(graphs))],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per round; per-site columns are named `loss[site]` and `fit[site]`."""
        return pd.DataFrame([_flat(round_) for round_ in self.rounds])


def _flat(round_: FedDAGRound) -> dict[str, Any]:
    record = asdict(round_)
    sites = record.pop("sites")
    if sites is not None:
        for name in ("loss", "fit"):
            record |= {f"{name}[{site}]": value for site, value in sites.pop(name).items()}
        record |= sites
    return record


def mean_distances(scores: Float[np.ndarray, "site node node"], threshold: float) -> tuple[float, float]:
    """Average the ℓ1 distance and the SHD between two sites' graphs over all pairs of sites.

    Both count over all pairs at once, so that a hundred sites cost no more than ten times ten: sorted values enter
    the ℓ1 sum with fixed signs, and m sites of which n_c agree on type c differ in (m² − Σ n_c²)/2 pairs.
    """
    sites = len(scores)
    if sites < 2:
        return 0.0, 0.0
    pairs = sites * (sites - 1) / 2
    signs = 2 * np.arange(sites) - (sites - 1)
    l1 = np.tensordot(signs, np.sort(scores, axis=0), axes=1).sum() / pairs

    edges = (scores > threshold).astype(np.int8)
    types = edges + 2 * edges.transpose(0, 2, 1)
    agreeing = np.sum([np.sum(types == kind, axis=0) ** 2 for kind in range(4)], axis=0)
    above_diagonal = np.triu_indices(scores.shape[1], k=1)
    hamming = ((sites**2 - agreeing) / 2)[above_diagonal].sum() / pairs
    return float(l1), float(hamming)
