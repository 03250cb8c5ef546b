"""The server's view of scores: it asks sites for families in batches, and keeps every score."""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int8, UInt8

from feddag.federation.arrays import prefixed, under
from feddag.federation.protocol import Arrays
from feddag.federation.tasks import TaskSpec
from feddag.learners.bitsets import parents_of
from feddag.learners.search import tasks
from feddag.learners.search.checks import Checks
from feddag.learners.search.differences import Differences
from feddag.regression.comparison import errors_of_differences
from feddag.regression.dependence import deviations_from_chance
from feddag.silos.interventions import never_observed

Edge = tuple[int, int]
Family = tuple[int, int]
"""A child, and its parents as the bits of a number."""
Pair = tuple[int, int, int]
"""Two variables, and others that are given, as the bits of a number."""
Ask = Callable[[TaskSpec, Arrays], dict[str, np.ndarray]]
"""One round of the federation: a task's name and arrays go out, the mean over sites comes back."""

_ROUNDING = 1e-6
"""What a secure sum may add to a share."""
_NEIGHBOURHOODS_AT_ONCE = 1_000
_REGRESSED_ROWS_AT_ONCE = 300_000
"""Rows times families of a question for joint scores: more would take long without a word of progress."""
LEAST_GAIN = 1e-10
"""Differences of scores below this are rounding."""


def families_of(adjacency: Int8[np.ndarray, "node node"]) -> list[Family]:
    """List each variable with its parents, as bits."""
    return list(enumerate(parents_of(adjacency)))


class _Known(NamedTuple):
    """The scores under one reference graph."""

    neighbourhood: dict[Family, Float[np.ndarray, " node"]]
    joint: dict[Family, float]
    rough: dict[Family, float]


BY_CURVATURE, BY_INDEPENDENCE = "curvature", "independence"
BY_CHANGES, BY_INTERVENTIONS = "changes between sites", "interventions"
SOURCES = ("noise", BY_CURVATURE, BY_INDEPENDENCE, BY_CHANGES, BY_INTERVENTIONS)
"""What tells that one graph is better than another.

The shape or size of noise that is not normal; mechanisms that are no straight lines; which variables depend on which;
where sites differ; and what experiments set or changed.
"""


class Comparison(NamedTuple):
    """The differences of scores, per row, and their standard errors."""

    difference: Float[np.ndarray, " comparison"]
    row_error: Float[np.ndarray, " comparison"]
    """The standard error over rows: sure of an edge are those sites that have it."""
    error: Float[np.ndarray, " comparison"]
    """The standard error over sites or over rows, whichever is larger."""
    of_changes: Float[np.ndarray, " comparison"]
    """The part of the differences that is due to what sites have in common, and where they differ."""
    own_error: Float[np.ndarray, " comparison"]
    """The standard error, over sites or rows, of the rest: of what each site's own mechanisms say."""
    parts: Float[np.ndarray, "comparison source"]
    """The parts of the differences by what tells them (`SOURCES`)."""


class Scores(ABC):
    """Scores of families, each asked for once.

    `neighbourhood[family]` holds coarse scores: those of all families that differ from it by one parent, and in the
    child's own place that of the family itself. `joint[family]` is the family's joint score.
    """

    guesses: ClassVar[int] = 0
    """How many neighbourhoods to ask for in advance, in all, as they may be needed next; at least one per question."""
    additions: ClassVar[int] = sys.maxsize
    """Joint scores are asked of so many families with a further parent: those that coarse scores find best."""

    def __init__(self, nodes: int, ask: Ask, site_count: int) -> None:
        self.nodes = nodes
        self._known: list[_Known] = [_Known({}, {}, {})]
        self._current = 0
        self._reference: UInt8[np.ndarray, "reference node"] = np.zeros((0, nodes), np.uint8)
        """The graph that noise of equal variance is estimated with; no rows before there is one."""
        self._ask = ask
        self.sites = site_count
        """The number of sites."""
        self._rows: int | None = None
        self._discrete: list[int] = []
        self._targets: list[int] | None = None
        """The variables that experiments set somewhere; None where no site has experiments."""
        self._sites_alone = False
        """Whether what sites have in common counts no more."""
        self._differences: dict[str, Differences] = {}
        self._compared: dict[str, Comparison] = {}
        self._dependences: dict[str, Float[np.ndarray, " pair"]] = {}
        self._checked: dict[str, Checks] = {}
        self._votes: dict[str, dict[str, np.ndarray]] = {}
        self._under_way: dict[str, dict[str, np.ndarray]] = {}
        """Answers of what takes several rounds, until it is there."""

    @property
    def neighbourhood(self) -> dict[Family, Float[np.ndarray, " node"]]:
        """Return the coarse scores under the current reference graph."""
        return self._known[self._current].neighbourhood

    @property
    def joint(self) -> dict[Family, float]:
        """Return the joint scores under the current reference graph."""
        return self._known[self._current].joint

    @property
    def rough(self) -> dict[Family, float]:
        """Return joint scores, or what is nearly as good and takes few numbers."""
        return self.joint

    def ask_rough(self, families: Iterable[Family]) -> None:
        """Ask sites for such scores that are not known yet."""
        self.ask_joint(families)

    @property
    def families(self) -> int:
        """Count the families that were scored."""
        coarse = {id(each.neighbourhood): len(each.neighbourhood) for each in self._known}
        return sum(coarse.values()) * self.nodes + sum(len(each.joint) + len(each.rough) for each in self._known)

    @property
    def rows(self) -> int:
        """Return the number of rows of all sites."""
        if self._rows is None:
            answer = self._ask(tasks.ROWS, {})
            self._rows = round(float(answer["rows"]) * self.sites)
            self._discrete = np.flatnonzero(answer.get("discrete", np.zeros(self.nodes))).tolist()
            if "scored" in answer:
                scored = np.round(answer["scored"] * self.sites).astype(int)
                if not scored.all():
                    raise never_observed(f"number {int(scored.argmin()) + 1}", "of every site")
                self._targets = np.flatnonzero(np.round(answer["set"] * self.sites)).tolist()
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
        return bool(self.discrete) or self._sites_alone

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
        self._score_anew({})

    def _score_anew(self, neighbourhood: dict[Family, Float[np.ndarray, " node"]]) -> None:
        self._current += 1
        if self._current == len(self._known):
            self._known.append(_Known(neighbourhood, {}, {}))

    def leave_sites_alone(self) -> None:
        """Score each site's own mechanisms from now on: earlier joint scores do not hold any more."""
        self._sites_alone = True
        self._score_anew(self.neighbourhood)

    def misled(self, dag: Int8[np.ndarray, "node node"]) -> bool:
        """Say whether sites differ in other ways than those that tell directions."""
        del dag
        return False

    def differ_one_by_one(self, dag: Int8[np.ndarray, "node node"]) -> bool:
        """Say whether sites differ so that each change is evidence by itself."""
        del dag
        return False

    def differences(self, dag: Int8[np.ndarray, "node node"]) -> Differences:
        """Ask how sites differ in the mechanisms of a graph."""
        key = hashlib.sha256(dag.tobytes()).hexdigest()
        if key not in self._differences:
            self._differences[key] = self._ask_for_differences(dag)
        return self._differences[key]

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that sites have answered: a search that begins again with it soon stands where it stood."""
        arrays: dict[str, np.ndarray] = {}
        for k, known in enumerate(self._known):
            for kind, scores in known._asdict().items():
                found = self._as_arrays(list(scores)) | {"scores": np.array(list(scores.values()))}
                arrays |= prefixed(f"{k}/{kind}", found)
        for k, comparison in enumerate(self._compared.values()):
            arrays |= prefixed(f"compared/{k}", comparison._asdict())
        arrays |= prefixed("dependences", {str(k): each for k, each in enumerate(self._dependences.values())})
        for k, checks in enumerate(self._checked.values()):
            arrays |= prefixed(f"checked/{k}", checks._asdict())
        for k, differences in enumerate(self._differences.values()):
            arrays |= prefixed(f"differences/{k}", differences._asdict())
        for k, answer in enumerate(self._votes.values()):
            arrays |= prefixed(f"votes/{k}", answer)
        for k, answer in enumerate(self._under_way.values()):
            arrays |= prefixed(f"under way/{k}", answer)
        document = {
            "references": len(self._known),
            "under_way": list(self._under_way),
            "votes": list(self._votes),
            "differences": list(self._differences),
            "dependences": list(self._dependences),
            "rows": self._rows,
            "discrete": self._discrete,
        }
        document |= {"targets": self._targets, "compared": list(self._compared), "checked": list(self._checked)}
        return document, arrays

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take over a snapshot."""
        self._rows, self._discrete, self._targets = document["rows"], document["discrete"], document["targets"]
        self._compared = {
            key: Comparison(**under(f"compared/{k}", arrays)) for k, key in enumerate(document["compared"])
        }
        self._dependences = {key: arrays[f"dependences/{k}"] for k, key in enumerate(document["dependences"])}
        self._checked = {key: Checks(**under(f"checked/{k}", arrays)) for k, key in enumerate(document["checked"])}
        self._differences = {
            key: Differences(**under(f"differences/{k}", arrays)) for k, key in enumerate(document["differences"])
        }
        self._votes = {key: under(f"votes/{k}", arrays) for k, key in enumerate(document["votes"])}
        self._under_way = {key: under(f"under way/{k}", arrays) for k, key in enumerate(document["under_way"])}
        self._known = []
        for k in range(document["references"]):
            neighbourhood, *by_family = (
                dict(zip(families_from(under(f"{k}/{kind}", arrays)), arrays[f"{k}/{kind}/scores"], strict=True))
                for kind in _Known._fields
            )
            numbers = ({family: float(score) for family, score in scores.items()} for scores in by_family)
            self._known.append(_Known(neighbourhood, *numbers))

    def compare(self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]) -> Comparison:
        """Compare sums of joint scores, as `terms` say."""
        key = hashlib.sha256(repr(families).encode() + terms.tobytes()).hexdigest()
        if key not in self._compared:
            self._compared[key] = self._ask_to_compare(families, terms)
            self._under_way.clear()
        return self._compared[key]

    def dependences(self, pairs: Sequence[Pair]) -> Float[np.ndarray, " pair"]:
        """Return by how many standard deviations pairs depend on each other more than by chance."""
        if not pairs:
            return np.zeros(0)
        key = repr(pairs)
        if key not in self._dependences:
            self._dependences[key] = self._ask_for_dependences(pairs)
        return self._dependences[key]

    def check(self, dag: Int8[np.ndarray, "node node"]) -> Checks:
        """Check whether the assumptions of a graph's regressions hold."""
        key = hashlib.sha256(dag.tobytes()).hexdigest()
        if key not in self._checked:
            differences = self.differences(dag)
            asked = {"dag": dag.astype(np.uint8)}
            found = Checks.of(self._ask_once(tasks.CHECKS, asked), dag, self.rows)
            if dag.any():
                found = found.with_imprecision(
                    self._ask_once(tasks.IMPRECISION, asked | {"precise": found.precise.astype(np.uint8)}), dag
                )
            fit = self._ask(tasks.GRAPH_FIT, asked)
            standing = np.zeros(dag.shape)
            standing[tuple(np.argwhere(dag).T)] = self._count(fit["standing"])
            self._checked[key] = found._replace(
                differing=differences.evidence,
                sites_differing=differences.sites,
                vary_everywhere=np.array(float(differences.vary_everywhere)),
                come_together=np.array(float(differences.come_together(self.sites))),
                misfit=self._count(fit["misfit"]),
                standing=standing,
            )
            self._under_way.clear()
        return self._checked[key]

    def votes(self, dag: Int8[np.ndarray, "node node"]) -> dict[str, np.ndarray]:
        """Ask for which graphs near this one the sites' own rows speak."""
        key = hashlib.sha256(dag.tobytes()).hexdigest()
        if key not in self._votes:
            self._votes[key] = self._ask(tasks.VOTES, {"dag": dag.astype(np.uint8)})
        return self._votes[key]

    def _ask_for_differences(self, dag: Int8[np.ndarray, "node node"]) -> Differences:
        del dag
        return Differences.unknown(self.nodes)

    def _ask_for_dependences(self, pairs: Sequence[Pair]) -> Float[np.ndarray, " pair"]:
        return np.zeros(len(pairs))

    def _ask_once(self, task: TaskSpec, asked: Arrays) -> dict[str, np.ndarray]:
        """Ask sites, unless a search that was interrupted has done so."""
        parts = [task.name.encode(), *(asked[name].tobytes() for name in sorted(asked))]
        key = hashlib.sha256(b"".join(parts)).hexdigest()
        if key not in self._under_way:
            self._under_way[key] = self._ask(task, asked)
        return self._under_way[key]

    def _ask_in_parts(self, task: TaskSpec, asked: Arrays, at_once: int) -> dict[str, np.ndarray]:
        """Ask for something of each family, of some families at a time."""
        parts = []
        for start in range(0, len(asked["children"]), at_once):
            some = {name: asked[name][start : start + at_once] for name in ("children", "parents")}
            parts.append(self._ask_once(task, {**asked, **some}))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    @property
    def _regressions_at_once(self) -> int:
        return max(1, _REGRESSED_ROWS_AT_ONCE // self.rows)

    def _count(self, shares: Float[np.ndarray, " share"]) -> Float[np.ndarray, " share"]:
        """Return numbers of sites: a secure sum adds a little."""
        return np.round(shares * self.sites)

    @abstractmethod
    def _ask_to_compare(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]
    ) -> Comparison: ...

    @abstractmethod
    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]: ...

    @abstractmethod
    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]: ...

    def _as_arrays(self, families: Sequence[Family]) -> dict[str, np.ndarray]:
        return {
            "children": np.array([child for child, _ in families], dtype=np.int64),
            "parents": self._rows_of(parents for _, parents in families),
        }

    def _rows_of(self, sets: Iterable[int]) -> UInt8[np.ndarray, "family node"]:
        return as_rows(sets, self.nodes)


class OwnScores(Scores):
    """Every site has its own mechanisms and scores them itself: sums of one number per family."""

    guesses: ClassVar = 12  # a round costs more than so many
    additions: ClassVar = 9

    def _neighbourhoods(self, families: Sequence[Family]) -> Float[np.ndarray, "family node"]:
        answer = self._ask_in_parts(tasks.NEIGHBOURHOODS, self._task(families), _NEIGHBOURHOODS_AT_ONCE)
        self._under_way.clear()
        return answer["scores"]

    def _joint(self, families: Sequence[Family]) -> Iterator[tuple[Family, float]]:
        scores = self._ask_in_parts(tasks.SCORES, self._task(families), self._regressions_at_once)["scores"]
        self._under_way.clear()
        return zip(families, scores.tolist(), strict=True)

    def _ask_to_compare(self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]) -> Comparison:
        difference, answer = self._comparisons(families, terms)
        errors = errors_of_differences(answer, answer["site_mean"], self.rows, self.sites)
        over_sites = answer.get("error_over_sites", errors.over_sites)
        return Comparison(
            difference,
            errors.over_rows,
            np.maximum(errors.over_rows, over_sites),
            difference - answer["difference"],
            np.maximum(errors.over_rows, errors.over_sites),
            _parts(answer, difference - answer["difference"]),
        )

    def _ask_for_dependences(self, pairs: Sequence[Pair]) -> Float[np.ndarray, " pair"]:
        asked = self._as_arrays([(child, given) for child, _, given in pairs])
        answer = self._ask(tasks.DEPENDENCES, asked | {"others": np.array([other for _, other, _ in pairs])})
        return deviations_from_chance(answer["excess"], answer["variance"], answer["correlation"], self.rows)

    def _comparisons(
        self, families: Sequence[Family], terms: Int8[np.ndarray, "comparison family"]
    ) -> tuple[Float[np.ndarray, " comparison"], Arrays]:
        """Return the differences and the sites' mean answer, with `site_mean`: what sites vary around."""
        new = [family for family in families if family not in self.joint]
        if len(new) > self._regressions_at_once:
            self.ask_joint(new)  # in parts; sites remember these regressions
        answer = self._ask_once(tasks.COMPARISONS, self._task(families) | {"terms": terms})
        return answer["difference"], answer | {"site_mean": answer["difference"]}

    def _task(self, families: Sequence[Family]) -> dict[str, np.ndarray]:
        return self._as_arrays(families) | {"reference": self._reference}


def _parts(answer: Arrays, changes: Float[np.ndarray, " comparison"]) -> Float[np.ndarray, "comparison source"]:
    """Part differences by what tells them; how sites differ counts as experiments where these tell of the variables."""
    own, lines, curves = answer["difference"], answer["of_lines"], answer["of_curves"]
    design, site_rows = answer.get("by_design", np.zeros(len(own))), answer["site_rows"]
    is_set = answer.get("alike_rows", site_rows) < (1 - _ROUNDING) * site_rows
    rest = own - design
    interventions = design + changes * is_set
    return np.column_stack([rest - curves, curves - lines, lines, changes * ~is_set, interventions])


def as_rows(sets: Iterable[int], nodes: int) -> UInt8[np.ndarray, "family node"]:
    """Return sets of nodes, given as bits, as the rows of a matrix."""
    width = (nodes + 7) // 8
    packed = np.frombuffer(b"".join(each.to_bytes(width, "little") for each in sets), np.uint8)
    return np.unpackbits(packed.reshape(-1, width), axis=1, count=nodes, bitorder="little")


def families_from(arrays: Arrays) -> list[Family]:
    """List the families that arrays hold."""
    return list(zip(arrays["children"].tolist(), parents_of(arrays["parents"].T), strict=True))
