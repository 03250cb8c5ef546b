"""Results in a CSV file beside the benchmarks: each is kept as soon as it is there, and none is computed twice."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def seeds_of(text: str) -> list[int]:
    """Such as 2021-2025, or one seed."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


@dataclass(frozen=True)
class Store:
    """A file of rows; some of its columns, the first ones, tell which result a row is."""

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def path(self) -> Path:
        return Path(__file__).with_name(self.name)

    def rows(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        with self.path.open() as file:
            return list(csv.DictReader(file))

    def finished(self) -> set[tuple[str, ...]]:
        return {tuple(row[column] for column in self.keys) for row in self.rows()}

    def keep(self, row: dict[str, Any]) -> None:
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, (*self.keys, *self.values), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
