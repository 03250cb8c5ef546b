"""The checks that every fit is put to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from feddag.errors import FeddagError
from feddag.federation import Federation, InProcess
from feddag.graphs import Adjacency, dag_extension, shd
from feddag.learners.base import Learner
from feddag.learners.sortnregress import SortnRegress
from feddag.regression.moments import Moments, summed_moments
from feddag.silos import Silo, read_silos
from feddag.silos.suspicions import table_warnings
from feddag.silos.variable_types import Kind
from feddag.trust.held_out import HeldOut, compare_held_out
from feddag.trust.sites import TrustSite
from feddag.trust.sortability import (
    Sortability,
    is_unit_free,
    same,
    sortability,
    unit_free_option,
    warn_after,
    warn_before,
)
from feddag.trust.tasks import continuous_columns
from feddag.trust.verdict import rivals, verdict


@dataclass(frozen=True)
class Assessment:
    """The result of `assess`."""

    verdict: str
    """In short: which assumptions fail, and whether it explains rows held out better than no graph, chance, sorting."""
    warnings: tuple[str, ...]
    sortability: Sortability
    held_out: tuple[HeldOut, ...]
    """The learned graph first; empty where that has no edges."""

    def to_json(self) -> str:
        """Return the assessment as JSON."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` returns."""
        document: dict[str, Any] = json.loads(text)
        return cls(
            document["verdict"],
            tuple(document["warnings"]),
            Sortability(**document["sortability"]),
            tuple(HeldOut(**each) for each in document["held_out"]),
        )


@contextmanager
def trust_sites(silos: Sequence[Silo]) -> Iterator[tuple[Federation, list[TrustSite]]]:
    """Open a federation of all sites in this process, and yield it with its sites."""
    local = [TrustSite(silo) for silo in silos]
    with threadpool_limits(1), InProcess(local, joblib.cpu_count()) as federation:
        yield federation, local


def assess(learner: Learner, silos: Any) -> Assessment:
    """Hold what a learner has learned against the tables that it learned from."""
    silos = read_silos(silos)
    with trust_sites(silos) as (federation, _):
        kinds = dict(zip(silos[0].columns, silos[0].kinds, strict=True))
        return assess_federation(learner, federation, kinds, unit_free=_unit_free(learner, silos))


def _unit_free(learner: Learner, silos: Sequence[Silo]) -> bool:
    """Say whether units play no role: the learner ignores them, or scaled columns have none left."""
    return is_unit_free(learner) or all(silo.account and silo.account.scale != "none" for silo in silos)


def assess_federation(
    learner: Learner, federation: Federation, kinds: Mapping[str, Kind], *, unit_free: bool
) -> Assessment:
    """Assess over any engine whose sites are `TrustSite`s.

    Sorting looks at the continuous variables alone, and is a rival on rows held out only if all variables are.
    """
    columns = tuple(kinds)
    graph = learner.graph_.reordered(columns).adjacency
    numbers = continuous_columns(list(kinds.values()))
    among_numbers = graph[np.ix_(numbers, numbers)]
    by_sorting, found = {}, Sortability(None, None)
    if numbers:
        moments = summed_moments(federation, tuple(columns[k] for k in numbers))
        by_sorting, found = _by_sorting(moments), sortability(among_numbers, moments)
    distances = {
        criterion: shd(among_numbers, by_sorting[key])
        for criterion, key in (("variance", "variance"), ("R²", "r2"))
        if key in by_sorting
    }
    edges, sorted_edges = (int(np.triu(each | each.T).sum()) for each in (graph, among_numbers))
    warnings = [str(failed) for failed in learner.failed_checks]
    warnings += warn_after(found, sorted_edges, distances, None if unit_free else unit_free_option(learner))
    if not edges:
        return Assessment("The graph has no edges: it says nothing about the data.", tuple(warnings), found, ())
    learned = dag_extension(learner.guessed_graph.reordered(columns).adjacency)
    by_sorting = by_sorting if len(numbers) == len(columns) else {}
    results = compare_held_out(federation, learned, rivals(learned, by_sorting))
    return Assessment(verdict(results, learner.failed_checks), tuple(warnings), found, tuple(results))


def _by_sorting(moments: Moments) -> dict[str, Adjacency]:
    """Sort and regress by each criterion: not by variance where columns are scaled, since rounding is no order."""
    variances = moments.covariance.diagonal()
    criteria: list[Literal["variance", "r2"]] = ["r2"] if same(variances.min(), variances.max()) else ["variance", "r2"]
    try:
        return {each: SortnRegress(each).learn_moments(moments, lambda _: None).adjacency for each in criteria}
    except FeddagError:  # one column is a linear function of others: then there is nothing to regress by
        return {}


def warnings_before(learner: Learner, silos: Any) -> list[str]:
    """List what to know before a fit begins: outliers, what repeats, other units."""
    silos = read_silos(silos)
    numbers = continuous_columns(silos[0].kinds)
    if not numbers:
        return table_warnings(silos)
    with trust_sites(silos) as (federation, _):
        moments = summed_moments(federation, tuple(silos[0].columns[k] for k in numbers))
    option = None if _unit_free(learner, silos) else unit_free_option(learner)
    return table_warnings(silos) + warn_before(moments, option)
