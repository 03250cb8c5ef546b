"""Tables that are files."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from feddag.errors import FeddagError
from feddag.silos.databases import DATABASE_FILES

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
TABLE_FILES = (*_SEPARATORS, ".parquet", ".feather")


class TableFile:
    """Text with separators, Parquet or Feather, by its extension."""

    remedy = "Check the file."

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        self.shown = str(path)
        self.recorded = os.path.abspath(path)

    def header(self) -> list[str]:
        self._check()
        separator = _SEPARATORS.get(self._extension)
        if separator is not None:
            return _header(self.path, separator)
        from pyarrow import ipc, parquet  # noqa: PLC0415 - feddag[parquet]

        if self._extension == ".parquet":
            return list(parquet.read_schema(self.path).names)
        with ipc.open_file(self.path) as table:
            return list(table.schema.names)

    def read(self, columns: Sequence[str] | None) -> pd.DataFrame:
        self._check()
        separator = _SEPARATORS.get(self._extension)
        if separator is not None:
            return _read_separated(self.path, separator, columns)
        read: Any = pd.read_parquet if self._extension == ".parquet" else pd.read_feather
        return read(self.path, columns=None if columns is None else list(columns))

    @property
    def _extension(self) -> str:
        return self.path.suffix.lower()

    def _check(self) -> None:
        if self.path.is_dir():
            raise IsADirectoryError
        if self._extension not in TABLE_FILES:
            raise FeddagError(
                f"{self.path} has the extension {self.path.suffix!r}, which feddag does not read. "
                f"Use one of {', '.join((*TABLE_FILES, *DATABASE_FILES))}."
            )
        if not self.path.exists():
            raise FileNotFoundError


def _header(path: Path, separator: str) -> list[str]:
    """The header as it stands: pandas would rename a repeated column, and hide it."""
    header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
    return [name.strip() for name in header.iloc[0]]


def _read_separated(path: Path, separator: str, columns: Sequence[str] | None) -> pd.DataFrame:
    header = _header(path, separator)
    wanted = None if columns is None else [header.index(name) for name in columns]
    if wanted is not None:
        _check_width(path, separator, len(header))
    frame = pd.read_csv(path, sep=separator, header=0, names=range(len(header)), usecols=wanted)
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError(_too_wide(len(header)))
    named = frame.set_axis([header[int(position)] for position in frame.columns], axis=1)
    return named if columns is None else named[list(columns)]


def _check_width(path: Path, separator: str, width: int) -> None:
    """Find what pandas overlooks when it reads some columns only: a row whose fields are shifted."""
    with open(path, encoding="utf-8-sig", newline="") as lines:
        if any(len(fields) > width for fields in csv.reader(lines, delimiter=separator)):
            raise ValueError(_too_wide(width))


def _too_wide(width: int) -> str:
    return f"rows have more than the header's {width} fields"
