"""Who may be in a sum, given who was in those before: no combination of sums may be about too few sites.

A server that has the sum of four sites and that of three of them knows what the fourth sent, and more such sums can be
combined in more ways. What counts is linear algebra: each sum is a row of zeros and ones over the sites, and whoever
has the sums has every combination of these rows. So a site refuses to enter a sum if a combination of it and of those
before would rest on fewer sites than its policy allows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.refusals import Refusal, RefusedError
from feddag.files import atomic_write, lock


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
    ) -> None:
        """Remember that an answer enters a sum; refuse a second sum for it, or one that leaves too few sites.

        Args:
            site: The site's name, for the message.
            answer: The digest of the answer.
            members: Whose answers the sum holds.
            minimum_sites: The fewest sites that any combination of sums may be about.
            others: The members of sums that are known, too, though this table may not be in them.
        """
        with open(self._path.with_suffix(".lock"), "wb") as guard:
            lock(guard, f"{self._path}: another study writes down a sum of this table. Try again.")
            self._load()  # another study may have added to it
            self._enter(site, answer, sorted(members), minimum_sites, [sorted(each) for each in others])

    def _enter(
        self, site: str, answer: str, roster: list[str], minimum_sites: int, others: Sequence[list[str]]
    ) -> None:
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
            _check(site, known, roster, minimum_sites)
            self.rosters.append(roster)
        self._answers[answer] = self.rosters.index(roster)
        with atomic_write(self._path) as stream:
            json.dump({"rosters": self.rosters, "answers": self._answers}, stream)


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
