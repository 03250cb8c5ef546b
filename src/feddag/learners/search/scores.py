"""The server's view of scores: it asks sites for families in batches, and keeps every score."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int8, UInt8

from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import TaskSpec
from feddag.learners.bitsets import members, parents_of
from feddag.learners.search import tasks
from feddag.learners.search.budget import NUMBERS_PER_VALUE, least_rows, most_summed_functions, numbers_for_gains
from feddag.learners.search.checks import Checks
from feddag.regression.comparison import errors_of_differences
from feddag.regression.evidence import LEAST_VARIANCE, CoarseEvidence, average_evidence, best_fit, coefficients
from feddag.regression.features import FUNCTIONS, LINEAR_WEIGHT
from feddag.regression.gram import centred_gram, from_triangle
from feddag.regression.tables import excess_fit
from feddag.regression.views import MOST_FURTHER
from feddag.silos.interventions import never_observed

Family = tuple[int, int]
"""A child, and its parents as the bits of a number."""
Ask = Callable[[TaskSpec, Arrays], dict[str, np.ndarray]]
"""One round of the federation: a task's name and arrays go out, the mean over sites comes back."""

LEAST_GAIN = 1e-10
"""Differences of scores below this are rounding."""


def families_of(adjacency: Int8[np.ndarray, "node node"]) -> list[Family]:
    """List each variable with its parents, as bits."""
    return list(enumerate(parents_of(adjacency)))


class _Known(NamedTuple):
    """The scores under one reference graph."""

    neighbourhood: dict[Family, Float[np.ndarray, " node"]]
    joint: dict[Family, float]


class Comparison(NamedTuple):
    """The differences of scores, per row, and their standard errors."""

    difference: Float[np.ndarray, " comparison"]
    row_error: Float[np.ndarray, " comparison"]
    """The standard error over rows: sure of an edge are those sites that have it."""
    error: Float[np.ndarray, " comparison"]
    """The standard error over sites or over rows, whichever is larger."""
    excess_fit: Float[np.ndarray, " comparison"]
    """Of discrete variables' tables: by how many standard deviations they fit better than larger ones do by chance."""


class Scores(ABC):
    """Scores of families, each asked for once.

    `neighbourhood[family]` holds coarse scores: those of all families that differ from it by one parent, and in the
    child's own place that of the family itself. `joint[family]` is the family's joint score.
    """

    guesses: ClassVar[int] = 0
    """How many neighbourhoods to ask for in advance, in all, as they may be needed next; at least one per question."""

    def __init__(self, nodes: int, ask: Ask, site_count: int) -> None:
        self.nodes = nodes
        self._known: list[_Known] = [_Known({}, {})]
        self._current = 0
        self._reference: UInt8[np.ndarray, "reference node"] = np.zeros((0, nodes), np.uint8)
        """The graph that noise of equal variance is estimated with; no rows before there is one."""
        self._ask = ask
        self._sites = site_count
        self._rows: int | None = None
        self._discrete: list[int] = []
        self._targets: list[int] | None = None
        """The variables that experiments set somewhere; None where no site has experiments."""
        self._compared: dict[str, Comparison] = {}
        self._checked: dict[str, Checks] = {}

    @property
    def neighbourhood(self) -> dict[Family, Float[np.ndarray, " node"]]:
        """Return the coarse scores under the current reference graph."""
        return self._known[self._current].neighbourhood

    @property
    def joint(self) -> dict[Family, float]:
        """Return the joint scores under the current reference graph."""
        return self._known[self._current].joint

    @property
    def families(self) -> int:
        """Count the families that were scored."""
        return sum(len(each.neighbourhood) * self.nodes + len(each.joint) for each in self._known)

    @property
    def rows(self) -> int:
        """Return the number of rows of all sites."""
        if self._rows is None:
            answer = self._ask(tasks.ROWS, {})
            self._rows = round(float(answer["rows"]) * self._sites)
            self._discrete = np.flatnonzero(answer.get("discrete", np.zeros(self.nodes))).tolist()
            if "scored_rows" in answer:
                scored = np.round(answer["scored_rows"] * self._sites).astype(int)
                if not scored.all():
                    raise never_observed(f"number {int(scored.argmin()) + 1}", "of every site")
                self._targets = np.flatnonzero(scored < self._rows).tolist()
        return self._rows

    @property
    def discrete(self) -> list[int]:
        """List the discrete variables."""
        return self._discrete if self.rows else []  # sites tell both at once

    @property
    def targets(self) -> list[int]:
        """List the variables that experiments set at some site."""
        return (self._targets or []) if self.rows else []

    @property
    def _scored_by_sites(self) -> bool:
        """Whether each site scores all families itself, whatever is shared."""
        return bool(self.discrete) or self._targets is not None

    def ask_neighbourhoods(self, families: Iterable[Family]) -> None:
        """Ask sites for neighbourhoods that are not known yet."""
        missing = [family for family in dict.fromkeys(families) if family not in self.neighbourhood]
        if missing:
            self.neighbourhood.update(zip(missing, self._neighbourhoods(missing), strict=True))

    def ask_joint(self, families: Iterable[Family]) -> None:
        """Ask sites for joint scores that are not known yet."""
        missing = [family for family in dict.fromkeys(families) if family not in self.joint]
        if missing:
            self.joint.update(self._joint(missing))

    def refer_to(self, graph: Int8[np.ndarray, "node node"]) -> None:
        """Estimate noise of equal variance with this graph: earlier scores do not hold any more."""
        self._reference = graph.astype(np.uint8)
        self._current += 1
        if self._current == len(self._known):
            self._known.append(_Known({}, {}))

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered: a search that begins again with it soon stands where it stood."""
        arrays: dict[str, np.ndarray] = {}
        for k, known in enumerate(self._known):
            for kind, scores in known._asdict().items():
                found = self._as_arrays(list(scores)) | {"scores": np.array(list(scores.values()))}
                arrays |= prefixed(f"{k}/{kind}", found)
        for k, comparison in enumerate(self._compared.values()):
            arrays |= prefixed(f"compared/{k}", comparison._asdict())
        for k, checks in enumerate(self._checked.values()):
            arrays |= prefixed(f"checked/{k}", checks._asdict())
        document = {"references": len(self._known), "rows": self._rows, "discrete": self._discrete}
        document |= {"targets": self._targets, "compared": list(self._compared), "checked": list(self._checked)}
        return document, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        self._rows, self._discrete, self._targets = document["rows"], document["discrete"], document["targets"]
        self._compared = {
            key: Comparison(**under(f"compared/{k}", arrays)) for k, key in enumerate(document["compared"])
        }
        self._checked = {key: Checks(**under(f"checked/{k}", arrays)) for k, key in enumerate(document["checked"])}
        self._known = []
        for k in range(document["references"]):
            neighbourhood, joint = (
                dict(zip(_families(under(f"{k}/{kind}", arrays)), arrays[f"{k}/{kind}/scores"], strict=True))
                for kind in _Known._fields
            )
            self._known.append(_Known(neighbourhood, {family: float(score) for family, score in joint.items()}))

    def compare(self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]) -> Comparison:
        """Compare sums of joint scores, as `terms` say."""
        key = hashlib.sha256(repr(families).encode() + terms.tobytes()).hexdigest()
        if key not in self._compared:
            self._compared[key] = self._ask_to_compare(families, terms)
        return self._compared[key]

    def check(self, dag: Int8[np.ndarray, "node node"]) -> Checks:
        """Check whether the assumptions of a graph's regressions hold."""
        key = hashlib.sha256(dag.tobytes()).hexdigest()
        if key not in self._checked:
            self._checked[key] = Checks.of(self._ask(tasks.CHECKS, {"dag": dag.astype(np.uint8)}), self.rows)
        return self._checked[key]

    def _ask_to_compare(self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]) -> Comparison:
        difference, answer = self._comparisons(families, terms)
        errors = errors_of_differences(answer, answer["site_mean"], self.rows, self._sites)
        fit, size = (self.rows * (terms @ answer.get(name, np.zeros(len(families)))) for name in tasks.OF_TABLES)
        return Comparison(difference, errors.over_rows, np.maximum(*errors), excess_fit(-fit, size))

    @abstractmethod
    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]: ...

    @abstractmethod
    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]: ...

    @abstractmethod
    def _comparisons(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]
    ) -> tuple[Float[np.ndarray, " comparison"], Arrays]:
        """Return the differences and the sites' mean answer, with `site_mean`: what sites vary around."""

    def _as_arrays(self, families: Sequence[Family]) -> dict[str, np.ndarray]:
        return {
            "children": np.array([child for child, _ in families], dtype=np.int64),
            "parents": self._rows_of(parents for _, parents in families),
        }

    def _rows_of(self, sets: Iterable[int]) -> UInt8[np.ndarray, "family node"]:
        width = (self.nodes + 7) // 8
        packed = np.frombuffer(b"".join(each.to_bytes(width, "little") for each in sets), np.uint8)
        return np.unpackbits(packed.reshape(-1, width), axis=1, count=self.nodes, bitorder="little")


class OwnScores(Scores):
    """Every site has its own mechanisms and scores them itself: sums of one number per family."""

    guesses: ClassVar = 12  # a round costs more than so many

    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        return self._ask(tasks.NEIGHBOURHOODS, self._task(families))["scores"]

    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]:
        scores = self._ask(tasks.SCORES, self._task(families))["scores"]
        return zip(families, scores.tolist(), strict=True)

    def _comparisons(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]
    ) -> tuple[Float[np.ndarray, " comparison"], Arrays]:
        answer = self._ask(tasks.COMPARISONS, self._task(families) | {"terms": terms})
        return answer["difference"], answer | {"site_mean": answer["difference"]}

    def _task(self, families: Sequence[Family]) -> dict[str, np.ndarray]:
        return self._as_arrays(families) | {"reference": self._reference}


class CommonScores(OwnScores):
    """Mechanisms are common to all sites, as far as the server can tell from few numbers.

    A family's evidence is averaged over two accounts of it. By one, the effects of its parents add up and are the same
    at all sites: one Gram matrix, of a few functions of each variable, tells that of every family. By the other, the
    parents act together in any way, and at each site in its own: that is one number per family, as in `OwnScores`.
    """

    guesses: ClassVar = 0

    def __init__(self, nodes: int, ask: Ask, site_count: int, *, equal_noise: bool, workers: int) -> None:
        super().__init__(nodes, ask, site_count)
        self._equal_noise = equal_noise
        self._workers = workers
        self._frame: dict[str, np.ndarray] | None = None
        self._gram: Float[np.ndarray, "feature feature"] | None = None
        self._precisions: Float[np.ndarray, " node"] | None = None
        self._gains: dict[Family, float] = {}
        """What models of the noise add to coarse scores."""

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered, and the common frame."""
        document, arrays = super().snapshot()
        gram = {} if self._gram is None else {"gram": self._gram}
        gains = self._as_arrays(list(self._gains)) | {"gains": np.array(list(self._gains.values()))}
        return document, arrays | prefixed("frame", self._frame or {}) | gram | prefixed("gains", gains)

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        super().restore(document, arrays)
        if frame := under("frame", arrays):
            self._set_frame(frame)
        self._gram = arrays.get("gram")
        gains = under("gains", arrays)
        self._gains = dict(zip(_families(gains), gains["gains"].tolist(), strict=True))

    def refer_to(self, graph: Int8[np.ndarray, "node node"]) -> None:
        """Estimate noise of equal variance with this graph."""
        super().refer_to(graph)
        variances = self._common_frame()["scale"] ** 2
        noise = [variances[family[0]] * self._additive(family)[1] for family in families_of(graph)]
        self._precisions = variances / np.mean(noise)

    def _common_frame(self) -> dict[str, np.ndarray]:
        """Return the mean and the deviation of all rows, with which every site standardises, and all rows' number."""
        frame = self._frame
        if frame is None:
            self._functions()  # refuses rows that are too few before anything else is asked
            mean, variance, _ = tasks.MOMENTS.ask(self._ask)
            frame = {"origin": mean, "scale": np.sqrt(variance), "rows": np.array(self.rows)}
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
            answer = self._ask(tasks.GRAM, self._common_frame() | {"functions": np.array(self._functions())})
            self._gram = centred_gram(answer["mean"], from_triangle(answer["second"]), self.rows)
        return self._gram

    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        if self._scored_by_sites:
            return super()._neighbourhoods(families)
        gram, asked = self._common_gram(), self._as_arrays(families)
        evidence = CoarseEvidence(gram, self.rows, self._precisions, self.nodes)
        parts = np.array_split(np.arange(len(families)), min(self._workers, len(families)))

        def score(part: np.ndarray) -> np.ndarray:
            return evidence.neighbourhoods(asked["children"][part], asked["parents"][part].astype(bool))

        with ThreadPoolExecutor(self._workers) as pool:
            scores = np.concatenate(list(pool.map(score, parts)))
        if not self._equal_noise:
            scores -= self._coarse_gains(families, scores)
        return scores

    def _coarse_gains(
        self, families: Sequence[Family], scores: Float[np.ndarray, "family node"]
    ) -> Float[np.ndarray, "family node"]:
        """Return what models of the noise add, asked of the sites where it may matter and as far as the budget goes."""
        near = [
            {node: (child, parents ^ 1 << node) for node in worth_a_look(child, parents, each)}
            for (child, parents), each in zip(families, scores, strict=True)
        ]
        wanted = dict.fromkeys([*families, *(family for each in near for family in each.values())])
        self._ask_gains([family for family in wanted if family not in self._gains])
        gains = np.empty(scores.shape)
        for k, family in enumerate(families):
            gains[k] = self._gains.get(family, 0.0)
            for node, other in near[k].items():
                gains[k, node] = self._gains.get(other, gains[k, node])
        return gains

    def _ask_gains(self, families: Sequence[Family]) -> None:
        left = numbers_for_gains(self.nodes, self._functions(), self.rows) - len(self._gains)
        families = families[:left] if self._sites > 1 else families
        if families:
            gains = self._ask(tasks.GAINS, self._task(families))["gains"]
            self._gains.update(zip(families, gains.tolist(), strict=True))

    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]:
        if self._scored_by_sites:
            yield from super()._joint(families)
            return
        answer = self._ask(tasks.SCORES_AND_GAINS, self._task(families))
        for family, own, gain in zip(families, answer["scores"].tolist(), answer["gains"].tolist(), strict=True):
            common = self._additive(family)[0] - gain
            yield family, float(average_evidence(np.array([common, own]), self.rows))

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
        difference = own if self._scored_by_sites else terms @ np.array([self.joint[family] for family in families])
        return difference, answer


def worth_a_look(child: int, parents: int, scores: Float[np.ndarray, " node"]) -> list[int]:
    """List the nodes of a neighbourhood of which models of noise look: its parents, and who would help most."""
    candidates = [node for node in range(len(scores)) if node != child and not parents >> node & 1]
    helpful = sorted((node for node in candidates if scores[node] <= scores[child]), key=lambda node: scores[node])
    return [*members(parents), *helpful[:MOST_FURTHER]]


def _families(arrays: Arrays) -> list[Family]:
    return list(zip(arrays["children"].tolist(), parents_of(arrays["parents"].T), strict=True))
