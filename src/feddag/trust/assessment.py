"""The checks that every fit is put to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from feddag.errors import FeddagError
from feddag.federation import Federation, InProcess
from feddag.federation.tasks import Bounds, TaskSpec, by_name
from feddag.graphs import Adjacency, dag_extension, is_dag, shd
from feddag.learners.base import Learner
from feddag.learners.sortnregress import SortnRegress
from feddag.regression.moments import COVARIANCE, Moments, summed_moments
from feddag.silos import Silo, read_silos
from feddag.silos.outliers import outlier_warnings
from feddag.trust.held_out import HeldOut, held_out
from feddag.trust.sites import TrustSite
from feddag.trust.sortability import Sortability, is_unit_free, same, sortability, warn_after, warn_before
from feddag.trust.tasks import HELD_OUT, ROWS
from feddag.trust.verdict import RANDOM_GRAPHS, SORTED, rivals, verdict

LEAVES_SITE = (
    "For the checks: rows, means and covariances, and how well some graphs explain rows set aside; summed over sites."
)


@dataclass(frozen=True)
class Assessment:
    """How far to trust a learned graph, at first sight."""

    verdict: str
    """One sentence: whether it explains rows held out better than no graph, chance, and sorting."""
    warnings: tuple[str, ...]
    sortability: Sortability
    held_out: tuple[HeldOut, ...]
    """The learned graph first; empty where that has no edges."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        document: dict[str, Any] = json.loads(text)
        return cls(
            document["verdict"],
            tuple(document["warnings"]),
            Sortability(**document["sortability"]),
            tuple(HeldOut(**each) for each in document["held_out"]),
        )


@contextmanager
def trust_sites(silos: Sequence[Silo]) -> Iterator[tuple[Federation, list[TrustSite]]]:
    """All sites in this process: as a federation, and one by one for what only such an engine can show."""
    local = [TrustSite(silo) for silo in silos]
    with threadpool_limits(1), InProcess(local, joblib.cpu_count()) as federation:
        yield federation, local


def assess(learner: Learner, silos: Any) -> Assessment:
    """Hold what a learner has learned against the tables that it learned from."""
    silos = read_silos(silos)
    with trust_sites(silos) as (federation, _):
        return assess_federation(learner, federation, silos[0].columns, unit_free=_unit_free(learner, silos))


def _unit_free(learner: Learner, silos: Sequence[Silo]) -> bool:
    """Scaled columns have no units left."""
    return is_unit_free(learner) or all(silo.account and silo.account.scale != "none" for silo in silos)


def assess_federation(
    learner: Learner, federation: Federation, columns: tuple[str, ...], *, unit_free: bool
) -> Assessment:
    """The same over any engine whose sites are `TrustSite`s."""
    graph = learner.graph_.reordered(columns).adjacency
    moments = summed_moments(federation, columns)
    by_sorting = _by_sorting(moments)
    found = sortability(graph, moments)
    distances = {
        criterion: shd(graph, by_sorting[key])
        for criterion, key in (("variance", "variance"), ("R²", "r2"))
        if key in by_sorting
    }
    edges = int(np.triu(graph | graph.T).sum())
    warnings = warn_after(found, edges, distances, unit_free=unit_free)
    if not edges:
        return Assessment("The graph has no edges: it says nothing about the data.", tuple(warnings), found, ())
    learned = dag_extension(learner.guessed_graph.reordered(columns).adjacency)
    results = held_out(federation, learned, rivals(learned, by_sorting))
    return Assessment(verdict(results), tuple(warnings), found, tuple(results))


ASSESSMENT_TASKS = (*COVARIANCE.specs, ROWS, HELD_OUT)
"""The tasks of `assess_federation`."""


def assessment_tasks(columns: Sequence[str]) -> dict[str, TaskSpec]:
    """Return the tasks of `assess_federation`, with bounds on what each brings."""
    nodes, graphs = len(columns), 2 + RANDOM_GRAPHS + len(SORTED)
    arrays = {
        "graphs": Bounds(0, 1, "uint8", ("graph", nodes, nodes)),
        "terms": Bounds(-1, 1, shape=("comparison", "graph")),
    }
    lengths = {"graph": graphs, "comparison": graphs}
    rules = {"graphs without cycles": lambda arrays: all(is_dag(each.astype(np.int8)) for each in arrays["graphs"])}
    checks = (ROWS, HELD_OUT.with_bounds(arrays=arrays, lengths=lengths, rules=rules))
    return COVARIANCE.bounded(nodes) | by_name(checks)


def _by_sorting(moments: Moments) -> dict[str, Adjacency]:
    """By what there is to sort by: scaled columns have one variance, whose last digits are no order."""
    variances = moments.covariance.diagonal()
    criteria: list[Literal["variance", "r2"]] = ["r2"] if same(variances.min(), variances.max()) else ["variance", "r2"]
    try:
        return {each: SortnRegress(each).learn_moments(moments, lambda _: None).adjacency for each in criteria}
    except FeddagError:  # one column is a linear function of others: then there is nothing to regress by
        return {}


def warnings_before(learner: Learner, silos: Any) -> list[str]:
    """What to know before a fit begins."""
    silos = read_silos(silos)
    with trust_sites(silos) as (federation, _):
        moments = summed_moments(federation, silos[0].columns)
    return outlier_warnings(silos) + warn_before(moments, unit_free=_unit_free(learner, silos))
