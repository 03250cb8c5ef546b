"""The search's tasks: families of the study's variables, and what all sites are standardised with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from feddag.federation.protocol import Arrays
from feddag.federation.tasks import (
    LARGEST_PARAMETER,
    LARGEST_VALUE,
    SMALLEST_SPREAD,
    Bounds,
    Output,
    TaskSpec,
    by_name,
)
from feddag.graphs import is_dag
from feddag.regression.agreement import Lines
from feddag.regression.comparison import SPREAD
from feddag.regression.imprecision import SHARES, VIEWS
from feddag.regression.moments import MomentTasks
from feddag.regression.residual_pairs import DEGREES

Sharing = Literal["auto", "graph", "all"]

_ALIKE_ROWS = Output(
    "for each comparison the number of rows, if no experiment set or changed a variable of it; 0 otherwise",
    ("comparison",),
)
_SCORES = {"scores": Output("how well each family of variables explains the site's rows", None)}
ROWS = TaskSpec(
    "search.rows",
    "The number of rows",
    {
        "rows": Output("the number of rows"),
        "discrete": Output("which variables are discrete, if any is: as the study says", ("variable",)),
        "scored": Output("for each variable 1 if the site has rows in which no experiment set it", ("variable",)),
        "set": Output("for each variable 1 if experiments set it in some row", ("variable",)),
    },
)
MOMENTS = MomentTasks.by_means("search")
NEIGHBOURHOODS = TaskSpec("search.neighbourhoods", "Scores of families of variables, by quick regressions", _SCORES)
SCORES = TaskSpec("search.scores", "Scores of families of variables, by full regressions", _SCORES)
COMMON_SCORES = TaskSpec(
    "search.common-scores",
    "Scores of families of variables, by full regressions, and how well rows predict each other",
    _SCORES | {"saved": Output("for each family how well other rows predict a row", ("family",))},
)
COVARIANCES = TaskSpec(
    "search.covariances",
    "How the variables vary together at each site",
    {"covariances": Output("for each pair of variables their covariance", ("pair",))},
)
PULLS = TaskSpec(
    "search.pulls",
    "Where straight lines that all sites may have in common should move, each site's wish with a bound",
    {
        "levels": Output("for each family a weighted difference of intercept and of the noise's size", ("family", 2)),
        "level_weights": Output("for each family the weight of that", ("family",)),
        "slopes": Output("for each family and parent a weighted difference of slopes", ("slope",)),
        "slope_weights": Output("for each family the weight of that", ("family",)),
    },
)
AGREEMENT = TaskSpec(
    "search.agreement",
    "How well sites follow straight lines that they may have in common",
    {
        "some": Output("for each family how much better than own lines common ones explain rows", ("family",)),
        "every": Output("for each family the same if every site has them", ("family",)),
    },
)
COMPARISONS = TaskSpec(
    "search.comparisons",
    "By how much some graphs explain the site's rows better than others, and how sure that is",
    {
        "difference": Output("for each comparison the difference of scores", ("comparison",)),
        **SPREAD,
        "of_lines": Output("for each comparison the difference by straight lines with normal noise", ("comparison",)),
        "of_curves": Output("for each comparison that by smooth functions with normal noise", ("comparison",)),
        "by_design": Output(
            "for each comparison the difference, if an experiment set or changed a variable of it; 0 otherwise",
            ("comparison",),
        ),
        "alike_rows": _ALIKE_ROWS,
    },
)
DEPENDENCES = TaskSpec(
    "search.dependences",
    "How far pairs of variables depend on each other given some others, by straight lines and by tables",
    {
        "excess": Output("for each pair how far the site's rows depend on each other more than by chance", ("family",)),
        "variance": Output("for each pair by how much that varies by chance", ("family",)),
        "correlation": Output("for each pair of continuous variables their partial correlation", ("family",)),
    },
)
CHECKS = TaskSpec(
    "search.checks",
    "Whether the graph's assumptions hold for the site's rows",
    {
        "explained": Output("how far the causes tell the size and shape of each variable's noise", ("variable",)),
        "by_chance": Output("how far they would by chance", ("variable",)),
        "variance": Output("how much that varies by chance", ("variable",)),
        "outliers": Output("whether few values make up most of each continuous variable's spread", ("variable",)),
        "atoms": Output("whether few values make up much of each continuous variable", ("variable",)),
        "copies": Output("whether two continuous variables look like copies of each other, for each pair", ("pair",)),
        "together": Output(
            "for each edge how far what its two variables' causes leave unexplained goes together", ("edge", DEGREES**2)
        ),
        "together_rows": Output("for each edge the share of the rows that tell it", ("edge",)),
        "errors": Output(
            "how large each variable's errors of measurement seem, by what others have to do with each other given it",
            (VIEWS, "variable"),
        ),
        "error_weights": Output("how surely that is told", (VIEWS, "variable")),
    },
)
IMPRECISION = TaskSpec(
    "search.imprecision",
    "Which edges small errors of measurement would explain",
    {"imprecise": Output("for each edge whether small errors of measurement would explain it", ("edge", len(SHARES)))},
)
GRAPH_FIT = TaskSpec(
    "search.graph-fit",
    "How many sites' rows speak for each edge of the graph, and for other causes of each variable",
    {
        "standing": Output("for each edge whether the site's rows speak for it", ("edge",)),
        "misfit": Output("for each variable whether the site's rows speak for other causes", ("variable",)),
    },
)
DEVIATIONS = TaskSpec(
    "search.deviations",
    "How many sites differ from the straight lines that most have in common",
    {
        "differing": Output("for each variable whether the site differs", ("family",)),
        "at_once": Output("the number of pairs of variables in both of which the site differs"),
        "distance": Output("how far the site's own lines are from the common ones in all variables else"),
        "parameters": Output("the number of parameters of these lines"),
    },
)
SITE_DIFFERENCES = TaskSpec(
    "search.site-differences",
    "How much sites vary in what common mechanisms say about some graphs",
    {
        "site_first": Output("for each comparison the site's difference times its rows", ("comparison",)),
        "site_second": Output("for each comparison the square of it times the site's rows", ("comparison",)),
        "site_rows": Output("the number of rows"),
        "alike_rows": _ALIKE_ROWS,
    },
)
VOTES = TaskSpec(
    "search.votes",
    "How many sites' rows speak for a graph that differs from the common one by one edge, and how surely two groups do",
    {
        "votes": Output("for each such graph whether the site's rows speak for it", ("change",)),
        "for_other": Output(
            "for each such graph the log-evidence that it may hold at the site, with a bound", ("change",)
        ),
        "for_common": Output("for each such graph the log-evidence that it may not, with a bound", ("change",)),
    },
)
TASKS = (
    ROWS,
    *MOMENTS.specs,
    NEIGHBOURHOODS,
    SCORES,
    COMMON_SCORES,
    COVARIANCES,
    PULLS,
    AGREEMENT,
    DEVIATIONS,
    SITE_DIFFERENCES,
    COMPARISONS,
    DEPENDENCES,
    CHECKS,
    IMPRECISION,
    GRAPH_FIT,
)

_MOST_FAMILIES = 1_000_000
"""At once; with few variables there are fewer."""


def _no_own_parent(arrays: Arrays) -> bool:
    return not arrays["parents"][np.arange(len(arrays["children"])), arrays["children"]].any()


def _no_family_twice(arrays: Arrays) -> bool:
    families = np.column_stack([arrays["children"], arrays["parents"]])
    return len(np.unique(families, axis=0)) == len(families)


def _is_of_pairs(arrays: Arrays) -> bool:
    parents, others, every = arrays["parents"], arrays["others"], np.arange(len(arrays["children"]))
    return not parents[every, others].any() and not (others == arrays["children"]).any()


def _is_reference(graph: np.ndarray) -> bool:
    return not len(graph) or (graph.shape[0] == graph.shape[1] and is_dag(graph.astype(np.int8)))


def lines_of(arrays: Arrays) -> Lines:
    """Return the straight lines that a task brings."""
    return Lines(arrays["parents"].astype(bool), arrays["intercepts"], arrays["log_variances"], arrays["slopes"])


def search_tasks(nodes: int, *, compare: bool) -> dict[str, TaskSpec]:
    """Return the tasks of a search over so many variables, with bounds on what they bring.

    Sites' mechanisms are compared unless each site has its own.
    """
    arrays = {
        "children": Bounds(0, nodes - 1, "int64", ("family",)),
        "parents": Bounds(0, 1, "uint8", ("family", nodes)),
        "reference": Bounds(0, 1, "uint8", ("reference", nodes)),
    }
    lengths = {
        "family": min(nodes * 2 ** (nodes - 1), _MOST_FAMILIES),
        "comparison": 4 * nodes * (nodes - 1),
        "reference": nodes,
    }
    rules = {
        "families whose child is none of the parents": _no_own_parent,
        "families of which none is there twice": _no_family_twice,
        "a reference graph without cycles, or none": lambda arrays: _is_reference(arrays["reference"]),
    }
    terms = {"terms": Bounds(-1, 1, "int8", ("comparison", "family"))}

    def about_families(arrays: Mapping[str, Bounds], *specs: TaskSpec) -> list[TaskSpec]:
        return [spec.with_bounds(arrays=arrays, lengths=lengths, rules=rules) for spec in specs]

    scores = about_families(arrays, NEIGHBOURHOODS, SCORES)
    if compare:
        frame = {
            "origin": Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=(nodes,)),
            "scale": Bounds(SMALLEST_SPREAD, LARGEST_VALUE, shape=(nodes,)),
        }
        number = Bounds(-LARGEST_PARAMETER, LARGEST_PARAMETER, shape=("family",))
        slopes = replace(number, shape=("family", nodes))
        lines = {"intercepts": number, "log_variances": number, "slopes": slopes}
        scores += [*MOMENTS.bounded(nodes).values(), COVARIANCES.with_bounds(arrays=frame)]
        scores += about_families(arrays | frame, COMMON_SCORES)
        scores += about_families(arrays | frame | lines, PULLS, AGREEMENT, DEVIATIONS)
        accounts = {"accounts": Bounds(0, 1, shape=("family", 2))}
        scores += about_families(arrays | frame | lines | accounts | terms, SITE_DIFFERENCES)
    of_pairs = {"children": arrays["children"], "parents": arrays["parents"], "others": arrays["children"]}
    return by_name(
        (
            ROWS,
            *scores,
            DEPENDENCES.with_bounds(
                arrays=of_pairs,
                lengths={"family": nodes * (nodes - 1)},
                rules={
                    "families whose child is none of the parents": _no_own_parent,
                    "pairs of two variables, none of them given": _is_of_pairs,
                },
            ),
            COMPARISONS.with_bounds(arrays=arrays | terms, lengths=lengths, rules=rules),
            *(
                spec.with_bounds(
                    arrays={"dag": Bounds(0, 1, "uint8", (nodes, nodes)), **more},
                    rules={"a graph without cycles": lambda arrays: is_dag(arrays["dag"].astype(np.int8))},
                )
                for spec, more in (
                    (CHECKS, {}),
                    (IMPRECISION, {"precise": Bounds(0, 1, "uint8", (nodes,))}),
                    (GRAPH_FIT, {}),
                )
            ),
        )
    )
