"""A site of a study with experiments: each variable is scored on the rows in which nobody set it.

Such rows say nothing about the causes of a variable that was set, and all about what it causes. So a site keeps one
table for each set of rows that a variable is scored on, and asks each for the families of its variables. Scores are
means per row: that of a variable scored on m of n rows counts m/n, so that the mean over sites, weighted by rows,
is that over all rows which say something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from feddag.federation.protocol import Answer, Arrays, Stateless, Task, unknown_task
from feddag.learners.search import tasks
from feddag.learners.search.graph_fit import answer_graph_fit
from feddag.learners.search.sites import OwnMechanisms
from feddag.regression.comparison import spread
from feddag.regression.residual_checks import Dependence
from feddag.regression.views import MOST_ROWS, evenly_spaced
from feddag.silos import Silo
from feddag.silos.interventions import FEWEST_ROWS, scored_rows


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
        self._scored_rows = scored_rows(targets).sum(axis=0)
        self._shares = self._scored_rows / silo.rows
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
        if task.name == tasks.ROWS.name:
            answer = self._all_rows.answer(task)
            return replace(answer, arrays={**answer.arrays, "scored_rows": self._scored_rows.astype(float)})
        if task.name in (tasks.NEIGHBOURHOODS.name, tasks.SCORES.name):
            return Answer(float(self._rows), {"scores": self._scores(task)})
        if task.name == tasks.COMPARISONS.name:
            return Answer(float(self._rows), self._compare(task))
        if task.name == tasks.CHECKS.name:
            return Answer(float(self._rows), self._check(task))
        if task.name == tasks.IMPRECISION.name:
            return Answer(float(self._rows), self._of_edges_never_set(task, "imprecise"))
        if task.name == tasks.GRAPH_FIT.name:
            return answer_graph_fit(self, task, self._columns, self._rows)
        raise unknown_task(self.name, task, [tasks.ROWS.name, *OwnMechanisms.methods, tasks.GRAPH_FIT.name])

    def _scores(self, task: Task) -> Float[np.ndarray, "family ..."]:
        scored = "parents" if task.name == tasks.NEIGHBOURHOODS.name else "children"
        scores = np.zeros(task.arrays[scored].shape)
        for part in self._parts:
            families = np.flatnonzero(np.isin(task.arrays["children"], part.variables))
            if len(families):
                answer = part.site.answer(_about(task, families))
                scores[families] = answer.arrays["scores"] * (len(part.rows) / self._rows)
        return scores

    def _compare(self, task: Task) -> dict[str, np.ndarray]:
        """Compare graphs. Rows that say nothing about a variable have no difference in its families."""
        children, terms = task.arrays["children"], task.arrays["terms"].astype(float)
        chosen = evenly_spaced(self._rows, MOST_ROWS)
        scores, losses = np.zeros(len(children)), np.zeros((len(chosen), len(children)))
        more: dict[str, np.ndarray] = {}
        if "discrete" in self._all_rows.answer(replace(task, name=tasks.ROWS.name)).arrays:
            more = {name: np.zeros(len(children)) for name in tasks.OF_TABLES}
        for part in self._parts:
            families = np.flatnonzero(np.isin(children, part.variables))
            if not len(families):
                continue
            share = len(part.rows) / self._rows
            of_part, of_rows, of_tables = part.site.score_rows(_about(task, families))
            scores[families] = of_part * share
            places = np.searchsorted(part.rows, chosen)
            inside = np.isin(chosen, part.rows)
            # of many rows the part looks at some: each stands for those near it
            nearest = places[inside] * len(of_rows) // len(part.rows)
            losses[np.ix_(np.flatnonzero(inside), families)] = of_rows[nearest]
            for name, values in of_tables.items():
                more[name][families] = values * share
        differences = terms @ scores
        found = {"difference": differences} | spread(differences, losses @ terms.T, self._rows) | more
        return found | self._unlike_others(found, children, terms)

    def _unlike_others(self, found: Arrays, children: np.ndarray, terms: np.ndarray) -> dict[str, np.ndarray]:
        """Leave this site out of how sites vary where experiments make it differ from others."""
        is_alike = ~((terms != 0) & self._is_target[children]).any(axis=1)
        alike = {name: found[name] * is_alike for name in ("site_first", "site_second")}
        return alike | {"alike_rows": self._rows * is_alike.astype(float)}

    def _check(self, task: Task) -> dict[str, np.ndarray]:
        """Check the assumptions of each variable's regression on its rows, and all rows for copies and outliers."""
        dag = task.arrays["dag"]
        found = dict(self._all_rows.answer(replace(task, arrays={"dag": np.zeros_like(dag)})).arrays)
        found |= self._of_edges_never_set(task, "together", "together_rows")
        found |= self._all_rows.separations(dag, ~self._is_target)
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
        answer = self._all_rows.answer(replace(task, arrays={"dag": of_told}))
        found = {}
        for name in names:
            found[name] = np.zeros((len(edges), *answer.arrays[name].shape[1:]))
            found[name][told] = answer.arrays[name][told[fitted]]
        return found


def _about(task: Task, families: Int[np.ndarray, " family"]) -> Task:
    """Return the task about some of its families."""
    arrays = {name: task.arrays[name][families] for name in ("children", "parents")}
    return replace(task, arrays={**task.arrays, **arrays})
