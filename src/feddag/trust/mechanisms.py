"""How well each variable's parents explain it at each site, and where sites differ in how causes act.

A mechanism is all that a variable does given its parents: the function, its level and its noise. It differs between
sites if a regression of each site's own predicts rows held out better than one that is common to all. The common one
of a number comes from summed products of features, that of a category from a few rounds of Newton's method, whose
derivatives are sums, too. How well a site fares is the site's own affair, and can be shown by site only where all sites
are in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from feddag.federation import Federation
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.graphs import Adjacency, CausalGraph, dag_extension
from feddag.regression.features import indicator_layers, level_counts
from feddag.regression.logistic import LogLikelihood
from feddag.regression.prediction import CategoryFit, GaussianFit, RegressionSums, families
from feddag.silos import read_silos
from feddag.trust import tasks
from feddag.trust.assessment import trust_sites
from feddag.trust.sites import CERTAIN, ROUNDING, TOGETHER


def mechanisms_by_site(graph: CausalGraph, silos: Any) -> pd.DataFrame:
    """Measure how well each variable's parents explain it at each site, and whether sites differ.

    Returns:
        A row for each variable and site: `effect`, `causes`, `site`, `r2`, `own_gain`; then, of all sites together,
        `mean_own_gain` with its `error`, whether the mechanism `differs`, and the number of sites whose own is
        certainly better (`sites_differing`). Gains are in nats per row held out.
    """
    silos = read_silos(silos)
    columns, levels = silos[0].columns, level_counts(silos[0].kinds)
    dag = dag_extension(graph.reordered(columns).adjacency)
    with trust_sites(silos) as (federation, local):
        found = _of_sums(federation, dag, levels)
        fits = {site.name: site.mechanism_fits(found.common) for site in local}
    return pd.DataFrame(
        [
            {
                "effect": columns[child],
                "causes": "; ".join(columns[parent] for parent in parents),
                "site": site,
                "r2": of_site[child].r2,
                "own_gain": of_site[child].own_gain,
                **found.figures(child),
            }
            for child, parents in families(dag)
            for site, of_site in fits.items()
        ]
    )


def mechanisms_of_sums(
    graph: CausalGraph, federation: Federation, columns: Sequence[str], minimum_sites: int
) -> pd.DataFrame:
    """Measure the same of continuous variables from sums alone.

    Returns:
        A row for each variable: as of `mechanisms_by_site` with the mean of all sites, and `sites_differing`, which is
        missing if it is above 0 and below `minimum_sites`.
    """
    dag = dag_extension(graph.reordered(columns).adjacency)
    found = _of_sums(federation, dag, np.zeros(len(columns), dtype=int))
    table = pd.DataFrame(
        [
            {
                "effect": columns[child],
                "causes": "; ".join(columns[parent] for parent in parents),
                "site": TOGETHER,
                "r2": float(found.answer["r2"][child]),
                **found.figures(child),
            }
            for child, parents in families(dag)
        ]
    )
    count = table["sites_differing"]
    return table.assign(sites_differing=count.where((count == 0) | (count >= minimum_sites)))


@dataclass(frozen=True)
class _Found:
    """What sums say about mechanisms."""

    common: dict[str, np.ndarray]
    """The regressions that are common to all sites."""
    answer: Arrays
    rows: float
    """Held out, of all sites together."""

    def figures(self, child: int) -> dict[str, Any]:
        """Return what is known of one variable over all sites."""
        gain = float(self.answer["row_first"][child])
        # over rows alone: the sites in question are these, and no sample of others
        error = float(np.sqrt(max(self.answer["row_second"][child] - gain**2, 0.0) / self.rows))
        return {
            "mean_own_gain": gain,
            "error": error,
            "differs": bool(gain > max(CERTAIN * error, ROUNDING)),
            "sites_differing": round(float(self.answer["differs"][child]) * self.rows),
        }


def _of_sums(federation: Federation, dag: Adjacency, levels: Int[np.ndarray, " node"]) -> _Found:
    common = common_mechanisms(federation, dag, levels)
    answer = tasks.MECHANISMS.ask(federation, 0, common)
    rows = float(tasks.ROWS.ask(federation)["held_out"]) * federation.summed
    return _Found(common, answer, rows)


def common_mechanisms(
    federation: Federation, dag: Adjacency, levels: Int[np.ndarray, " node"]
) -> dict[str, np.ndarray]:
    """Fit the regressions that are common to all sites; return them with what they are standardised with."""
    rows = round(float(tasks.ROWS.ask(federation)["training"]) * federation.summed)
    mean, variance, _ = tasks.MOMENTS.ask(lambda spec, arrays: spec.ask(federation, 0, arrays))
    task = {"mean": mean, "variance": variance, "rows": np.array(rows), "graph": dag.astype(np.uint8)}
    answer = tasks.SUMS.ask(federation, 0, task)
    fits = {}
    for child, parents in families(dag):
        sums, ends = under(f"{child}", answer), indicator_layers(parents, levels, rows, summed=True)
        if levels[child]:
            question = {**task, "child": np.array(child), **sums}
            fit = CategoryFit.by(partial(_likelihood, federation, question, rows), sums["frequencies"], ends, rows)
        else:
            fit = GaussianFit.to(RegressionSums(**sums), ends, rows)
        fits |= prefixed(f"{child}", asdict(fit))
    return task | fits


def _likelihood(federation: Federation, question: Arrays, rows: int, theta: np.ndarray) -> LogLikelihood:
    """Return the log-likelihood of all sites' rows."""
    mean = tasks.LOGISTIC.ask(federation, 0, {**question, "theta": theta})
    return LogLikelihood(rows * float(mean["value"]), rows * mean["gradient"], rows * mean["curvature"])
