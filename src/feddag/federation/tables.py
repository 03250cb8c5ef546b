"""What a site remembers of a table, over all studies: which sums it has entered, and how much of it has left.

Two studies on one table can be held against each other, so what protects a table cannot be kept with a study. A table
is known again by its columns: a column whose rows have the same order of size is the same, whatever its name or unit,
and whether it counts up or down. It is also known by its rows: if most rows have the same values in two columns, it is
the same table, whatever their order, and though some rows are missing or new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt64

from feddag.errors import FeddagError
from feddag.federation.released_numbers import NumberBudget
from feddag.federation.rosters import RosterLedger, Split
from feddag.files import atomic_write
from feddag.silos import Silo

_TELLING_CHANGES = 9
"""A column whose value changes less often from row to row, such as a rare flag, may look alike in two tables."""
_TELLING_PAIRS = 0.9
"""The share of rows that must be unlike all others in two columns, for these to tell tables apart."""
_SKETCH = 64
"""How many rows of two columns are remembered: those with the smallest digests, the same in any order of the rows."""
_ALIKE = 0.5
"""The share of remembered rows by which a table is known again."""
_MOST_WORK = 2**28
"""Rows times pairs of columns that are looked at; with more, only columns near each other are paired."""
_COLUMNS, _ROWS, _EXPERIMENTS = "columns.json", "rows.json", "experiments.json"


class TableMemory:
    """All that a site remembers of one table; of several, if a study brings columns together that were apart before."""

    def __init__(
        self,
        tables: Path,
        silo: Silo,
        *,
        limit: float | None,
        minimum_cell: int,
        experiments: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Find what is remembered of a table, or begin.

        Args:
            tables: What the site remembers of all its tables.
            silo: The table.
            limit: The most numbers that may leave for each value; `None` counts without an end.
            minimum_cell: Refuse a table that differs from an earlier one by fewer rows.
            experiments: By variable, the sites whose experiments set or changed it: refuse others than before.
        """
        self.folders = table_folders(tables, silo)
        self._silo, self._minimum_cell = silo, minimum_cell
        self._experiments = {
            hashlib.sha256(_ranks(column).tobytes()).hexdigest(): sorted(experiments[name])
            for name, column in zip(silo.columns, silo.values.T, strict=True)
            if experiments
        }
        self._check_rows()
        self._check_experiments()
        self._rosters = [RosterLedger(folder / "rosters.json") for folder in self.folders]
        self._numbers = [
            NumberBudget(folder / "numbers.json", values=silo.values.size, limit=limit) for folder in self.folders
        ]

    @property
    def numbers(self) -> int:
        """How many numbers have left the table."""
        return max(budget.numbers for budget in self._numbers)

    @property
    def numbers_per_value(self) -> float:
        """How many numbers have left the table, for each of its values."""
        return max(budget.per_value for budget in self._numbers)

    def charge(self, answer: str, numbers: int) -> None:
        """Count the numbers of an answer before they leave; refuse them beyond the limit."""
        self._check_rows()  # another study of the same table may have begun meanwhile
        self._check_experiments()
        for folder in self.folders:
            known = _read_experiments(folder)
            if self._experiments.keys() - known.keys():
                _write(folder / _EXPERIMENTS, {**known, **self._experiments})
            rows = _read_rows(folder)
            if self._silo.rows not in rows["counts"]:
                _write(folder / _ROWS, {**rows, "counts": sorted({*rows["counts"], self._silo.rows})})
        for budget in self._numbers:
            budget.charge(answer, numbers)

    def _check_rows(self) -> None:
        """Refuse a table of which a few rows more or less have entered sums."""
        for count in {count for folder in self.folders for count in _read_rows(folder)["counts"]}:
            differing = abs(self._silo.rows - count)
            if 0 < differing < self._minimum_cell:
                raise FeddagError(
                    f"Site {self._silo.name!r}: the table has {self._silo.rows} rows in this study, and had {count} in "
                    f"an earlier one. Sums of both would tell about {differing} row{'s' * (differing > 1)} alone, and "
                    f"minimum_cell is {self._minimum_cell}. Take the same rows in all studies: keep one extract, and "
                    "leave out of it what lacks a value of any study's variables."
                )

    def _check_experiments(self) -> None:
        """Refuse a variable about which other sites say less than in an earlier study."""
        for folder in self.folders:
            for column, sites in _read_experiments(folder).items():
                now = self._experiments.get(column, sites)
                if now != sites:
                    raise FeddagError(
                        f"Site {self._silo.name!r}: in this study experiments set or changed a variable at "
                        f"{', '.join(now) or 'no site'}, and in an earlier one at {', '.join(sites) or 'no site'}. "
                        "Sums of both, held against each other, would tell about the sites that they differ in. Have "
                        "the study name the same experiments, or leave the variable out."
                    )

    def enter(
        self,
        site: str,
        answer: str,
        members: Collection[str],
        minimum_sites: int,
        others: Iterable[Collection[str]] = (),
        split: Split | None = None,
    ) -> None:
        """Remember that an answer enters a sum, as `RosterLedger.enter`."""
        known = [*others, *(roster for ledger in self._rosters for roster in ledger.read())]
        for ledger in self._rosters:
            ledger.enter(site, answer, members, minimum_sites, known, split)


def table_folders(tables: Path, silo: Silo) -> list[Path]:
    """Return the folders that remember a table, a new one if nothing of it was seen before."""
    tables.mkdir(parents=True, exist_ok=True, mode=0o700)
    columns, sketches = _fingerprints(silo), list(_sketches(silo.values))
    folders = []
    for path in sorted(tables.glob(f"*/{_COLUMNS}")):
        known, rows = json.loads(path.read_bytes()), _read_rows(path.parent)
        if set(known) & set(columns) or any(_is_alike(sketch, rows["sketch"]) for sketch in sketches):
            folders.append(path.parent)
            columns_now, sketch_now = {*known, *columns}, _joined(rows["sketch"], sketches)
            if columns_now != set(known):
                _write(path, sorted(columns_now))
            if sketch_now != rows["sketch"]:
                _write(path.parent / _ROWS, {**rows, "sketch": sketch_now})
    if folders:
        return folders
    folder = tables / columns[0][:16]
    folder.mkdir(exist_ok=True, mode=0o700)
    _write(folder / _COLUMNS, columns)
    _write(folder / _ROWS, {"counts": [], "sketch": _joined([], sketches)})
    return [folder]


def _fingerprints(silo: Silo) -> list[str]:
    """Return a digest of each column that tells tables apart; of all columns together, if none does."""
    ranks = [_ranks(column) for column in silo.values.T]
    telling = [rank for rank in ranks if np.count_nonzero(np.diff(rank)) >= _TELLING_CHANGES]
    return sorted({hashlib.sha256(rank.tobytes()).hexdigest() for rank in telling or [np.concatenate(ranks)]})


def _ranks(column: np.ndarray) -> np.ndarray:
    """Return the order of a column's rows by size, the same if the column is counted from the other end."""
    rank = np.unique(column, return_inverse=True)[1].astype("<i8")
    upside_down = rank.max(initial=0) - rank
    return min(rank, upside_down, key=lambda each: each.tobytes())


def _sketches(values: Float[np.ndarray, "row column"]) -> Iterator[list[int]]:
    """Yield the smallest digests of the rows of every two columns that tell tables apart."""
    rows, columns = values.shape
    digests = _mixed((values.T + 0.0).astype("<f8").view("<u8"))  # adding 0 turns -0 into 0
    farthest = max(1, _MOST_WORK // (rows * columns))
    for one, other in combinations(range(columns), 2):
        if other - one <= farthest:
            found = np.unique(_mixed(digests[one] + digests[other]))
            if len(found) >= _TELLING_PAIRS * rows:
                yield found[:_SKETCH].tolist()


def _mixed(words: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """Scatter words over all others (the last step of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _is_alike(sketch: Collection[int], known: Iterable[int]) -> bool:
    return len(set(sketch) & set(known)) >= _ALIKE * len(sketch)


def _joined(known: Iterable[int], sketches: Iterable[Iterable[int]]) -> list[int]:
    return sorted({*known, *(digest for sketch in sketches for digest in sketch)})


def _read_rows(folder: Path) -> dict[str, Any]:
    path = folder / _ROWS
    return json.loads(path.read_bytes()) if path.exists() else {"counts": [], "sketch": []}


def _read_experiments(folder: Path) -> dict[str, list[str]]:
    """Return by column the sites whose experiments set or changed it when numbers first left."""
    path = folder / _EXPERIMENTS
    return json.loads(path.read_bytes()) if path.exists() else {}


def _write(path: Path, content: Any) -> None:
    with atomic_write(path) as stream:
        json.dump(content, stream)
