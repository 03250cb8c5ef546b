"""What the search's tasks may bring: families of the study's variables, and what all sites are standardised with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from feddag.federation.forms import (
    LARGEST_PARAMETER,
    LARGEST_VALUE,
    MOST_ROWS,
    SMALLEST_SPREAD,
    Between,
    Form,
)
from feddag.federation.protocol import Arrays
from feddag.graphs import is_dag
from feddag.learners.search import sites
from feddag.learners.search.evidence import (
    FUNCTIONS,
    JOINT_FUNCTIONS,
    ROWS_PER_SUMMED_FUNCTION,
    may_be_summed,
    summed_functions,
)
from feddag.learners.search.scores import SETS_PER_ROUND

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
    """Where there are, a site adds joint functions for the rows that are left, and no more."""
    largest = int(arrays["parents"].sum(axis=1, dtype=int).max(initial=0))
    return may_be_summed(summed_functions(largest, pairs=False), float(arrays["rows"]))


def search_forms(nodes: int, *, common_mechanisms: bool) -> dict[str, Form]:
    """Of the tasks that such sites know."""
    families = {
        "children": Between(0, nodes - 1, "int64", ("family",)),
        "parents": Between(0, 1, "uint8", ("family", nodes)),
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
    terms = {"terms": Between(-1, 1, "int8", ("comparison", "family"))}
    rows = {sites.ROWS: Form()}
    if not common_mechanisms:
        arrays = families | {"reference": Between(0, 1, "uint8", ("reference", nodes))}
        lengths["reference"] = nodes
        rules |= {"a reference graph without cycles, or none": lambda arrays: _is_reference(arrays["reference"])}
        return rows | {
            sites.NEIGHBOURHOODS: Form(arrays=arrays, lengths=lengths, rules=rules),
            sites.SCORES: Form(arrays=arrays, lengths=lengths, rules=rules),
            sites.COMPARISONS: Form(arrays=arrays | terms, lengths=lengths, rules=rules),
        }
    enough = f"{ROWS_PER_SUMMED_FUNCTION} rows or more for each function"
    mean = Between(-LARGEST_VALUE, LARGEST_VALUE, shape=(nodes,))
    frame: Mapping[str, Between] = {
        "origin": mean,
        "scale": Between(SMALLEST_SPREAD, LARGEST_VALUE, shape=(nodes,)),
        "rows": Between(1, MOST_ROWS, "int64"),
    }
    parameters = Between(-LARGEST_PARAMETER, LARGEST_PARAMETER, shape=("family", "function"))
    fitted = {
        "means": parameters,
        "coefficients": parameters,
        "sizes": Between(0, lengths["function"], "int64", ("family",)),
        "variances": Between(SMALLEST_SPREAD, LARGEST_VALUE, shape=("family",)),
    }
    rules |= {"sizes within the coefficients": lambda arrays: bool((arrays["sizes"] <= arrays["means"].shape[1]).all())}
    return rows | {
        sites.MEANS: Form(),
        sites.VARIANCES: Form(arrays={"mean": mean}),
        sites.GRAM: Form(
            arrays={**frame, "pairs": Between(0, 1, "bool")},
            rules={enough: _enough_rows},
        ),
        sites.FAMILY_GRAMS: Form(
            arrays={**frame, "parents": families["parents"]},
            lengths={"family": min(2**nodes, SETS_PER_ROUND)},
            rules={enough: _enough_rows_for_each_set},
        ),
        sites.COMPARISONS: Form(arrays={**frame, **families, **terms, **fitted}, lengths=lengths, rules=rules),
    }
