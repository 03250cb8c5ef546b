"""What a site remembers of a table, over all studies: which sums it has entered, and how much of it has left.

Two studies on one table can be held against each other, so what protects a table cannot be kept with a study. A table
is known again by its columns: a column whose rows have the same order of size is the same, whatever its name or unit,
and whether it counts up or down.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from feddag.files import atomic_write
from feddag.silos import Silo

_TELLING_CHANGES = 9
"""A column whose value changes less often from row to row, such as a rare flag, may look alike in two tables."""
_COLUMNS = "columns.json"


def table_folder(tables: Path, silo: Silo) -> Path:
    """Return the folder that remembers a table, a new one if none of its columns was seen before."""
    tables.mkdir(parents=True, exist_ok=True, mode=0o700)
    columns = _fingerprints(silo)
    for path in sorted(tables.glob(f"*/{_COLUMNS}")):
        known = json.loads(path.read_bytes())
        if set(known) & set(columns):
            if not set(columns) <= set(known):
                _write(path, sorted({*known, *columns}))
            return path.parent
    folder = tables / columns[0][:16]
    folder.mkdir(exist_ok=True, mode=0o700)
    _write(folder / _COLUMNS, columns)
    return folder


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


def _write(path: Path, columns: list[str]) -> None:
    with atomic_write(path) as stream:
        json.dump(columns, stream)
