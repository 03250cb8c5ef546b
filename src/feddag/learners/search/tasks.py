"""The search's tasks: families of the study's variables, and what all sites are standardised with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from feddag.federation.protocol import Arrays
from feddag.federation.tasks import (
    LARGEST_PARAMETER,
    LARGEST_VALUE,
    MOST_ROWS,
    SMALLEST_SPREAD,
    Bounds,
    Output,
    TaskSpec,
    by_name,
)
from feddag.graphs import is_dag
from feddag.regression.comparison import SPREAD
from feddag.regression.features import (
    FUNCTIONS,
    JOINT_FUNCTIONS,
    ROWS_PER_SUMMED_FUNCTION,
    may_be_summed,
    summed_functions,
)
from feddag.regression.moments import MomentTasks

_SCORES = {"scores": Output("how well each family of variables explains the site's rows", None)}
ROWS = TaskSpec("search.rows", "The number of rows", {"rows": Output("the number of rows")})
MOMENTS = MomentTasks.by_means("search")
GRAM = TaskSpec(
    "search.gram",
    "How functions of the variables vary together",
    {
        "mean": Output("the mean of each function", ("function",)),
        "second": Output("for each pair of functions the mean of their product", ("pair",)),
    },
)
FAMILY_GRAMS = TaskSpec(
    "search.family-grams",
    "How functions of some sets of variables vary together",
    {
        "mean/*": Output("for a set of variables the mean of each function", None),
        "second/*": Output("for each pair of these functions the mean of their product", None),
        "cross/*": Output("for each of these functions the mean of its product with every variable", None),
    },
)
NEIGHBOURHOODS = TaskSpec("search.neighbourhoods", "Scores of families of variables, by quick regressions", _SCORES)
SCORES = TaskSpec("search.scores", "Scores of families of variables, by full regressions", _SCORES)
COMPARISONS = TaskSpec(
    "search.comparisons",
    "By how much some graphs explain the site's rows better than others, and how sure that is",
    {
        "difference": Output("for each comparison the difference of scores", ("comparison",)),
        **SPREAD,
        "shape": Output("for each family how heavy-tailed and how skewed the noise is", None),
        "shape_square": Output("for each family the mean squares behind these", None),
    },
)
TASKS = (ROWS, *MOMENTS.specs, GRAM, FAMILY_GRAMS, NEIGHBOURHOODS, SCORES, COMPARISONS)

SETS_PER_ROUND = 64
"""Sets of parents whose Gram matrices are asked for at once: each may have a hundred thousand entries."""

_MOST_FAMILIES = 1_000_000
"""At once; with few variables there are fewer."""


def _no_own_parent(arrays: Arrays) -> bool:
    return not arrays["parents"][np.arange(len(arrays["children"])), arrays["children"]].any()


def _no_family_twice(arrays: Arrays) -> bool:
    families = np.column_stack([arrays["children"], arrays["parents"]])
    return len(np.unique(families, axis=0)) == len(families)


def _is_reference(graph: np.ndarray) -> bool:
    return not len(graph) or (graph.shape[0] == graph.shape[1] and is_dag(graph.astype(np.int8)))


def _enough_rows(arrays: Arrays) -> bool:
    functions = summed_functions(len(arrays["origin"]), pairs=bool(arrays["pairs"]))
    return may_be_summed(functions, float(arrays["rows"]))


def _enough_rows_for_each_set(arrays: Arrays) -> bool:
    """Return whether the rows suffice for each set; a site adds joint functions only for the rows that are left."""
    largest = int(arrays["parents"].sum(axis=1, dtype=int).max(initial=0))
    return may_be_summed(summed_functions(largest, pairs=False), float(arrays["rows"]))


def search_tasks(nodes: int, *, common_mechanisms: bool) -> dict[str, TaskSpec]:
    """Return the tasks of a search over so many variables, with bounds on what they bring."""
    families = {
        "children": Bounds(0, nodes - 1, "int64", ("family",)),
        "parents": Bounds(0, 1, "uint8", ("family", nodes)),
    }
    lengths = {
        "family": min(nodes * 2 ** (nodes - 1), _MOST_FAMILIES),
        "comparison": nodes * (nodes - 1),
        "function": nodes * FUNCTIONS + JOINT_FUNCTIONS,
    }
    rules = {
        "families whose child is none of the parents": _no_own_parent,
        "families of which none is there twice": _no_family_twice,
    }
    terms = {"terms": Bounds(-1, 1, "int8", ("comparison", "family"))}
    if not common_mechanisms:
        arrays = families | {"reference": Bounds(0, 1, "uint8", ("reference", nodes))}
        lengths["reference"] = nodes
        rules |= {"a reference graph without cycles, or none": lambda arrays: _is_reference(arrays["reference"])}
        return by_name(
            (
                ROWS,
                NEIGHBOURHOODS.with_bounds(arrays=arrays, lengths=lengths, rules=rules),
                SCORES.with_bounds(arrays=arrays, lengths=lengths, rules=rules),
                COMPARISONS.with_bounds(arrays=arrays | terms, lengths=lengths, rules=rules),
            )
        )
    enough = f"{ROWS_PER_SUMMED_FUNCTION} rows or more for each function"
    frame: Mapping[str, Bounds] = {
        "origin": Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=(nodes,)),
        "scale": Bounds(SMALLEST_SPREAD, LARGEST_VALUE, shape=(nodes,)),
        "rows": Bounds(1, MOST_ROWS, "int64"),
    }
    parameters = Bounds(-LARGEST_PARAMETER, LARGEST_PARAMETER, shape=("family", "function"))
    fitted = {
        "means": parameters,
        "coefficients": parameters,
        "sizes": Bounds(0, lengths["function"], "int64", ("family",)),
        "variances": Bounds(SMALLEST_SPREAD, LARGEST_VALUE, shape=("family",)),
    }
    rules |= {"sizes within the coefficients": lambda arrays: bool((arrays["sizes"] <= arrays["means"].shape[1]).all())}
    return by_name(
        (
            ROWS,
            *MOMENTS.bounded(nodes).values(),
            GRAM.with_bounds(arrays={**frame, "pairs": Bounds(0, 1, "bool")}, rules={enough: _enough_rows}),
            FAMILY_GRAMS.with_bounds(
                arrays={**frame, "parents": families["parents"]},
                lengths={"family": min(2**nodes, SETS_PER_ROUND)},
                rules={enough: _enough_rows_for_each_set},
            ),
            COMPARISONS.with_bounds(arrays={**frame, **families, **terms, **fitted}, lengths=lengths, rules=rules),
        )
    )
