"""The tasks of the checks of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from feddag.federation.tasks import Bounds, Output, TaskSpec, by_name
from feddag.graphs import is_dag
from feddag.learners.base import disclosed
from feddag.regression.comparison import SPREAD
from feddag.regression.moments import COVARIANCE, MomentTasks
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
    },
)
EFFECTS = TaskSpec(
    "trust.effects",
    "By how much one variable changes another at the site",
    {
        "slope": Output("the effect times rows, for each set of causes to adjust for", ("set",)),
        "variance": Output("the square of its standard error, times the square of the rows", ("set",)),
        "rows": Output("the number of rows", ("set",)),
    },
)
TASKS = (ROWS, HELD_OUT, *MOMENTS.specs, SUMS, LOGISTIC, MECHANISMS, EFFECTS)

ASSESSMENT_TASKS = (*COVARIANCE.specs, ROWS, HELD_OUT)
"""The tasks of `assess_federation`, and all that sites on a network answer: the others sum over single levels."""
LEAVES_SITE = disclosed(ASSESSMENT_TASKS).replace("In sums", "For the checks, in sums")

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
