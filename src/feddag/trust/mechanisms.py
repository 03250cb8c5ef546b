"""How well each variable's parents explain it at each site, and where sites differ in how causes act.

A mechanism is all that a variable does given its parents: the function, its level and its noise. It differs between
sites if a regression of each site's own predicts rows held out better than one that is common to all. The common one
comes from summed products of features; how well a site fares is the site's own affair, and can be shown by site only
where all sites are in one process.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from feddag.federation import Federation
from feddag.federation.arrays import prefixed, under
from feddag.graphs import Adjacency, CausalGraph, dag_extension
from feddag.silos import as_silos
from feddag.trust import sites
from feddag.trust.assessment import trust_sites
from feddag.trust.held_out import ask, standard_errors
from feddag.trust.regression import GaussianFit, Sums, layer_ends
from feddag.trust.verdict import CERTAIN


def mechanisms_by_site(graph: CausalGraph, silos: Any) -> pd.DataFrame:
    """A row for each variable and site: `effect`, `causes`, `site`, `r2`, `own_gain`; then of all sites together
    `mean_own_gain` with its `error`, and whether the mechanism `differs`.

    Gains are in nats per row held out. They are missing for categories, whose mechanisms are not compared.
    """
    silos = as_silos(silos)
    columns, levels = silos[0].columns, sites.levels_of(silos[0])
    dag = dag_extension(graph.reordered(columns).adjacency)
    with trust_sites(silos) as (federation, local):
        common = common_mechanisms(federation, dag, levels)
        answer = ask(federation, sites.MECHANISMS, common)
        gains = np.where(levels == 0, answer["row_first"], np.nan)
        errors = standard_errors(federation, answer)
        fits = {site.name: site.mechanism_fits(common) for site in local}
    return pd.DataFrame(
        [
            {
                "effect": columns[child],
                "causes": "; ".join(columns[parent] for parent in parents),
                "site": site,
                "r2": of_site[child].r2,
                "own_gain": of_site[child].own_gain,
                "mean_own_gain": gains[child],
                "error": errors[child],
                "differs": bool(gains[child] > CERTAIN * errors[child]),
            }
            for child, parents in sites.families(dag)
            for site, of_site in fits.items()
        ]
    )


def common_mechanisms(
    federation: Federation, dag: Adjacency, levels: Int[np.ndarray, " node"]
) -> dict[str, np.ndarray]:
    """The regressions that all sites' training rows speak for together, and what they are standardised with."""
    rows = round(float(ask(federation, sites.ROWS, {})["training"]) * federation.summed)
    mean = ask(federation, sites.MEANS, {})["mean"]
    variance = ask(federation, sites.VARIANCES, {"mean": mean})["variance"]
    task = {"mean": mean, "variance": variance, "rows": np.array(rows), "graph": dag.astype(np.uint8)}
    answer = ask(federation, sites.SUMS, task)
    for child, parents in sites.families(dag):
        if not levels[child]:
            fit = GaussianFit.to(Sums(**under(f"{child}", answer)), layer_ends(parents, levels, rows), rows)
            task |= prefixed(f"{child}", asdict(fit))
    return task
