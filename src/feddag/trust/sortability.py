"""Whether a graph is no more than a sorted list: causes with the smaller variance, or the smaller R², first.

Many simulations make variance grow along the causal order, and R², how well all other variables explain one. A
graph that follows such an order may owe itself to units or to the simulator rather than to causes (Reisach et al.,
"Beware of the simulated DAG!", NeurIPS 2021, and "A scale-invariant sorting criterion to find a causal order in
additive noise models", NeurIPS 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from feddag.errors import FeddagError
from feddag.graphs import Adjacency
from feddag.learners.base import Learner
from feddag.learners.factory import method_of
from feddag.learners.sortnregress import r2
from feddag.regression.moments import Moments

SUSPICIOUS = 0.9
"""A graph that agrees with a sorted order this much could have been sorted."""
FEWEST_EDGES = 3
"""Fewer edges than this agree with any order too easily to say anything."""
WIDE = 10.0
"""Standard deviations that differ by more than this factor look like units, not like nature."""


@dataclass(frozen=True)
class Sortability:
    """The share of directed paths that lead from a smaller to a larger value; ½ is chance. None without paths."""

    varsortability: float | None
    r2_sortability: float | None


def sortability(graph: Adjacency, moments: Moments) -> Sortability:
    """Measure how far a graph's directed edges follow the variances and the R² of all rows.

    Both are those of continuous variables: the variance of a category's codes means nothing.
    """
    covariance = moments.covariance
    variances = covariance.diagonal()
    correlations = covariance / np.sqrt(np.outer(variances, variances))
    singular = np.linalg.matrix_rank(correlations, hermitian=True) < len(correlations)
    return Sortability(
        order_agreement(graph, variances),
        None if singular else order_agreement(graph, r2(covariance)),
    )


def same(one: Any, other: Any) -> Any:
    """Say whether values differ by no more than rounding, that of a network's sums included."""
    return np.isclose(one, other, rtol=1e-6, atol=0)


def order_agreement(graph: Adjacency, values: Float[np.ndarray, " node"]) -> float | None:
    """Return how often the end of a path has the larger value; equal values count half.

    Counts all path lengths, and all pairs that a path of that length joins.
    """
    edges = (graph == 1) & (graph.T == 0)
    start, end = values[:, None], values[None, :]
    agrees = np.where(same(start, end), 0.5, start < end)
    paths, total, agreeing = edges, 0, 0.0
    for _ in range(len(graph) - 1):
        total += int(paths.sum())
        agreeing += float(agrees[paths].sum())
        paths = paths @ edges
    return agreeing / total if total else None


def is_unit_free(learner: Learner) -> bool:
    """Say whether the learner finds the same graph in whatever units the columns are given."""
    return unit_free_option(learner) is None


def unit_free_option(learner: Learner) -> str | None:
    """Name the option with which units play no role; `None` if the learner ignores them already."""
    try:
        method = method_of(learner)
    except FeddagError:  # of a learner that is in no table we know nothing
        return "--method search"
    if not method.unit_free:
        return "--method search"
    return None if learner.inner.get_params().get("noise", "free") == "free" else "--noise free"


def warn_before(moments: Moments, option: str | None) -> list[str]:
    """Warn, before a fit, of units that differ widely, if the method depends on units.

    Args:
        moments: The moments of all sites' rows.
        option: The option with which units would play no role; `None` if they play none.
    """
    if option is None:
        return []
    deviations = np.sqrt(moments.covariance.diagonal())
    small, large = int(deviations.argmin()), int(deviations.argmax())
    if deviations[large] <= WIDE * deviations[small]:
        return []
    return [
        f"The result will depend on the units of the columns, and they differ widely: the standard deviation is "
        f"{deviations[large]:.3g} for {moments.columns[large]!r} and {deviations[small]:.3g} for "
        f"{moments.columns[small]!r}. Bring the columns to comparable scales, or use {option}, which does not "
        "depend on units."
    ]


def warn_after(found: Sortability, edges: int, differing: Mapping[str, int], option: str | None) -> list[str]:
    """Warn, after a fit, of a graph that sorting could have found.

    Args:
        found: The sortability of the learned graph.
        edges: The number of its edges.
        differing: The number of pairs in which it differs from sort-and-regress's graph, by criterion.
        option: The option with which units would play no role; `None` if they play none.
    """
    warnings = []
    suspects = {
        "variance": (found.varsortability, "changing the units of a column could change the graph"),
        "R²": (found.r2_sortability, "the order may be an artefact of how such data come about"),
    }
    for criterion, (value, consequence) in suspects.items():
        if value is None or value < SUSPICIOUS or edges < FEWEST_EDGES:
            continue
        if criterion == "variance" and option is None:
            consequence = "a method that looks at units alone would find this order, too"  # noqa: PLW2901
        distance = differing.get(criterion)
        beside = "" if distance is None else f"; sort-and-regress's graph differs in {distance} pairs"
        warnings.append(
            f"The graph nearly sorts the variables by {criterion}: {value:.0%} of its paths lead from less to more"
            f"{beside}. So {consequence}."
        )
    if option is not None:
        warnings.append(
            "This method's result depends on the units of the columns. Where these are arbitrary, hold it against "
            f"{option}, which does not."
        )
    return warnings
