"""The tasks of the checks of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from feddag.federation.tasks import LARGEST_VALUE, Bounds, Output, TaskSpec, by_name
from feddag.federation.tasks import MOST_ROWS as LARGEST_COUNT
from feddag.graphs import is_dag
from feddag.learners.base import disclosed
from feddag.regression.comparison import SPREAD
from feddag.regression.moments import COVARIANCE, MomentTasks
from feddag.regression.prediction import GaussianFit
from feddag.silos.variable_types import Kind

ROWS = TaskSpec(
    "trust.rows",
    "How many rows are laid aside for checks, and how many are used to fit",
    {
        "held_out": Output("how many rows are laid aside for checks"),
        "training": Output("how many are used to fit"),
    },
)
HELD_OUT = TaskSpec(
    "trust.held-out",
    "How well some graphs predict rows that the site has laid aside",
    {"scores": Output("one number for each graph", ("graph",)), **SPREAD},
)
MOMENTS = MomentTasks.by_means("trust")
"""The moments of the rows to fit to."""
SUMS = TaskSpec(
    "trust.sums",
    "How each variable varies together with functions of its causes",
    {
        "*/frequencies": Output("for each level of a category how frequent it is", None),
        "*": Output("means over rows, and means of products, of a variable and functions of its causes", None),
    },
)
LOGISTIC = TaskSpec(
    "trust.logistic",
    "How likely the site's rows of a category are by a common regression on its causes, and how to better that",
    {
        "value": Output("the mean logarithm of the likelihood"),
        "gradient": Output("how it changes with each parameter", ("parameter",)),
        "curvature": Output("for each pair of parameters the second derivative", ("parameter", "parameter")),
    },
)
MECHANISMS = TaskSpec(
    "trust.mechanisms",
    "By how much the site's own mechanisms predict its rows better than the common ones",
    {
        "row_first": Output("for each variable the mean difference per row", ("variable",)),
        "row_second": Output("for each variable the mean square of the difference per row", ("variable",)),
        "r2": Output("for each variable the share of its variance that its causes explain", ("variable",)),
        "differs": Output("for each variable whether the difference is certain, by the site's rows", ("variable",)),
    },
)
EFFECT_SITES = TaskSpec(
    "trust.effect-sites",
    "Whether the site can tell how one variable changes another",
    {"sites": Output("1 if the site can tell, for each set of causes to adjust for", ("set",))},
)
EFFECTS = TaskSpec(
    "trust.effects",
    "By how much one variable changes another at the site",
    {
        "slope": Output("the effect times rows, for each set of causes to adjust for", ("set",)),
        "variance": Output("the square of its standard error, times the square of the rows", ("set",)),
        "counted": Output("the number of rows, or 0 if the site cannot tell", ("set",)),
    },
)
EFFECT_SPREAD = TaskSpec(
    "trust.effect-spread",
    "How the effect of one variable on another at the site differs from the mean over all sites",
    {
        "weight": Output("how certain the site's effect is, for each set of causes to adjust for", ("set",)),
        "weight_squared": Output("the square of that", ("set",)),
        "first": Output("the difference from the mean, times its weight", ("set",)),
        "second": Output("the square of the difference, times its weight", ("set",)),
        "sites": Output("1 if the site can tell", ("set",)),
    },
)

ASSESSMENT_TASKS = (*COVARIANCE.specs, ROWS, HELD_OUT)
"""The tasks of `assess_federation`."""
MECHANISM_TASKS = (ROWS, *MOMENTS.specs, SUMS, MECHANISMS)
"""The tasks of `mechanisms_of_sums`. `LOGISTIC` is none: no site on a network sums over single levels."""
NETWORK_TASKS = tuple(by_name((*ASSESSMENT_TASKS, *MECHANISM_TASKS, EFFECT_SITES, EFFECTS, EFFECT_SPREAD)).values())
"""All tasks of these checks that sites on a network answer."""
LEAVES_SITE = disclosed(ASSESSMENT_TASKS).replace("In sums", "For the checks, in sums")

_MOST_FEATURES, _MOST_SETS = 100_000, 10_000
RANDOM_GRAPHS = 3
"""The number of random graphs that a learned one is compared with."""
CRITERIA = ("variance", "r2")
"""The criteria by which variables are sorted."""


def continuous_columns(kinds: Sequence[Kind]) -> list[int]:
    """Return the columns whose moments are asked for; none if there are fewer than two to compare.

    Of a discrete column no moment is ever asked for: its products with others would be sums over the rows of one level.
    """
    found = [k for k, kind in enumerate(kinds) if not kind.discrete]
    return found if len(found) > 1 else []


def assessment_tasks(kinds: Mapping[str, Kind]) -> dict[str, TaskSpec]:
    """Return the tasks of `assess_federation` on variables of these kinds, with bounds on what each brings."""
    nodes, graphs = len(kinds), 2 + RANDOM_GRAPHS + len(CRITERIA)  # the learned and the empty graph, and the others
    arrays = {
        "graphs": Bounds(0, 1, "uint8", ("graph", nodes, nodes)),
        "terms": Bounds(-1, 1, shape=("comparison", "graph")),
    }
    lengths = {"graph": graphs, "comparison": graphs}
    rules = {"graphs without cycles": lambda arrays: all(is_dag(each.astype(np.int8)) for each in arrays["graphs"])}
    checks = (ROWS, HELD_OUT.with_bounds(arrays=arrays, lengths=lengths, rules=rules))
    continuous = len(continuous_columns(list(kinds.values())))
    return (COVARIANCE.bounded(continuous) if continuous else {}) | by_name(checks)


def mechanism_tasks(nodes: int) -> dict[str, TaskSpec]:
    """Return the tasks of `mechanisms_of_sums` on so many continuous variables, with bounds on what each brings."""

    def number(*shape: int | str) -> Bounds:
        return Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=shape)

    graph = {
        "mean": number(nodes),
        "variance": number(nodes),
        "rows": Bounds(0, LARGEST_COUNT, "int64"),
        "graph": Bounds(0, 1, "uint8", (nodes, nodes)),
    }
    rules = {"a graph without cycles": lambda arrays: is_dag(arrays["graph"].astype(np.int8))}
    fits = {
        f"{child}/{name}": number(*(f"used {child}" for _ in range(axes)))
        for child in range(nodes)
        for name, axes in GaussianFit.axes().items()
    }
    lengths = {f"used {child}": _MOST_FEATURES for child in range(nodes)}
    return MOMENTS.bounded(nodes) | by_name(
        (
            ROWS,
            SUMS.with_bounds(arrays=graph, rules=rules),
            MECHANISMS.with_bounds(arrays=graph | fits, lengths=lengths, rules=rules),
        )
    )


def effect_tasks(nodes: int) -> dict[str, TaskSpec]:
    """Return the tasks of `effect_of_sums` on so many variables, with bounds on what each brings."""
    question = {"pair": Bounds(0, nodes - 1, "int64", (2,)), "adjust": Bounds(0, 1, "uint8", ("set", nodes))}
    spread = {
        "centre": Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=("set",)),
        "scale": Bounds(0, LARGEST_VALUE, shape=("set",)),
        "tau2": Bounds(0, LARGEST_VALUE, shape=("set",)),
    }
    lengths = {"set": _MOST_SETS}
    return by_name(
        (
            EFFECT_SITES.with_bounds(arrays=question, lengths=lengths),
            EFFECTS.with_bounds(arrays=question, lengths=lengths),
            EFFECT_SPREAD.with_bounds(arrays=question | spread, lengths=lengths),
        )
    )
