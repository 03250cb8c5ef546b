"""The search's tasks: families of the study's variables, and what all sites are standardised with."""

from __future__ import annotations

import numpy as np

from feddag.federation.protocol import Arrays
from feddag.federation.tasks import (
    LARGEST_VALUE,
    MOST_ROWS,
    SMALLEST_SPREAD,
    Bounds,
    Output,
    TaskSpec,
    by_name,
)
from feddag.graphs import is_dag
from feddag.learners.search.budget import NUMBERS_PER_VALUE, most_summed_functions
from feddag.regression.comparison import SPREAD
from feddag.regression.features import FUNCTIONS
from feddag.regression.moments import MomentTasks

_SCORES = {"scores": Output("how well each family of variables explains the site's rows", None)}
ROWS = TaskSpec(
    "search.rows",
    "The number of rows",
    {
        "rows": Output("the number of rows"),
        "discrete": Output("which variables are discrete, if any is: as the study says", ("variable",)),
        "scored_rows": Output("of each variable the rows in which no experiment set it, if any did", ("variable",)),
    },
)
MOMENTS = MomentTasks.by_means("search")
GRAM = TaskSpec(
    "search.gram",
    "How functions of the variables vary together",
    {
        "mean": Output("the mean of each function", ("function",)),
        "second": Output("for each pair of functions the mean of their product", ("pair",)),
    },
)
NEIGHBOURHOODS = TaskSpec("search.neighbourhoods", "Scores of families of variables, by quick regressions", _SCORES)
SCORES = TaskSpec("search.scores", "Scores of families of variables, by full regressions", _SCORES)
_GAINS = {"gains": Output("for each family how much models of the noise explain beyond normal noise", ("family",))}
GAINS = TaskSpec("search.gains", "What models of the noise add to scores of families, by quick regressions", _GAINS)
SCORES_AND_GAINS = TaskSpec(
    "search.scores-and-gains",
    "Scores of families of variables, by full regressions, and what models of the noise add to them",
    _SCORES | _GAINS,
)
COMPARISONS = TaskSpec(
    "search.comparisons",
    "By how much some graphs explain the site's rows better than others, and how sure that is",
    {
        "difference": Output("for each comparison the difference of scores", ("comparison",)),
        **SPREAD,
        "alike_rows": Output(
            "for each comparison the number of rows, if no experiment set a variable of it; 0 otherwise",
            ("comparison",),
        ),
        "table_fit": Output("for each discrete variable's family how well its table fits the site's rows", ("family",)),
        "table_size": Output("for each discrete variable's family the size of its table", ("family",)),
    },
)
OF_TABLES = ("table_fit", "table_size")
"""What `COMPARISONS` brings of discrete variables only."""
CHECKS = TaskSpec(
    "search.checks",
    "Whether the graph's assumptions hold for the site's rows",
    {
        "explained": Output("how far the causes tell the size and shape of each variable's noise", ("variable",)),
        "by_chance": Output("how far they would by chance", ("variable",)),
        "variance": Output("how much that varies by chance", ("variable",)),
        "outliers": Output("whether few values make up most of each continuous variable's spread", ("variable",)),
        "copies": Output("whether two continuous variables look like copies of each other, for each pair", ("pair",)),
    },
)
TASKS = (ROWS, *MOMENTS.specs, GRAM, GAINS, NEIGHBOURHOODS, SCORES, SCORES_AND_GAINS, COMPARISONS, CHECKS)

_MOST_FAMILIES = 1_000_000
"""At once; with few variables there are fewer."""


def _no_own_parent(arrays: Arrays) -> bool:
    return not arrays["parents"][np.arange(len(arrays["children"])), arrays["children"]].any()


def _no_family_twice(arrays: Arrays) -> bool:
    families = np.column_stack([arrays["children"], arrays["parents"]])
    return len(np.unique(families, axis=0)) == len(families)


def _is_reference(graph: np.ndarray) -> bool:
    return not len(graph) or (graph.shape[0] == graph.shape[1] and is_dag(graph.astype(np.int8)))


def _within_budget(arrays: Arrays) -> bool:
    return int(arrays["functions"]) <= most_summed_functions(len(arrays["origin"]), float(arrays["rows"]))


def search_tasks(nodes: int, sites: int, *, common_mechanisms: bool) -> dict[str, TaskSpec]:
    """Return the tasks of a search over so many variables at so many sites, with bounds on what they bring."""
    arrays = {
        "children": Bounds(0, nodes - 1, "int64", ("family",)),
        "parents": Bounds(0, 1, "uint8", ("family", nodes)),
        "reference": Bounds(0, 1, "uint8", ("reference", nodes)),
    }
    lengths = {
        "family": min(nodes * 2 ** (nodes - 1), _MOST_FAMILIES),
        "comparison": nodes * (nodes - 1),
        "reference": nodes,
    }
    rules = {
        "families whose child is none of the parents": _no_own_parent,
        "families of which none is there twice": _no_family_twice,
        "a reference graph without cycles, or none": lambda arrays: _is_reference(arrays["reference"]),
    }
    terms = {"terms": Bounds(-1, 1, "int8", ("comparison", "family"))}

    def about_families(*specs: TaskSpec) -> list[TaskSpec]:
        return [spec.with_bounds(arrays=arrays, lengths=lengths, rules=rules) for spec in specs]

    scores = about_families(NEIGHBOURHOODS, SCORES)
    if common_mechanisms:
        frame = {
            "origin": Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=(nodes,)),
            "scale": Bounds(SMALLEST_SPREAD, LARGEST_VALUE, shape=(nodes,)),
            "rows": Bounds(1, MOST_ROWS, "int64"),
            "functions": Bounds(1, FUNCTIONS, "int64"),
        }
        budget = {f"at most {NUMBERS_PER_VALUE:g} numbers for each value of all sites": _within_budget}
        gram = GRAM.with_bounds(arrays=frame, rules=budget if sites > 1 else {})
        scores += [*MOMENTS.bounded(nodes).values(), gram, *about_families(GAINS, SCORES_AND_GAINS)]
    return by_name(
        (
            ROWS,
            *scores,
            COMPARISONS.with_bounds(arrays=arrays | terms, lengths=lengths, rules=rules),
            CHECKS.with_bounds(
                arrays={"dag": Bounds(0, 1, "uint8", (nodes, nodes))},
                rules={"a graph without cycles": lambda arrays: is_dag(arrays["dag"].astype(np.int8))},
            ),
        )
    )
