"""A site of a study with experiments: each variable is scored on the rows in which nobody set it.

Such rows say nothing about the causes of a variable that was set, and all about what it causes. So a site keeps one
table for each set of rows that a variable is scored on, and asks each for the families of its variables. Scores are
means per row: that of a variable scored on m of n rows counts m/n, so that the mean over sites, weighted by rows,
is that over all rows which say something. A variable whose mechanism an experiment changed, and did not replace, is
scored by a mechanism of the site's own (`Silo.changed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from feddag.federation.protocol import Answer, Arrays, Stateless, Task, unknown_task
from feddag.learners.search import tasks
from feddag.learners.search.graph_fit import answer_graph_fit
from feddag.learners.search.sites import OwnMechanisms, compare, deviations
from feddag.regression.comparison import spread_of_site
from feddag.regression.residual_checks import Dependence
from feddag.regression.views import MOST_ROWS, evenly_spaced
from feddag.silos import Silo
from feddag.silos.interventions import FEWEST_ROWS, scored_rows

_OF_ALL_ROWS = (*(spec.name for spec in tasks.MOMENTS.specs), tasks.COVARIANCES.name)
_OF_FAMILIES = {
    tasks.NEIGHBOURHOODS.name: ("scores",),
    tasks.SCORES.name: ("scores",),
    tasks.COMMON_SCORES.name: ("scores", "saved"),
    tasks.AGREEMENT.name: ("some", "every"),
    tasks.DEPENDENCES.name: ("excess", "variance", "correlation"),
    tasks.PULLS.name: ("levels", "level_weights", "slopes", "slope_weights"),
}
"""What tasks ask about each family."""
_PER_FAMILY = ("children", "parents", "others", "intercepts", "log_variances", "slopes", "accounts")


class _Part(NamedTuple):
    """The rows that some variables are scored on, and what scores them."""

    variables: Int[np.ndarray, " variable"]
    rows: Int[np.ndarray, " row"]
    site: OwnMechanisms


class SiteWithExperiments(Stateless):
    """A site that answers for each variable by the rows in which it was not set. Satisfies `feddag.federation.Site`."""

    def __init__(
        self,
        silo: Silo,
        targets: Bool[np.ndarray, "row column"],
        make_site: Callable[[Silo], OwnMechanisms],
    ) -> None:
        self.name = silo.name
        self._columns = silo.columns
        self._rows = silo.rows
        self._all_rows = make_site(silo)
        self._is_target = silo.is_target
        self._unlike_by_design = silo.is_experimental | np.isin(silo.columns, silo.experiments_together)
        self._shares = scored_rows(targets).mean(axis=0)
        self._parts = self._parts_of(silo, targets, make_site)

    def _parts_of(
        self, silo: Silo, targets: Bool[np.ndarray, "row column"], make_site: Callable[[Silo], OwnMechanisms]
    ) -> list[_Part]:
        patterns, pattern_of = np.unique(targets, axis=1, return_inverse=True)
        parts = []
        for k, is_set in enumerate(patterns.T):
            variables, rows = np.flatnonzero(pattern_of.reshape(-1) == k), np.flatnonzero(~is_set)
            if len(rows) >= FEWEST_ROWS:
                site = self._all_rows if len(rows) == silo.rows else make_site(silo.with_rows(rows))
                parts.append(_Part(variables, rows, site))
        return parts

    def answer(self, task: Task) -> Answer:
        """Answer a task of the search."""
        if task.name in _OF_ALL_ROWS:
            return self._all_rows.answer(task)
        counted_alone = {
            tasks.ROWS.name: self._count_rows,
            tasks.DEVIATIONS.name: self._deviations,
            tasks.GRAPH_FIT.name: lambda task: answer_graph_fit(self, task, self._columns, self._rows),
        }
        if task.name in counted_alone:
            return counted_alone[task.name](task)
        by_rows = dict.fromkeys(_OF_FAMILIES, self._of_families) | {
            tasks.SITE_DIFFERENCES.name: self._site_differences,
            tasks.COMPARISONS.name: self._compare,
            tasks.CHECKS.name: self._check,
            tasks.IMPRECISION.name: lambda task: self._of_edges_never_set(task, "imprecise"),
        }
        if task.name in by_rows:
            return Answer(float(self._rows), by_rows[task.name](task))
        raise unknown_task(self.name, task, [*_OF_ALL_ROWS, *counted_alone, *by_rows])

    def _count_rows(self, task: Task) -> Answer:
        answer = self._all_rows.answer(task)
        told = {"scored": (self._shares > 0).astype(float), "set": self._is_target.astype(float)}
        return replace(answer, arrays={**answer.arrays, **told})

    def _by_part(self, children: Int[np.ndarray, " family"]) -> Iterator[tuple[_Part, Int[np.ndarray, " chosen"]]]:
        """Take the families of each part's variables."""
        for part in self._parts:
            families = np.flatnonzero(np.isin(children, part.variables))
            if len(families):
                yield part, families

    def _of_families(self, task: Task) -> dict[str, np.ndarray]:
        """Answer for each family by the rows that say something about it: the less they are, the less it counts."""
        parents = task.arrays["parents"].astype(bool)
        count, nodes = parents.shape
        by_node = {tasks.NEIGHBOURHOODS.name: ("scores",), tasks.PULLS.name: ("slopes",)}.get(task.name, ())
        found = {name: np.zeros((count, nodes) if name in by_node else count) for name in _OF_FAMILIES[task.name]}
        if "levels" in found:
            found["levels"] = np.zeros((count, 2))
        for part, families in self._by_part(task.arrays["children"]):
            answer = dict(part.site.answer(_about(task, families)).arrays)
            if "slopes" in answer:  # those of parents, in a row
                slopes = np.zeros((len(families), nodes))
                slopes[parents[families]] = answer["slopes"]
                answer["slopes"] = slopes
            for name, values in answer.items():
                found[name][families] = values * (len(part.rows) / self._rows)
        return found | ({"slopes": found["slopes"][parents]} if "slopes" in found else {})

    def _deviations(self, task: Task) -> Answer:
        children = task.arrays["children"]
        differs, distance, parameters = np.zeros(len(children)), 0.0, 0.0
        for part, families in self._by_part(children):
            answer = part.site.answer(_about(task, families)).arrays
            differs[families] = answer["differing"]
            distance += float(answer["distance"])
            parameters += float(answer["parameters"])
        return deviations(self._columns, children, differs, distance, parameters)

    def _site_differences(self, task: Task) -> dict[str, np.ndarray]:
        children, terms = task.arrays["children"], task.arrays["terms"].astype(float)
        scores = np.zeros(len(children))
        for part, families in self._by_part(children):
            of_each = {"terms": np.eye(len(families), dtype=np.int8)}
            about = _about(task, families)
            answer = part.site.answer(replace(about, arrays={**about.arrays, **of_each})).arrays
            scores[families] = answer["site_first"] / self._rows
        found = spread_of_site(terms @ scores, self._rows)
        return found | self._unlike_others(found, children, terms)

    def _compare(self, task: Task) -> dict[str, np.ndarray]:
        """Compare graphs. Rows that say nothing about a variable have no difference in its families."""
        children, terms = task.arrays["children"], task.arrays["terms"].astype(float)
        chosen = evenly_spaced(self._rows, MOST_ROWS)
        scores, losses = np.zeros(len(children)), np.zeros((len(chosen), len(children)))
        more = {name: np.zeros(len(children)) for name in ("lines", "curves")}
        for part, families in self._by_part(children):
            share = len(part.rows) / self._rows
            of_part, of_rows, of_families = part.site.score_rows(_about(task, families))
            scores[families] = of_part * share
            places = np.searchsorted(part.rows, chosen)
            inside = np.isin(chosen, part.rows)
            # of many rows the part looks at some: each stands for those near it
            nearest = places[inside] * len(of_rows) // len(part.rows)
            losses[np.ix_(np.flatnonzero(inside), families)] = of_rows[nearest]
            for name, values in of_families.items():
                more[name][families] = values * share
        found = compare((scores, losses, more), terms, self._rows)
        unlike = self._unlike_others(found, children, terms)
        is_alike = unlike["alike_rows"] > 0
        by_models = {name: found[name] * is_alike for name in ("of_lines", "of_curves")}
        return found | unlike | by_models | {"by_design": found["difference"] * ~is_alike}

    def _unlike_others(self, found: Arrays, children: np.ndarray, terms: np.ndarray) -> dict[str, np.ndarray]:
        """Leave this site out of how sites vary where experiments make it differ from others."""
        is_alike = ~((terms != 0) & self._unlike_by_design[children]).any(axis=1)
        alike = {name: found[name] * is_alike for name in ("site_first", "site_second")}
        return alike | {"alike_rows": self._rows * is_alike.astype(float)}

    def _check(self, task: Task) -> dict[str, np.ndarray]:
        """Check the assumptions of each variable's regression on its rows, and all rows for copies and outliers."""
        dag = task.arrays["dag"]
        found = dict(self._all_rows.answer(replace(task, arrays={"dag": np.zeros_like(dag)})).arrays)
        found |= self._of_edges_never_set(task, "together", "together_rows")
        found |= self._all_rows.separations(dag, ~self._is_target)
        found["atoms"] = found["atoms"] * ~self._is_target  # what experiments set has few values by design
        found |= {name: np.zeros(len(dag)) for name in Dependence._fields}
        for part in self._parts:
            of_part = np.zeros_like(dag)
            of_part[:, part.variables] = dag[:, part.variables]
            answer = part.site.answer(replace(task, arrays={"dag": of_part}))
            for name in Dependence._fields:
                found[name][part.variables] = (answer.arrays[name] * self._shares)[part.variables]
        return found

    def _of_edges_never_set(self, task: Task, *names: str) -> dict[str, np.ndarray]:
        """Return what all rows say of edges between variables that no experiment here set; 0 for all others."""
        edges = np.argwhere(task.arrays["dag"])
        never_set = np.flatnonzero(~self._is_target)
        fitted = np.isin(edges[:, 1], never_set)
        told = fitted & np.isin(edges[:, 0], never_set)
        of_told = np.zeros_like(task.arrays["dag"])
        of_told[:, never_set] = task.arrays["dag"][:, never_set]
        answer = self._all_rows.answer(replace(task, arrays={**task.arrays, "dag": of_told}))
        found = {}
        for name in names:
            found[name] = np.zeros((len(edges), *answer.arrays[name].shape[1:]))
            found[name][told] = answer.arrays[name][told[fitted]]
        return found


def _about(task: Task, families: Int[np.ndarray, " family"]) -> Task:
    """Return the task about some of its families."""
    arrays = {name: task.arrays[name][families] for name in _PER_FAMILY if name in task.arrays}
    return replace(task, arrays={**task.arrays, **arrays})
