"""A site's part in the search. It keeps nothing between tasks but what it computed from its own rows.

This is all that ever touches a site's data, whichever engine carries the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from feddag.federation.protocol import Answer, Arrays, Stateless, Task, unknown_task
from feddag.learners.search import tasks
from feddag.learners.search.graph_fit import answer_graph_fit
from feddag.regression.agreement import Lines, SiteLines, caution
from feddag.regression.comparison import spread, spread_of_site
from feddag.regression.dependence import PairDependence, line_dependence
from feddag.regression.evidence import average_evidence
from feddag.regression.features import Features, Frame, level_counts
from feddag.regression.gram import triangle
from feddag.regression.imprecision import SHARES, explained_by_errors, separations
from feddag.regression.residual_checks import Dependence, has_atom, look_like_copies
from feddag.regression.residual_pairs import DEGREES, products
from feddag.regression.ties import spread_ties
from feddag.regression.views import Fits, View, bend
from feddag.silos import Silo
from feddag.silos.outliers import has_outliers

FamilyScores = tuple[Float[np.ndarray, " family"], Float[np.ndarray, "row family"], dict[str, np.ndarray]]
"""The joint evidence of families, the negative log-likelihood of rows, and more about each family.

That is the evidence of straight `lines` and of `curves` with normal noise.
"""


class FamilySite(Stateless):
    """The base of all sites of the search. Satisfies `feddag.federation.Site`."""

    methods: ClassVar[dict[str, str]]
    """The names of the methods that answer tasks, by the task's name."""

    def __init__(self, silo: Silo) -> None:
        self.name = silo.name
        self._columns = silo.columns
        self._values = silo.values
        self._sites = 1
        """How many sites the task is for."""

    def answer(self, task: Task) -> Answer:
        """Answer one of the tasks in `methods`, the number of rows, or how a graph fits."""
        self._sites = len(task.participants)
        if task.name == tasks.ROWS.name:
            return Answer(1.0, {"rows": np.array(float(len(self._values)))})
        if task.name == tasks.GRAPH_FIT.name:
            return answer_graph_fit(self, task, self._columns, len(self._values))
        if task.name not in self.methods:
            raise unknown_task(self.name, task, (tasks.ROWS.name, tasks.GRAPH_FIT.name, *self.methods))
        answer: Callable[[Arrays], dict[str, np.ndarray]] = getattr(self, self.methods[task.name])
        return Answer(float(len(self._values)), answer(task.arrays))


class OwnMechanisms(FamilySite):
    """A site whose mechanisms are its own or, where they are `common`, those of all sites.

    What leaves it is one number for each family, inside a sum.
    """

    methods: ClassVar = {
        tasks.NEIGHBOURHOODS.name: "_neighbourhoods",
        tasks.SCORES.name: "_scores",
        tasks.COMPARISONS.name: "_comparisons",
        tasks.DEPENDENCES.name: "_dependences",
        tasks.CHECKS.name: "_checks",
        tasks.IMPRECISION.name: "_imprecision",
    }

    def __init__(self, silo: Silo, *, equal_noise: bool, common: bool = False) -> None:
        super().__init__(silo)
        self._equal_noise = equal_noise
        self._common = self._predicts = common
        self._may_share = ~np.isin(silo.columns, silo.changed).astype(bool)
        """Of each variable whether this site may have its mechanism in common with others."""
        self._variances = silo.values.var(axis=0)
        self._levels = level_counts(silo.kinds)
        self._precisions = lru_cache(maxsize=1)(self._precisions_given)

    @cached_property
    def _caution(self) -> Float[np.ndarray, " node"]:
        return caution(self._values)

    @cached_property
    def _views(self) -> list[View]:
        """Return the ways to look at the rows: as they are and, unless noise has equal variance, bent."""
        plain = self._standardised
        if self._equal_noise:
            return [View(self._features(plain), predicts=self._predicts)]
        bent, spread = bend(plain, self._levels), spread_ties(plain, self._levels)
        bent_spread = None if spread is None else bend(spread, self._levels)
        return [
            View(self._features(plain), spread=spread, predicts=self._predicts),
            View(
                self._features(bent.values),
                (bent_spread or bent).log_slopes,
                spread=None if bent_spread is None else bent_spread.values,
            ),
        ]

    @cached_property
    def _standardised(self) -> Float[np.ndarray, "row node"]:
        return Frame.of(self._values.mean(axis=0), self._variances, self._levels).standardise(self._values)

    @cached_property
    def _own_lines(self) -> SiteLines:
        return SiteLines(self._standardised)

    def _features(self, values: Float[np.ndarray, "row node"]) -> Features:
        return Features(values)

    def _neighbourhoods(self, arrays: Arrays) -> dict[str, np.ndarray]:
        precisions = self._precisions(arrays["reference"].tobytes())
        plain, *bent = self._views
        children, parents = _families(arrays)
        scores = plain.neighbourhoods(children, parents, precisions)
        for view in bent:
            chosen = self._better_bent[children]
            both = scores[chosen], view.neighbourhoods(children[chosen], parents[chosen], precisions)
            scores[chosen] = average_evidence(np.stack(both), len(self._values))
        return {"scores": scores}

    @cached_property
    def _better_bent(self) -> Bool[np.ndarray, " node"]:
        """Say which variables all others explain better if columns are bent: quick regressions bend these."""
        plain, bent = (view.given_all_others() for view in self._views)
        return bent < plain

    def _scores(self, arrays: Arrays) -> dict[str, np.ndarray]:
        scores, fits = self._score(arrays)
        return {"scores": scores + self._saved(arrays, fits[0]) if self._common else scores}

    def _score(self, arrays: Arrays) -> tuple[Float[np.ndarray, " family"], list[Fits]]:
        """Score families by full regressions, and return the regressions of each view."""
        precisions = self._precisions(arrays["reference"].tobytes())
        fits = [view.fit(*_families(arrays), precisions) for view in self._views]
        return average_evidence(np.stack([each.scores for each in fits]), len(self._values)), fits

    def _saved(self, arrays: Arrays, fit: Fits) -> Float[np.ndarray, " family"]:
        """Return what a site saves if all sites have its mechanisms: as one of K it pays a K-th of their price.

        The rest of its rows are judged by how well all others predict them: the less, the longer their tails.
        """
        saved = (1 - 1 / self._sites) * (fit.predictive - fit.with_normal_noise)
        return self._may_share[arrays["children"]] * saved / self._caution[arrays["children"]]

    def _comparisons(self, arrays: Arrays) -> dict[str, np.ndarray]:
        return compare(self._with_rows(arrays), arrays["terms"].astype(float), len(self._values))

    def score_rows(self, task: Task) -> FamilyScores:
        """Score the families of a task, with every row's part in it; rows' parts must not leave the site."""
        return self._with_rows(task.arrays)

    def _with_rows(self, arrays: Arrays) -> FamilyScores:
        precisions = self._precisions(arrays["reference"].tobytes())
        scores, fits = self._score(arrays)
        children, parents = _families(arrays)
        best = np.argmin([each.scores for each in fits], axis=0)
        losses = np.empty(fits[0].residuals.shape)
        for k, (view, fit) in enumerate(zip(self._views, fits, strict=True)):
            some = np.flatnonzero(best == k)
            losses[:, some] = view.row_losses(children[some], parents[some], fit.residuals[:, some], precisions)
        saved = self._saved(arrays, fits[0]) if self._common else np.zeros(len(scores))
        lines = -self._own_lines.evidence(children, parents) / len(self._values)
        curves = lines if self._equal_noise else fits[0].with_normal_noise
        return scores + saved, losses, {"lines": lines + saved, "curves": curves + saved}

    def _dependences(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Say how far pairs of variables depend on each other given some others."""
        asked = zip(arrays["children"].tolist(), arrays["others"].tolist(), arrays["parents"], strict=True)
        found = [self._dependence(child, other, np.flatnonzero(given).tolist()) for child, other, given in asked]
        names = PairDependence._fields
        return dict(zip(names, np.array(found).reshape(-1, len(names)).T, strict=True))

    def _dependence(self, child: int, other: int, given: Sequence[int]) -> PairDependence:
        lines = self._views[0].features.lines
        return line_dependence(lines([child])[:, 0], lines([other]), lines(given))

    def _checks(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Check the assumptions of a graph's regressions, and look for copies and outliers."""
        nodes, rows = len(self._levels), len(self._values)
        numbers = np.flatnonzero(self._levels == 0)
        parents = arrays["dag"].T[numbers].astype(bool)
        precisions = self._precisions(arrays["dag"].tobytes())
        fits = [view.fit(numbers, parents, precisions) for view in self._views]
        best = np.argmin([each.scores for each in fits], axis=0)
        found = {name: np.zeros(nodes) for name in (*Dependence._fields, "outliers", "atoms")}
        residuals = np.empty(fits[0].residuals.shape)
        for k, (view, fit) in enumerate(zip(self._views, fits, strict=True)):
            chosen = np.flatnonzero(best == k)
            residuals[:, chosen] = view.scale(parents[chosen], fit.residuals[:, chosen])
            for node, each in zip(
                numbers[chosen], view.dependences(parents[chosen], residuals[:, chosen]), strict=True
            ):
                for name, share in each._asdict().items():
                    found[name][node] = share
        found |= self._together(arrays["dag"], residuals)
        found["variance"] *= rows  # so that the weighted mean tells the variance of a mean over sites
        for node in numbers:
            found["outliers"][node] = has_outliers(self._values[:, node])
            found["atoms"][node] = has_atom(self._values[:, node])
        found |= self.separations(arrays["dag"], np.ones(nodes, dtype=bool))
        copies = np.zeros((nodes, nodes))
        copies[tuple(numbers[look_like_copies(self._values[:, numbers])].T)] = 1
        return found | {"copies": copies[np.triu_indices(nodes, 1)]}

    def _together(self, dag: Int[np.ndarray, "node node"], residuals: Float[np.ndarray, "row number"]) -> Arrays:
        """Say for each edge between continuous variables how far their residuals go together."""
        edges, told, pairs = self._edges_between_numbers(dag)
        together = np.zeros((len(edges), DEGREES**2))
        if told.any():
            together[told] = products(residuals[:, pairs[:, 0]], residuals[:, pairs[:, 1]])
        return {"together": together, "together_rows": told.astype(float)}

    def separations(self, dag: Int[np.ndarray, "node node"], effects: Bool[np.ndarray, " node"]) -> Arrays:
        """Say how large errors of measurement seem, by what some effects have to do with others given their causes."""
        numbers = np.flatnonzero(self._levels == 0)
        return separations(self._values[:, numbers], numbers, dag, effects)._asdict()

    def _imprecision(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Say which edges errors of measurement would explain, unless all noise is assumed to be of one variance."""
        dag, numbers = arrays["dag"], np.flatnonzero(self._levels == 0)
        edges, told, pairs = self._edges_between_numbers(dag)
        imprecise = np.zeros((len(edges), len(SHARES)))
        if told.any() and not self._equal_noise:
            among, precise = dag[np.ix_(numbers, numbers)] > 0, arrays["precise"][numbers] > 0
            imprecise[told] = explained_by_errors(self._values[:, numbers], among, pairs, precise)
        return {"imprecise": imprecise}

    def _edges_between_numbers(
        self, dag: Int[np.ndarray, "node node"]
    ) -> tuple[Int[np.ndarray, "edge 2"], Bool[np.ndarray, " edge"], Int[np.ndarray, "told 2"]]:
        """Return all edges, which are between continuous variables, and these variables' numbers among such."""
        edges, numbers = np.argwhere(dag), np.flatnonzero(self._levels == 0)
        told = np.asarray(np.isin(edges, numbers).all(axis=1))
        return edges, told, np.searchsorted(numbers, edges[told])

    def _precisions_given(self, reference: bytes) -> Float[np.ndarray, " node"] | None:
        """Return each variable's variance over that of its noise, where the latter is the same for all variables.

        Without a reference graph the smallest variance of any variable stands for it: that of one without parents.
        With one it is the mean of what this graph leaves unexplained.
        """
        if not self._equal_noise:
            return None
        nodes = len(self._variances)
        graph = np.frombuffer(reference, dtype=np.uint8).reshape(-1, nodes).astype(bool)
        least = self._variances / self._variances.min()
        if not len(graph):
            return least
        (view,) = self._views
        left = view.fit(np.arange(nodes), graph.T, least).mean_squares
        return self._variances / (self._variances * left).mean()


class DifferingMechanisms(OwnMechanisms):
    """A site that may differ from the others in some mechanisms.

    Its common scores are those of columns in the frame of all sites, with the price of means and variances of its own,
    so that own mechanisms and common ones compare. What leaves it besides is how well rows predict each other, the
    covariances of its columns, and how it wishes common straight lines to move: all inside sums.
    """

    methods: ClassVar = OwnMechanisms.methods | {
        tasks.COMMON_SCORES.name: "_common_scores",
        tasks.COVARIANCES.name: "_covariances",
        tasks.PULLS.name: "_pulls",
        tasks.AGREEMENT.name: "_agreement",
        tasks.SITE_DIFFERENCES.name: "_site_differences",
    }

    def __init__(self, silo: Silo, *, common: bool) -> None:
        super().__init__(silo, equal_noise=False, common=common)
        self._predicts = True
        self._lines = lru_cache(maxsize=1)(self._lines_given)

    def answer(self, task: Task) -> Answer:
        """Answer a task of this class, or the common moments."""
        if task.name in (spec.name for spec in tasks.MOMENTS.specs):
            return tasks.MOMENTS.answer(self.name, task, self._values)
        if task.name == tasks.DEVIATIONS.name:
            return self._deviations(task.arrays)
        return super().answer(task)

    def _common_scores(self, arrays: Arrays) -> dict[str, np.ndarray]:
        scores, fits = self._score(arrays)
        levels = self._of_frame(arrays).levels()[arrays["children"]]
        return {"scores": scores + levels, "saved": self._saved(arrays, fits[0])}

    def _covariances(self, arrays: Arrays) -> dict[str, np.ndarray]:
        return {"covariances": triangle(self._of_frame(arrays).covariances)}

    def _pulls(self, arrays: Arrays) -> dict[str, np.ndarray]:
        centre = tasks.lines_of(arrays)
        pull = self._of_shared(arrays, self._of_frame(arrays).pull(arrays["children"], centre)._asdict())
        return pull | {"slopes": pull["slopes"][centre.parents]}

    def _agreement(self, arrays: Arrays) -> dict[str, np.ndarray]:
        found = self._of_frame(arrays).agreement(arrays["children"], tasks.lines_of(arrays))
        return self._of_shared(arrays, {name: each / len(self._values) for name, each in found._asdict().items()})

    def _of_shared(self, arrays: Arrays, found: Arrays) -> dict[str, np.ndarray]:
        """Say nothing of mechanisms that were changed here: they are this site's own, at no price for that."""
        shared = self._may_share[arrays["children"]].astype(float)
        return {name: (each.T * shared).T for name, each in found.items()}

    def _site_differences(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Compare graphs by this site's own scores and by what the accounts of common mechanisms add to them."""
        found = self._agreement(arrays)
        scores, fits = self._score(arrays)
        adds = np.column_stack([-found["some"], self._saved(arrays, fits[0]) - found["every"]])
        difference = arrays["terms"].astype(float) @ (scores + (arrays["accounts"] * adds).sum(axis=1))
        return spread_of_site(difference, len(self._values))

    def _deviations(self, arrays: Arrays) -> Answer:
        """Say in which families this site's rows do not follow the common lines, and tell its operator."""
        lines, centre, children = self._of_frame(arrays), tasks.lines_of(arrays), arrays["children"]
        may_share = self._may_share[children]
        differs = lines.differs(children, centre) & may_share
        follows = np.flatnonzero(may_share & ~differs).tolist()
        distance = sum(lines.distance(int(children[k]), Lines(*(each[k] for each in centre))) for k in follows)
        parameters = (centre.parents[follows].sum(axis=1) + 2).sum()
        return deviations(self._columns, children, differs.astype(float), float(distance), float(parameters))

    def _of_frame(self, arrays: Arrays) -> SiteLines:
        return self._lines(arrays["origin"].tobytes(), arrays["scale"].tobytes())

    def _lines_given(self, origin: bytes, scale: bytes) -> SiteLines:
        return SiteLines((self._values - np.frombuffer(origin)) / np.frombuffer(scale))


def compare(found: FamilyScores, terms: Float[np.ndarray, "comparison family"], rows: int) -> dict[str, np.ndarray]:
    """Return the differences of sums of scores, what tells how sure they are, and how much of them lines tell."""
    scores, losses, more = found
    differences = terms @ scores
    by_models = {f"of_{name}": terms @ more[name] for name in ("lines", "curves")}
    return {"difference": differences} | spread(differences, losses @ terms.T, rows) | by_models


def deviations(
    columns: Sequence[str],
    children: Int[np.ndarray, " family"],
    differs: Float[np.ndarray, " family"],
    distance: float,
    parameters: float,
) -> Answer:
    """Answer in which families a site differs, and tell its operator.

    Args:
        columns: The variables' names.
        children: The variables of the families.
        differs: Where the site surely differs.
        distance: Of all families in which it does not, how far its own lines are from common ones.
        parameters: The number of parameters of these lines: what the distance is by chance.
    """
    named = ", ".join(columns[int(child)] for child in children[differs > 0])
    count = float(differs.sum())
    notes = (f"this site differs from the others in how {named} comes about",) if named else ()
    totals = {"at_once": count * (count - 1) / 2, "distance": distance, "parameters": parameters}
    return Answer(1.0, {"differing": differs, **{name: np.array(total) for name, total in totals.items()}}, notes)


def _families(arrays: Arrays) -> tuple[Int[np.ndarray, " family"], Bool[np.ndarray, "family node"]]:
    return arrays["children"], arrays["parents"].astype(bool)
