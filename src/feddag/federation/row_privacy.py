"""Differential privacy of a row: what one release of sums may tell about one person, and what a table has spent.

A release is one vector of whole numbers, summed over all sites, to which every site adds its share of discrete Gaussian
noise. Under (ε, δ), whatever anyone concludes from the release is as likely, up to a factor of e^ε and but for a
probability of δ, had the person's rows not been there. All that is computed from it later costs nothing more.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.special import log_ndtr

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation.discrete_gaussian import log_distance_of_sum
from feddag.files import atomic_write, lock

TOLERANCE = 1 + 1e-9
"""By how much a sum may be above a limit that it was made for: rounding."""
_SAFE_SIDE = 1 + 1e-6
"""What calibrated noise is raised by: covers the rounding of σ to a whole number, and of the calibration itself."""
_WITNESS, _OF_SITE = "row-privacy-witness.json", "row-privacy-witness-of-site.json"
_FIRST = hashlib.sha256(b"feddag row privacy ledger").hexdigest()


@dataclass(frozen=True)
class RowPrivacy:
    """What a release may reveal of one person."""

    epsilon: float
    delta: float
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        constraints.check(vars(self), CONSTRAINTS)

    def __str__(self) -> str:
        several = "" if self.rows_per_person == 1 else f", {self.rows_per_person} rows per person"
        return f"ε={self.epsilon:g}, δ={self.delta:g}{several}"

    @property
    def multiplier(self) -> float:
        """The σ of the whole noise over what one person can change in the release, just large enough."""
        return multiplier_for(self.epsilon, self.delta)

    def part(self, share: float) -> RowPrivacy:
        """Return what one of several releases may reveal; with shares that add up to 1, all reveal this together."""
        if share == 1:
            return self
        return replace(self, epsilon=epsilon_for(self.multiplier / math.sqrt(share), self.delta))


CONSTRAINTS = {
    "epsilon": constraints.positive,
    "delta": constraints.number("a number in (0, 1)", lambda value: 0 < value < 1),
    "rows_per_person": constraints.whole(1),
}


def delta_of(epsilon: float, multiplier: float) -> float:
    """Return the δ of Gaussian noise at an ε (Balle and Wang, ICML 2018, theorem 8); the noise over the sensitivity."""
    half, slope = 0.5 / multiplier, epsilon * multiplier
    upper, lower = log_ndtr(half - slope), epsilon + log_ndtr(-half - slope)
    return max(0.0, float(-math.exp(upper) * math.expm1(lower - upper)))


def multiplier_for(epsilon: float, delta: float) -> float:
    """Return the least noise, over the sensitivity, that keeps a release within (ε, δ)."""
    return _least(lambda multiplier: multiplier > 0 and delta_of(epsilon, multiplier) <= delta) * _SAFE_SIDE


def epsilon_for(multiplier: float, delta: float) -> float:
    """Return the least ε at a δ that this noise, over the sensitivity, keeps."""
    return _least(lambda epsilon: delta_of(epsilon, multiplier) <= delta)


def _least(suffices: Callable[[float], bool]) -> float:
    """Return the least number that suffices, to the last digit and never below it; all larger ones do."""
    if suffices(0.0):
        return 0.0
    most = 1.0
    while not suffices(most):
        most *= 2
    least = 0.0
    while least < (middle := (least + most) / 2) < most:
        least, most = (least, middle) if suffices(middle) else (middle, most)
    return most


@dataclass(frozen=True)
class NoisePlan:
    """How the sites make the noise of one release together."""

    privacy: RowPrivacy
    sensitivity: int
    """The most that one row can change in the release, as a Euclidean length."""
    shares: int
    """How many sites' noise is enough."""
    numbers: int
    """The entries of the release."""

    @property
    def share_deviation(self) -> int:
        """The σ of one site's share, a whole number."""
        whole = self.privacy.multiplier * self.sensitivity * self.privacy.rows_per_person / math.sqrt(self.shares)
        return math.ceil(whole)

    @property
    def deviation(self) -> float:
        """The σ that protects: of the noise of `shares` sites."""
        return self.share_deviation * math.sqrt(self.shares)

    @property
    def claimed_delta(self) -> float:
        """The δ at the stated ε, with what the sum of shares differs from one discrete Gaussian."""
        of_noise = delta_of(self.privacy.epsilon, self.deviation / self.sensitivity / self.privacy.rows_per_person)
        distance = log_distance_of_sum(self.share_deviation, self.shares, self.numbers)
        return of_noise + (1 + math.exp(self.privacy.epsilon)) * math.exp(distance)


class RowLedger:
    """What all releases of one table have spent, over all studies, on the disk before a release leaves.

    Each entry carries the digest of the one before it, and the last digest is also kept by witnesses: files in other
    folders, such as that of the study. A ledger that is older than a witness was restored from a backup, and the site
    refuses to release anything more.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limit: RowPrivacy,
        witnesses: tuple[Path, ...],
        older_witnesses: Iterable[Path] = (),
        owner: str = "this table",
    ) -> None:
        """Take up what was spent before.

        Args:
            path: The ledger of the table.
            limit: The most that all releases together may reveal.
            witnesses: Files that remember the ledger's length and last digest.
            older_witnesses: Such files of earlier studies, which may be about this table or others.
            owner: Whose budget this is, in messages.
        """
        self._owner = owner
        self._path, self._limit, self._witnesses = Path(path), limit, witnesses
        self._table = self._path.parent.name
        self._all_witnesses = (*witnesses, *older_witnesses)
        self._entries = self._read()

    @property
    def releases(self) -> int:
        """How many releases were charged."""
        return len(self._entries)

    @property
    def head(self) -> str:
        """The digest of all entries."""
        return self._entries[-1]["digest"] if self._entries else _FIRST

    @property
    def words(self) -> str:
        """The ledger's state, for an audit log."""
        return f"ledger({self.releases} of this table, ε={self.spent(self._limit.delta):.4g}, {self.head[:16]})"

    def spent(self, delta: float) -> float:
        """Return the ε of all releases together at a δ."""
        return _together(self._entries, delta)

    def charge(self, release: str, study: str, privacy: RowPrivacy, share: float = 1.0) -> None:
        """Account for a release, before it leaves; once, however often the same noisy numbers are sent again.

        Args:
            release: A digest of the question and the noisy answer.
            study: The study's digest.
            privacy: What all releases of the study may reveal.
            share: The part of it that this release costs.

        Raises:
            FeddagError: If all releases together, with those of the study that are still to come, would go beyond the
                limit, or the ledger is not the newest one.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("a") as stream:
            lock(stream, f"{self._path}: another process charges this table's privacy budget. Try again.")
            self._entries = self._read()  # another study of the same table may have charged meanwhile
            if all(entry["release"] != release for entry in self._entries):
                self._charge(release, study, privacy, share)

    def _charge(self, release: str, study: str, privacy: RowPrivacy, share: float) -> None:
        entry: dict[str, Any] = {"release": release, "study": study, **vars(privacy.part(share)), "before": self.head}
        entry["digest"] = _digest(entry)
        after = [*self._entries, entry]
        limit = self._limit
        others = [each for each in self._entries if each["study"] != study]
        together = max(_together(each, limit.delta) for each in (after, [*others, vars(privacy)]))
        if together > limit.epsilon * TOLERANCE:
            raise FeddagError(
                f"{self._path}: a release within {privacy} does not fit the privacy budget of {self._owner}, "
                f"ε={limit.epsilon:g} at δ={limit.delta:g}: {self.releases} releases have spent "
                f"ε={self.spent(limit.delta):.4g}, and with it all would have spent ε={together:.4g}. Go on with what "
                "was released before, agree on a study with a smaller ε, or raise row_epsilon in the site's policy."
            )
        mark = {"table": self._table, "releases": len(after), "digest": entry["digest"]}
        for path in self._witnesses:  # first: a site that stops in between refuses, and does not forget
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, mark)
        _write(self._path, {"releases": after})
        self._entries = after

    def _read(self) -> list[dict[str, Any]]:
        entries = self._read_entries()
        for path in self._all_witnesses:
            mark = _read_json(path)
            if mark is None or mark.get("table", self._table) != self._table:
                continue
            known = mark.get("releases")
            if known not in range(1, len(entries) + 1) or entries[known - 1]["digest"] != mark.get("digest"):
                raise self._older(path, known, len(entries))
        return entries

    def _read_entries(self) -> list[dict[str, Any]]:
        content = _read_json(self._path)
        if content is None:
            return []
        try:
            entries, before = content["releases"], _FIRST
            for entry in entries:
                rest = {key: value for key, value in entry.items() if key != "digest"}
                RowPrivacy(entry["epsilon"], entry["delta"], entry["rows_per_person"])
                if entry["before"] != before or entry["digest"] != _digest(rest):
                    raise ValueError("an entry does not follow the one before it")
                before = entry["digest"]
            return list(entries)
        except (ValueError, KeyError, TypeError, AttributeError, FeddagError) as error:
            raise FeddagError(
                f"{self._path} does not tell what this table has spent of its privacy budget ({error}): it was changed "
                "or damaged. Restore the newest copy; without it the site releases nothing."
            ) from None

    def _older(self, witness: Path, known: Any, found: int) -> FeddagError:
        return FeddagError(
            f"{self._path} holds {found} releases, and {witness} knows of {known}: the ledger was restored from an "
            "older copy, or removed. What was released cannot be taken back: restore the newest copy of it. If there "
            "is none, this table has no privacy budget left to state."
        )


def row_ledgers(folder: Path, tables: Path, memories: Iterable[Path], site: str, limit: RowPrivacy) -> list[RowLedger]:
    """Return the site's ledger and those of the table, with witnesses beside them, in the study's folder and in others.

    A table is not known again once a study with narrower ranges has clamped it, or many rows have come and gone, but
    the people in it are the same. So a release has to fit into what the site has left of all its tables, too.

    Args:
        folder: What the site remembers of this study.
        tables: What it remembers of all its tables.
        memories: The folders of this table there.
        site: The site's name.
        limit: What the releases of each ledger may reveal together.
    """
    of_site = tables / "of-sites" / hashlib.sha256(site.encode()).hexdigest()[:16]
    kept = [(of_site, _OF_SITE, f"the site {site!r}"), *((memory, _WITNESS, "this table") for memory in memories)]
    return [
        RowLedger(
            place / "row-privacy.json",
            limit=limit,
            # the study's folder remembers the site's ledger and one of the table
            witnesses=(*([folder / name] if number <= 1 else []), place.parent / f"{place.name}-{name}"),
            older_witnesses=folder.parent.glob(f"*/{name}"),
            owner=owner,
        )
        for number, (place, name, owner) in enumerate(kept)
    ]


def _together(entries: Sequence[Mapping[str, Any]], delta: float) -> float:
    """Return the ε of several releases, each of which may have been chosen by what the others said.

    Together they reveal what one of the noise (Σ z⁻²)^(-1/2) does (Dong, Roth and Su, 2022, corollary 3.3).
    """
    precision = math.fsum(multiplier_for(entry["epsilon"], entry["delta"]) ** -2 for entry in entries)
    return epsilon_for(precision**-0.5, delta) if precision else 0.0


def _digest(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}


def _write(path: Path, content: Any) -> None:
    with atomic_write(path) as stream:
        json.dump(content, stream)
