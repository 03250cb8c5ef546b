"""A table is known again by what its columns say, whatever they are called; other tables are not taken for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from feddag import FeddagError
from feddag.federation.tables import TableMemory, table_folders
from feddag.silos import Silo


def table_folder(tables: Path, table: Silo) -> Path:
    """Return the one folder that remembers a table."""
    (folder,) = table_folders(tables, table)
    return folder


def silo(values: np.ndarray, name: str = "east") -> Silo:
    return Silo(name, tuple(f"x{k}" for k in range(values.shape[1])), values)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tables"


VALUES = np.random.default_rng(1).normal(size=(60, 4))
COUNTS = np.random.default_rng(2).integers(0, 4, size=(60, 3)).astype(float)
FLAGS = np.repeat([[0, 0, 1], [0, 1, 0], [1, 1, 0]], 20, axis=0).astype(float)
"""No column changes often enough to be known by."""


@pytest.mark.parametrize(
    "again",
    [
        VALUES,
        VALUES * [1000.0, 0.001, 2.0, 7.0] + [0, 273.15, -1, 5],
        -VALUES,
        np.exp(VALUES),
        VALUES.round(6),
        VALUES[:, ::-1],
        VALUES[:, 2:3],
        np.column_stack([np.random.default_rng(3).normal(size=60), VALUES[:, 1]]),
        VALUES[:-1],
        np.vstack([VALUES, VALUES[:1]]),
        np.random.default_rng(5).permutation(VALUES),
        np.vstack([VALUES[10:, 1:], np.random.default_rng(6).normal(size=(12, 3))]),
    ],
    ids=[
        *("itself", "other units", "signs", "logarithms", "digits", "other order", "one column", "and another column"),
        *("one row less", "one row more", "rows in another order", "next month's rows of some columns"),
    ],
)
def test_a_table_is_known_again(tables: Path, again: np.ndarray):
    folder = table_folder(tables, silo(VALUES))
    assert table_folder(tables, silo(np.ascontiguousarray(again), "west")) == folder
    assert table_folder(tables, silo(VALUES)) == folder


@pytest.mark.parametrize(
    "other",
    [
        np.random.default_rng(4).normal(size=(60, 4)),
        COUNTS,
        COUNTS[np.random.default_rng(7).permutation(60)],
    ],
    ids=["other rows", "counts", "counts in another order"],
)
def test_another_table_is_not_taken_for_it(tables: Path, other: np.ndarray):
    assert table_folder(tables, silo(VALUES)) != table_folder(tables, silo(other))


@pytest.mark.parametrize("other", [VALUES[:-1], VALUES[4:, :2], np.vstack([VALUES, VALUES[:3] + 1.0])])
def test_a_table_of_a_few_rows_more_or_less_is_refused_once_numbers_have_left(tables: Path, other: np.ndarray):
    def memory(values: np.ndarray) -> TableMemory:
        return TableMemory(tables, silo(values), limit=None, minimum_cell=5)

    first, waiting = memory(VALUES), memory(other)
    first.charge("answer", 3)
    rows = abs(len(other) - 60)
    for begin in (lambda: memory(other), lambda: waiting.charge("another", 3)):
        with pytest.raises(FeddagError, match=f"would tell about {rows} rows? alone, and minimum_cell is 5"):
            begin()
    first.charge("a further one", 3)
    assert memory(VALUES[:-5]).folders == first.folders


def test_columns_that_were_apart_bring_both_memories_together(tables: Path):
    first, second = table_folder(tables, silo(VALUES[:, :2])), table_folder(tables, silo(VALUES[:, 2:]))
    assert table_folders(tables, silo(VALUES[:, 1:3])) == sorted([first, second])


def test_a_column_that_was_seen_beside_a_known_one_is_known_from_then_on(tables: Path):
    first = table_folder(tables, silo(VALUES[:, :2]))
    assert table_folder(tables, silo(VALUES[:, 1:3])) == first
    assert table_folder(tables, silo(VALUES[:, 2:])) == first


def test_a_column_of_levels_is_known_again_too(tables: Path):
    """Else a study of some of these columns and then of others would begin with an empty memory."""
    folder = table_folder(tables, silo(COUNTS))
    assert table_folder(tables, silo(COUNTS * 10 + 1)) == folder
    assert table_folder(tables, silo(COUNTS[:, :2])) == folder
    assert table_folder(tables, silo(np.column_stack([COUNTS[:, 0], 1.0 * (COUNTS[:, 1] > 1)]))) == folder


def test_columns_that_rarely_change_tell_tables_apart_only_all_together(tables: Path):
    """A flag of few rows may well be found in two tables, and neither shall keep the other from its sums."""
    folder = table_folder(tables, silo(FLAGS))
    assert table_folder(tables, silo(FLAGS)) == folder
    assert table_folder(tables, silo(FLAGS * 10 + 1)) == folder
    assert table_folder(tables, silo(FLAGS[:, :2])) != folder
    known = table_folder(tables, silo(np.column_stack([VALUES[:, 0], FLAGS[:, 0]])))
    assert table_folder(tables, silo(np.column_stack([VALUES[:, 1], FLAGS[:, 0]]))) != known


def test_what_is_remembered_of_a_table_is_none_of_its_values_and_for_the_user_alone(tables: Path):
    folder = table_folder(tables, silo(VALUES))
    assert tables.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    written = "".join(path.read_text() for path in folder.iterdir())
    digests = json.loads((folder / "columns.json").read_text())
    assert len(digests) == 4
    assert all(len(bytes.fromhex(digest)) == 32 for digest in digests)
    assert not any(f"{value:.4g}" in written for value in VALUES.ravel())
