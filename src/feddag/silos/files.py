"""Tables that are files."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from feddag.errors import FeddagError
from feddag.extras import imported
from feddag.files import from_text
from feddag.silos.databases import DATABASE_FILES

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_OTHER_SEPARATORS = (";", "\t", ",")
_DECIMALS = {sign: re.compile(rf"[+-]?\d*\{sign}\d+([eE][+-]?\d+)?") for sign in ",."}
"""Numbers with a decimal comma, or point."""
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
        """Return the columns' names."""
        self._check()
        if self._extension in _SEPARATORS:
            return _header(self.path, self._separator())
        if self._extension == ".parquet":
            return list(self._pyarrow("parquet").read_schema(self.path).names)
        with self._pyarrow("ipc").open_file(self.path) as table:
            return list(table.schema.names)

    def read(self, columns: Sequence[str] | None) -> pd.DataFrame:
        """Read these columns; `None` means all."""
        self._check()
        if self._extension in _SEPARATORS:
            return _read_separated(self.path, self._separator(), columns)
        self._pyarrow("parquet")
        read: Any = pd.read_parquet if self._extension == ".parquet" else pd.read_feather
        return read(self.path, columns=None if columns is None else list(columns))

    def _pyarrow(self, module: str) -> Any:
        return imported(f"pyarrow.{module}", "parquet", f"{self.path} needs pyarrow to be read")

    @property
    def _extension(self) -> str:
        return self.path.suffix.lower()

    def _separator(self) -> str:
        """Return the extension's separator, unless it gives a single column and another does not.

        Spreadsheets write semicolons where the comma is the decimal sign.
        """
        usual = _SEPARATORS[self._extension]
        return next((each for each in (usual, *_OTHER_SEPARATORS) if len(_header(self.path, each)) > 1), usual)

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
    """Read the header as it is: pandas would rename a repeated column, and hide it."""
    header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
    return [from_text(name.strip()) for name in header.iloc[0]]


def _read_separated(path: Path, separator: str, columns: Sequence[str] | None) -> pd.DataFrame:
    header = _header(path, separator)
    wanted = None if columns is None else [header.index(name) for name in columns]
    if wanted is not None:
        _check_width(path, separator, len(header))
    decimal = "." if separator == "," else _decimal(path, separator, wanted or range(len(header)))
    frame = pd.read_csv(path, sep=separator, decimal=decimal, header=0, names=range(len(header)), usecols=wanted)
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError(_too_wide(len(header)))
    named = frame.set_axis([header[int(position)] for position in frame.columns], axis=1)
    return named if columns is None else named[list(columns)]


def _decimal(path: Path, separator: str, columns: Sequence[int]) -> str:
    """Find the decimal sign: the comma if any number has one; then none may have a point, which may mean thousands."""
    found: dict[str, str] = {}
    with open(path, encoding="utf-8-sig", newline="") as lines:
        for fields in islice(csv.reader(lines, delimiter=separator), 1, None):
            for sign in _DECIMALS.keys() - found:
                numbers = (fields[k] for k in columns if k < len(fields) and sign in fields[k])
                if number := next((each for each in numbers if _DECIMALS[sign].fullmatch(each.strip())), None):
                    found[sign] = number
    if len(found) > 1:
        raise ValueError(f"{found[',']} has a decimal comma, and {found['.']} a point")
    return next(iter(found), ".")


def _check_width(path: Path, separator: str, width: int) -> None:
    """Find what pandas overlooks when it reads some columns only: a row whose fields are shifted."""
    with open(path, encoding="utf-8-sig", newline="") as lines:
        if any(len(fields) > width for fields in csv.reader(lines, delimiter=separator)):
            raise ValueError(_too_wide(width))


def _too_wide(width: int) -> str:
    return f"rows have more than the header's {width} fields"
