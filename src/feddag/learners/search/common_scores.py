"""The server's view of scores where sites may have mechanisms in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int8
from scipy.special import softmax

from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.learners.search import tasks
from feddag.learners.search.differences import Differences
from feddag.learners.search.scores import Family, OwnScores, families_of
from feddag.regression.agreement import PULLS, Agreement, Lines, Pull, price
from feddag.regression.comparison import error_over_sites
from feddag.regression.evidence import average_evidence
from feddag.regression.gram import from_triangle


class CommonScores(OwnScores):
    """Each site scores families as one of many that have all mechanisms in common: sums of one number per family.

    Whether they do is asked of the graph that is found.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._frame: dict[str, np.ndarray] = {}
        """The mean and the deviation of all rows, with which every site standardises."""
        self._covariances: Float[np.ndarray, "node node"] = np.zeros((0, 0))

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered."""
        document, arrays = super().snapshot()
        arrays |= prefixed("frame", self._frame) | {"covariances": self._covariances}
        return document, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        super().restore(document, arrays)
        self._frame, self._covariances = under("frame", arrays), arrays["covariances"]

    def _common_frame(self) -> dict[str, np.ndarray]:
        if not self._frame:
            mean, variance, _ = tasks.MOMENTS.ask(self._ask)
            self._frame = {"origin": mean, "scale": np.sqrt(variance)}
        if not len(self._covariances):
            self._covariances = from_triangle(self._ask(tasks.COVARIANCES, self._frame)["covariances"])
        return self._frame

    def _ask_for_differences(self, dag: Int8[np.ndarray, "node node"]) -> Differences:
        if self.discrete or self.sites == 1:
            return super()._ask_for_differences(dag)
        asked = self._task(families_of(dag)) | self._common_frame()
        lines = self._lines(asked)
        found = self._agreement(asked, lines)
        answer = self._ask_once(tasks.DEVIATIONS, {**asked, **_as_arrays(lines)})
        self._under_way.clear()
        totals = {name: self.sites * answer[name] for name in ("at_once", "distance", "parameters")}
        evidence = self.rows * (found.some - found.every)
        return Differences(evidence, self._count(answer["differing"]), **totals)

    def _lines(self, asked: Arrays) -> Lines:
        """Return the straight lines that most sites have in common: sites pull them towards their own."""
        lines = Lines.of_all(asked["children"], asked["parents"].astype(bool), self._covariances)
        for _ in range(PULLS):
            answer = self._ask_once(tasks.PULLS, {**asked, **_as_arrays(lines)})
            slopes = np.zeros(lines.slopes.shape)
            slopes[lines.parents] = answer["slopes"]
            lines = Pull(**answer | {"slopes": slopes}).move(lines, self._covariances)
        return lines

    def _agreement(self, asked: Arrays, lines: Lines) -> Agreement:
        """Return the evidence per row that sites have the straight lines of families in common."""
        answer = self._ask_once(tasks.AGREEMENT, {**asked, **_as_arrays(lines)})
        paid = price(lines, self.rows) / self.rows
        return Agreement(answer["some"] - paid, answer["every"] - paid)


class AutoScores(CommonScores):
    """The data decide what sites have in common: a family's evidence is averaged over three accounts of its mechanism.

    By one, each site has its own. By another, sites have a straight line in common, or not, each site as its rows say
    (`regression.agreement`), and the rest is each site's own. By the third, all sites have all in common: then
    they have the line in common, too. The last two take a few rounds more, in which sites move the common line.
    """

    def misled(self, dag: Int8[np.ndarray, "node node"]) -> bool:
        """Say whether sites differ everywhere, or in many mechanisms at once: then these tell no direction."""
        found = self.differences(dag)
        return not self._scored_by_sites and (found.vary_everywhere or found.come_together(self.sites))

    def differ_one_by_one(self, dag: Int8[np.ndarray, "node node"]) -> bool:
        """Say whether many sites differ, and each in one mechanism alone."""
        return not self._scored_by_sites and self.differences(dag).one_by_one

    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        if not self._scored_by_sites:
            self._common_frame()  # the units of all that follows are settled first
        return super()._neighbourhoods(families)

    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]:
        if self._scored_by_sites:
            return super()._joint(families)
        found, _ = self._accounts(self._task(families) | self._common_frame())
        self._under_way.clear()
        return zip(families, average_evidence(found, self.rows).tolist(), strict=True)

    @property
    def rough(self) -> dict[Family, float]:
        """Return scores that do not ask how well sites' lines agree, which takes many numbers."""
        return self.joint if self._scored_by_sites else self._known[self._current].rough

    def ask_rough(self, families: Iterable[Family]) -> None:
        """Ask sites for such scores that are not known yet."""
        if self._scored_by_sites:
            return self.ask_joint(families)
        missing = [family for family in dict.fromkeys(families) if family not in self.rough]
        if missing:
            asked = self._task(missing) | self._common_frame()
            answer = self._ask_in_parts(tasks.COMMON_SCORES, asked, self._regressions_at_once)
            accounts = np.stack([answer["scores"], answer["scores"] + answer["saved"]])
            self.rough.update(zip(missing, average_evidence(accounts, self.rows).tolist(), strict=True))
            self._under_way.clear()
        return None

    def _accounts(self, asked: Arrays) -> tuple[Float[np.ndarray, "account family"], Lines]:
        """Return the scores of families by each of the three accounts, and the lines that sites have in common."""
        answer = self._ask_in_parts(tasks.COMMON_SCORES, asked, self._regressions_at_once)
        lines = self._lines(asked)
        agreement = self._agreement(asked, lines)
        own = answer["scores"]
        common = own + answer["saved"] - np.minimum(agreement.every, 0.0)
        return np.stack([own, own - agreement.some, common]), lines

    def _comparisons(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]
    ) -> tuple[Float[np.ndarray, " comparison"], Arrays]:
        if self._scored_by_sites:
            return super()._comparisons(families, terms)
        asked = self._task(families) | self._common_frame()
        accounts, lines = self._accounts(asked)  # in parts; sites remember these regressions
        answer = self._ask_once(tasks.COMPARISONS, self._task(families) | {"terms": terms})
        weights = softmax(-self.rows * accounts, axis=0)[1:].T
        of_sites = self._ask(
            tasks.SITE_DIFFERENCES, {**asked, **_as_arrays(lines), "accounts": weights, "terms": terms}
        )
        error = error_over_sites(of_sites, self.rows, self.sites)
        told = {**answer, "site_mean": answer["difference"], "error_over_sites": error}
        return terms @ average_evidence(accounts, self.rows), told


def _as_arrays(lines: Lines) -> dict[str, np.ndarray]:
    return {name: array for name, array in lines._asdict().items() if name != "parents"}
