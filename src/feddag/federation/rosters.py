"""Who may be in a sum, given who was in those before: no combination of sums may be about too few sites.

A server that has the sum of four sites and that of three of them knows what the fourth sent, and more such sums can be
combined in more ways. What counts is linear algebra: each sum is a row of zeros and ones over the sites, and whoever
has the sums has every combination of these rows. So a site refuses to enter a sum if a combination of it and of those
before would rest on fewer sites than its policy allows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.refusals import Refusal, RefusedError
from feddag.files import atomic_write, lock


class Split(NamedTuple):
    """Two groups that the members of a sum fall into: the sum is about one of them alone."""

    key: str
    """A digest of what makes the groups."""
    sizes: tuple[int, int]


def fewest_sites(
    rosters: Iterable[Collection[str]], sites: Sequence[str] | None = None, most: int | None = None
) -> int:
    """Return the fewest sites that a combination of sums can be about.

    Args:
        rosters: The members of each sum.
        sites: All sites; those that the rosters name, if left out.
        most: Look no further than for so few: the result is at most one more.

    Examples:
        >>> fewest_sites([{"a", "b", "c", "d"}, {"a", "b", "c"}])
        1
    """
    distinct = {frozenset(roster) for roster in rosters if roster}
    names = sorted(sites if sites is not None else set().union(*distinct))
    if len(distinct) < 2:
        return len(next(iter(distinct), names))
    matrix = np.array([[name in roster for name in names] for roster in distinct], dtype=float)
    # sites that were in the same sums are in the same combinations: many sites make few groups
    groups, sizes = np.unique(matrix, axis=1, return_counts=True)
    rank = np.linalg.matrix_rank(groups)
    fewest = min(map(len, distinct))
    for chosen in _of_at_most(sizes.tolist(), min(fewest - 1, most or fewest)):
        about = sum(sizes[place] for place in chosen)
        if about < fewest and np.linalg.matrix_rank(np.delete(groups, chosen, axis=1)) < rank:
            fewest = int(about)
    return fewest if most is None else min(fewest, most + 1)


def _of_at_most(sizes: Sequence[int], most: int, start: int = 0) -> Iterator[list[int]]:
    """Yield the places of all selections of sizes whose sum is not above a number."""
    for place in range(start, len(sizes)):
        if sizes[place] <= most:
            yield [place]
            yield from ([place, *others] for others in _of_at_most(sizes, most - sizes[place], place + 1))


class RosterLedger:
    """All sums that one table has entered, over every study: a file, which is on the disk before the site speaks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers: dict[str, int] = {}
        """By the digest of an answer: the place of its roster."""
        self.rosters: list[list[str]] = []
        """The distinct member sets so far."""
        self._split: tuple[list[str], Split] | None = None
        """The members whose groups were summed, and the groups."""
        self._load()

    def read(self) -> list[list[str]]:
        """Return the member sets that are on the disk by now."""
        self._load()
        return self.rosters

    def _load(self) -> None:
        """Read what is on the disk: what could not be written there was never promised."""
        try:
            content = json.loads(self._path.read_bytes()) if self._path.exists() else {"rosters": [], "answers": {}}
            self.rosters = [list(map(str, roster)) for roster in content["rosters"]]
            self._answers = {str(answer): int(place) for answer, place in content["answers"].items()}
            self._split = _read_split(content["split"]) if "split" in content else None
            if not all(0 <= place < len(self.rosters) for place in self._answers.values()):
                raise ValueError("an answer has a roster that is not there")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FeddagError(
                f"{self._path} does not say which sums this table has entered ({error}). Restore it from a copy."
            ) from None

    def enter(
        self,
        site: str,
        answer: str,
        members: Collection[str],
        minimum_sites: int,
        others: Iterable[Collection[str]] = (),
        split: Split | None = None,
    ) -> None:
        """Remember that an answer enters a sum; refuse a second sum for it, or one that leaves too few sites.

        Args:
            site: The site's name, for the message.
            answer: The digest of the answer.
            members: Whose answers the sum holds.
            minimum_sites: The fewest sites that any combination of sums may be about.
            others: The members of sums that are known, too, though this table may not be in them.
            split: The groups of members, where the sum is about one of them alone.
        """
        with open(self._path.with_suffix(".lock"), "wb") as guard:
            lock(guard, f"{self._path}: another study writes down a sum of this table. Try again.")
            self._load()  # another study may have added to it
            self._enter(site, answer, sorted(members), minimum_sites, [sorted(each) for each in others], split)

    def _enter(
        self,
        site: str,
        answer: str,
        roster: list[str],
        minimum_sites: int,
        others: Sequence[list[str]],
        split: Split | None,
    ) -> None:
        splits = [each for each in (self._split, None if split is None else (roster, split)) if each is not None]
        if minimum_sites > 1:
            _check_splits(site, splits, [*self.rosters, *others, roster], minimum_sites)
        place = self._answers.get(answer)
        if place is not None:
            if self.rosters[place] == roster:
                return
            raise RefusedError(
                Refusal.ROSTER,
                f"Site {site!r}: this answer has entered a sum of {', '.join(self.rosters[place])}, and shall enter "
                f"one of {', '.join(roster)}. One answer enters one sum. Go on with the same sites.",
            )
        if roster not in self.rosters:
            known = [*self.rosters, *(each for each in others if each not in self.rosters)]
            _check(site, [*known, *(group for each in splits for group in _groups_like(*each))], roster, minimum_sites)
            self.rosters.append(roster)
        self._answers[answer] = self.rosters.index(roster)
        self._split = splits[-1] if splits else None
        with atomic_write(self._path) as stream:
            json.dump({"rosters": self.rosters, "answers": self._answers} | _written(self._split), stream)


def _written(split: tuple[list[str], Split] | None) -> dict[str, dict[str, object]]:
    return {} if split is None else {"split": {"members": split[0], **split[1]._asdict()}}


def _read_split(content: Mapping[str, Any]) -> tuple[list[str], Split]:
    one, other = map(int, content["sizes"])
    return list(map(str, content["members"])), Split(str(content["key"]), (one, other))


def _groups_like(members: Sequence[str], split: Split) -> tuple[list[str], list[str]]:
    """Return groups of the sizes of a split: who is in which makes no difference if all other sums hold all or none."""
    return list(members[: split.sizes[0]]), list(members[split.sizes[0] :])


def _check_splits(
    site: str, splits: Sequence[tuple[list[str], Split]], rosters: Iterable[list[str]], minimum_sites: int
) -> None:
    """Refuse groups that are too small, two ways to fall apart, and sums of some of those who fell apart."""
    fewest = min((size for _, split in splits for size in split.sizes), default=minimum_sites)
    if fewest < minimum_sites:
        raise RefusedError(
            Refusal.ROSTER,
            f"Site {site!r}: a group of {fewest} sites is to be summed, and {minimum_sites} are the fewest that are "
            "allowed. Learn with groups = 1.",
        )
    if len({(*members, split.key) for members, split in splits}) > 1:
        raise RefusedError(
            Refusal.ROSTER,
            f"Site {site!r}: the sites of an earlier study fell into two groups, and this one's fall into others. Sums "
            "of both would tell about the sites that change from group to group. Learn with groups = 1.",
        )
    for members, _ in splits:
        if any(0 < len(set(members) & set(roster)) < len(members) for roster in rosters):
            raise RefusedError(
                Refusal.ROSTER,
                f"Site {site!r}: {', '.join(members)} fall into two groups, and a sum holds some of them alone. "
                "Together with the groups' sums it would tell about fewer sites than allowed. Learn with groups = 1, "
                "or with all of them.",
            )


def _check(site: str, known: Sequence[list[str]], roster: list[str], minimum_sites: int) -> None:
    fewest = fewest_sites([*known, roster], most=minimum_sites - 1) if minimum_sites > 1 else 1
    if fewest < minimum_sites:
        before = "; ".join(", ".join(each) for each in known)
        raise RefusedError(
            Refusal.ROSTER,
            f"Site {site!r}: there are sums of: {before}. Together with one of {', '.join(roster)} they would tell "
            f"about {fewest} site{'s' * (fewest > 1)} alone, and {minimum_sites} are the fewest that are allowed. Wait "
            "until the sites of an earlier sum are there again.",
        )
