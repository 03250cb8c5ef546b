"""How many numbers about its own table a site has released in sums, over all studies of that table.

So many numbers as there are values could in principle be solved for the values, if the other sites' parts were known.
A site therefore counts every number that leaves it, on the disk and before it leaves, and ends where its policy says.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from feddag import constraints
from feddag.errors import FeddagError
from feddag.files import atomic_write, lock


class NumberBudget:
    """The numbers that have left one table, against the values that it holds.

    The file is that of the table, not that of a study: it spans restarts, and all studies of the same table. An answer
    is charged once, however often the same question gets the same answer.
    """

    def __init__(self, path: str | os.PathLike[str], *, values: int, limit: float | None) -> None:
        """Take up what was released before.

        Args:
            path: The file that keeps the count; its folder is made if it is not there.
            values: Rows times columns of the table.
            limit: The most numbers for each value; `None` counts without an end.
        """
        constraints.check({"values": values, "limit": limit}, _CONSTRAINTS)
        self._path = Path(path)
        self._values = values
        self._limit = limit
        self._charged = self._read()

    @property
    def numbers(self) -> int:
        """The numbers released so far."""
        return sum(self._charged.values())

    @property
    def per_value(self) -> float:
        """The numbers released so far, for each value."""
        return self.numbers / self._values

    def charge(self, answer_key: str, numbers: int) -> None:
        """Account for an answer of so many numbers, before it is given.

        Args:
            answer_key: A digest of the question and the answer.
            numbers: The entries of the answer.

        Raises:
            FeddagError: If the answer would go beyond the limit. Nothing is charged then.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("a") as stream:
            lock(stream, f"{self._path}: another process counts what leaves this table. Try again.")
            self._charged = self._read()  # another study of the same table may have charged meanwhile
            if answer_key not in self._charged:
                self._charge(answer_key, numbers)

    def _charge(self, answer_key: str, numbers: int) -> None:
        after = self._charged | {answer_key: numbers}
        if self._limit is not None and sum(after.values()) > self._limit * self._values:
            raise FeddagError(
                f"{self._path}: this answer has {numbers} numbers, and {self.numbers} have left the {self._values} "
                f"values of this table before: more than maximum_numbers_per_value = {self._limit:g} allows. End the "
                "study here, choose a method that asks for less, or change the rule at the site."
            )
        with atomic_write(self._path) as stream:
            json.dump({"charged": after}, stream)
        self._charged = after

    def _read(self) -> dict[str, int]:
        try:
            charged = json.loads(self._path.read_text(encoding="utf-8"))["charged"]
            if all(constraints.is_whole(count, 0) for count in charged.values()):
                return dict(charged)
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # as below
        raise FeddagError(
            f"{self._path} does not tell how many numbers have left this table: it was changed or damaged. "
            "Restore it from a backup; without it the site cannot tell what it may still release."
        )


_CONSTRAINTS = {"values": constraints.whole(1), "limit": constraints.positive | constraints.none}
