"""The server's view of scores where sites may have mechanisms in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float, Int8

from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.learners.bitsets import members
from feddag.learners.search import tasks
from feddag.learners.search.budget import NUMBERS_PER_VALUE, least_rows, most_summed_functions
from feddag.learners.search.scores import Ask, Family, OwnScores, families_of
from feddag.regression.agreement import PULLS, Lines, Pull, price
from feddag.regression.evidence import LEAST_VARIANCE, CoarseEvidence, average_evidence, best_fit, coefficients
from feddag.regression.features import FUNCTIONS, LINEAR_WEIGHT
from feddag.regression.gram import centred_gram, from_triangle


class CommonScores(OwnScores):
    """Mechanisms are common to all sites, as far as the server can tell from few numbers.

    A family's evidence is averaged over two accounts of it. By one, the effects of its parents add up and are the same
    at all sites: one Gram matrix, of a few functions of each variable, tells that of every family. By the other, the
    parents act together in any way, and at each site in its own: that is one number per family, as in `OwnScores`. Both
    are in the units of all sites' columns, and a mean and a variance of each site's own have their price, so that the
    data decide.
    """

    def __init__(self, nodes: int, ask: Ask, site_count: int, *, equal_noise: bool, workers: int) -> None:
        super().__init__(nodes, ask, site_count)
        self._equal_noise = equal_noise
        self._workers = workers
        self._frame: dict[str, np.ndarray] | None = None
        self._gram: Float[np.ndarray, "feature feature"] | None = None
        self._precisions: Float[np.ndarray, " node"] | None = None

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered, and the common frame."""
        document, arrays = super().snapshot()
        gram = {} if self._gram is None else {"gram": self._gram}
        return document, arrays | prefixed("frame", self._frame or {}) | gram

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        super().restore(document, arrays)
        if frame := under("frame", arrays):
            self._set_frame(frame)
        self._gram = arrays.get("gram")

    def refer_to(self, graph: Int8[np.ndarray, "node node"]) -> None:
        """Estimate noise of equal variance with this graph."""
        super().refer_to(graph)
        if not self._functions():
            return
        variances = self._common_frame()["scale"] ** 2
        noise = [variances[family[0]] * self._additive(family)[1] for family in families_of(graph)]
        self._precisions = variances / np.mean(noise)

    def _common_frame(self) -> dict[str, np.ndarray]:
        """Return the mean and the deviation of all rows, with which every site standardises."""
        frame = self._frame
        if frame is None:
            self._functions()  # refuses rows that are too few before anything else is asked
            mean, variance, _ = tasks.MOMENTS.ask(self._ask)
            frame = {"origin": mean, "scale": np.sqrt(variance)}
            self._set_frame(frame)
        return frame

    def _set_frame(self, frame: dict[str, np.ndarray]) -> None:
        self._frame = frame
        if self._equal_noise:
            variance = frame["scale"] ** 2
            self._precisions = variance / variance.min()

    def _functions(self) -> int:
        """Return how many functions of each variable sites sum, as many as their rows allow."""
        if self._sites == 1:  # of one alone nothing leaves
            return FUNCTIONS
        functions = most_summed_functions(self.nodes, self.rows)
        if not functions:
            raise FeddagError(
                f"With sharing='all', the sites release at most {NUMBERS_PER_VALUE:g} numbers for each value that they "
                "hold: more would tell about single rows. "
                f"{self.nodes} variables take {least_rows(self.nodes)} rows; there are {self.rows} at {self._sites} "
                "sites. Choose sharing='graph', or fewer variables."
            )
        return functions

    def _common_gram(self) -> Float[np.ndarray, "feature feature"]:
        if self._gram is None:
            size = {"rows": np.array(self.rows), "functions": np.array(self._functions())}
            answer = self._ask(tasks.GRAM, self._common_frame() | size)
            self._gram = centred_gram(answer["mean"], from_triangle(answer["second"]), self.rows)
        return self._gram

    def _in_frame(self, families: Sequence[Family]) -> dict[str, np.ndarray]:
        return self._task(families) | self._common_frame()

    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        if self.discrete:
            return super()._neighbourhoods(families)
        own = self._ask(tasks.COMMON_NEIGHBOURHOODS, self._in_frame(families))["scores"]
        if not self._functions():
            return own
        return average_evidence(np.stack([self._common_neighbourhoods(families), own]), self.rows)

    def _common_neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        gram, asked = self._common_gram(), self._as_arrays(families)
        evidence = CoarseEvidence(gram, self.rows, self._precisions, self.nodes)
        parts = np.array_split(np.arange(len(families)), min(self._workers, len(families)))

        def score(part: np.ndarray) -> np.ndarray:
            return evidence.neighbourhoods(asked["children"][part], asked["parents"][part].astype(bool))

        with ThreadPoolExecutor(self._workers) as pool:
            return np.concatenate(list(pool.map(score, parts)))

    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]:
        if self.discrete:
            return super()._joint(families)
        accounts = self._accounts(families)
        return zip(families, average_evidence(np.stack(accounts), self.rows).tolist(), strict=True)

    def _accounts(self, families: Sequence[Family]) -> list[Float[np.ndarray, " family"]]:
        """Return the scores of families by each account of them."""
        answer = self._ask(tasks.SCORES_AND_GAINS, self._in_frame(families))
        if not self._functions():
            return [answer["scores"]]
        common = np.array([self._additive(family)[0] for family in families])
        return [answer["scores"], common - answer["gains"]]

    def _additive(self, family: Family) -> tuple[float, float]:
        """Return the score of a family whose parents' effects add up, and the mean square that they leave."""
        (child, parents), gram, width = family, self._common_gram(), self._functions()
        columns = np.arange(len(gram)).reshape(self.nodes, width)
        chosen = columns[members(parents)]
        used = np.concatenate([chosen[:, 0], chosen[:, 1:].reshape(-1)])
        products, cross = gram[np.ix_(used, used)], gram[used, columns[child, 0]] / LINEAR_WEIGHT
        precision = None if self._precisions is None else float(self._precisions[child])
        fit = best_fit(products, cross, self.rows, self.rows, [len(chosen), len(used)], precision)
        weights, cross = coefficients(products, cross, fit), cross[: fit.size]
        explained = 2 * weights @ cross - weights @ products[: fit.size, : fit.size] @ weights
        return fit.score, max(float(1 - explained / self.rows), LEAST_VARIANCE)

    def _comparisons(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]
    ) -> tuple[Float[np.ndarray, " comparison"], Arrays]:
        self.ask_joint(families)
        own, answer = super()._comparisons(families, terms)
        difference = own if self.discrete else terms @ np.array([self.joint[family] for family in families])
        return difference, answer


class AutoScores(CommonScores):
    """The data decide, for each family, which sites have its mechanism in common.

    A third account is that of each site's own mechanisms, as far as they are not straight lines, times the evidence that
    sites have these lines in common (`regression.agreement`): this takes a few rounds more, in which sites move the
    common lines. If the rows are too few for the sums of `CommonScores`, that account is left out.
    """

    def __init__(self, nodes: int, ask: Ask, site_count: int, *, equal_noise: bool, workers: int) -> None:
        super().__init__(nodes, ask, site_count, equal_noise=equal_noise, workers=workers)
        self._spread: Float[np.ndarray, "node node"] | None = None

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered."""
        document, arrays = super().snapshot()
        return document, arrays if self._spread is None else arrays | {"spread": self._spread}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        super().restore(document, arrays)
        self._spread = arrays.get("spread")

    def _functions(self) -> int:
        return FUNCTIONS if self._sites == 1 else most_summed_functions(self.nodes, self.rows)

    def _accounts(self, families: Sequence[Family]) -> list[Float[np.ndarray, " family"]]:
        own, *common = super()._accounts(families)
        if self._sites == 1 or self._equal_noise:
            return [own, *common]
        return [own, *common, own - self._agreement(families)]

    def _agreement(self, families: Sequence[Family]) -> Float[np.ndarray, " family"]:
        """Return the evidence per row that sites have the straight lines of families in common."""
        asked = self._as_arrays(families) | {"reference": self._reference} | self._common_frame()
        if self._spread is None:
            self._spread = from_triangle(self._ask(tasks.COVARIANCES, self._common_frame())["covariances"])
        lines = Lines.none(asked["parents"].astype(bool))
        for _ in range(PULLS):
            answer = self._ask(tasks.PULLS, asked | _as_arrays(lines))
            slopes = np.zeros(lines.slopes.shape)
            slopes[lines.parents] = answer["slopes"]
            lines = Pull(**answer | {"slopes": slopes}).move(lines, self._spread)
        agreement = self._ask(tasks.AGREEMENT, asked | _as_arrays(lines))["agreement"]
        return agreement - price(lines, self.rows) / self.rows


def _as_arrays(lines: Lines) -> dict[str, np.ndarray]:
    return {name: array for name, array in lines._asdict().items() if name != "parents"}
