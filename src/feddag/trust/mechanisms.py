"""How well each variable's parents explain it at each site, and where sites differ in how causes act.

A mechanism is all that a variable does given its parents: the function, its level and its noise. It differs between
sites if a regression of each site's own predicts rows held out better than one that is common to all. The common one
of a number comes from summed products of features, that of a category from a few rounds of Newton's method, whose
derivatives are sums, too. How well a site fares is the site's own affair, and can be shown by site only where all sites
are in one process.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

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
from feddag.trust.verdict import CERTAIN

_ROUNDING = 1e-9


def mechanisms_by_site(graph: CausalGraph, silos: Any) -> pd.DataFrame:
    """Measure how well each variable's parents explain it at each site, and whether sites differ.

    Returns:
        A row for each variable and site: `effect`, `causes`, `site`, `r2`, `own_gain`; then, of all sites together,
        `mean_own_gain` with its `error`, and whether the mechanism `differs`. Gains are in nats per row held out.
    """
    silos = read_silos(silos)
    columns, levels = silos[0].columns, level_counts(silos[0].kinds)
    dag = dag_extension(graph.reordered(columns).adjacency)
    with trust_sites(silos) as (federation, local):
        common = common_mechanisms(federation, dag, levels)
        answer = tasks.MECHANISMS.ask(federation, 0, common)
        gains, errors = answer["row_first"], _errors(federation, answer)
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
                "differs": bool(gains[child] > max(CERTAIN * errors[child], _ROUNDING)),
            }
            for child, parents in families(dag)
            for site, of_site in fits.items()
        ]
    )


def _errors(federation: Federation, answer: Arrays) -> Float[np.ndarray, " node"]:
    """Return standard errors over rows alone: the sites in question are these, and no sample of others."""
    rows = float(tasks.ROWS.ask(federation)["held_out"]) * federation.summed
    return np.sqrt(np.maximum(answer["row_second"] - answer["row_first"] ** 2, 0.0) / rows)


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
