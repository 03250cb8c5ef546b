"""Where a site's table is: a file, a table of a database file, or of a database that has an address.

| source                                   | read by                                    |
|------------------------------------------|--------------------------------------------|
| `north.csv`, `.tsv`                      | pandas                                     |
| `north.parquet`, `.feather`              | pyarrow (`feddag[parquet]`)                |
| `north.sqlite?table=visits`, `.db`       | Python's sqlite3                           |
| `north.duckdb?table=visits`, `.ddb`      | DuckDB (`feddag[sql]`)                     |
| `postgresql://user@host/db?table=visits` | SQLAlchemy (`feddag[sql]`) and its drivers |

In place of `table=`, `query=SELECT ...` comes last and is taken as it stands. Databases are only ever read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from feddag.errors import FeddagError
from feddag.extras import install_command
from feddag.silos.databases import DATABASE_FILES, Database, DatabaseFile
from feddag.silos.files import TableFile

_ADDRESS = re.compile(r"[a-z][a-z0-9+]*://", re.IGNORECASE)
_NAMED = re.compile(r"(?P<site>[A-Za-z0-9][\w.-]*)=(?P<source>.+)", re.DOTALL)
_EXTRAS = {"pyarrow": "parquet", "duckdb": "sql", "sqlalchemy": "sql", "psycopg": "sql"}


class Source(Protocol):
    """A table that can be read, and read again."""

    name: str
    """What the site is called unless it is given another name."""
    shown: str
    """For errors: without passwords."""
    recorded: str
    """For the record of a run, to be read again from any folder: without passwords, too."""
    remedy: str
    """What to do when reading fails."""

    def header(self) -> list[str]:
        """Return the columns' names, as the source has them."""
        ...

    def read(self, columns: Sequence[str] | None) -> pd.DataFrame:
        """Read these columns and no others, in this order; `None` means all."""
        ...


class GivenFrame:
    """A frame in memory."""

    name = shown = recorded = "the table"
    remedy = "Check it."

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def header(self) -> list[str]:
        """Return the columns' names."""
        return list(map(str, self._frame.columns))

    def read(self, columns: Sequence[str] | None) -> pd.DataFrame:
        """Return these columns; `None` means all."""
        return self._frame if columns is None else self._frame.set_axis(self.header(), axis=1)[list(columns)]


def source_of(given: str | os.PathLike[str]) -> Source:
    """Make the source of a path, or of the address of a database."""
    text = os.fspath(given)
    if text.startswith("sqlite:///"):  # SQLAlchemy would make a file that is not there
        return DatabaseFile(text.removeprefix("sqlite:///"))
    if _ADDRESS.match(text):
        return Database(text)
    if Path(text.partition("?")[0]).suffix.lower() in DATABASE_FILES:
        return DatabaseFile(text)
    return TableFile(Path(text))


def named_source(text: str) -> tuple[str | None, str]:
    """Split `SITE=SOURCE` into the site's name and its source; a source alone has no name."""
    named = _NAMED.fullmatch(text)
    if named is None or Path(text).exists():
        return None, text
    return named["site"], named["source"]


def read_table(site: str, source: Source, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a site's table, or those columns of it that are named; every failure says which, and what to do."""
    where = f"Site {site!r}: {source.shown}"
    try:
        if columns is not None:
            _check_header(source, columns)
        return source.read(columns)
    except FeddagError as error:
        raise FeddagError(f"Site {site!r}: {error}") from None
    except FileNotFoundError:
        raise FeddagError(f"{where} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise FeddagError(f"{where} is a folder. Name the file of the site's table.") from None
    except PermissionError:
        raise FeddagError(f"{where} may not be read. Check its permissions.") from None
    except pd.errors.EmptyDataError:
        raise FeddagError(f"{where} is empty. Give a header and rows.") from None
    except ImportError as error:
        package = (error.name or str(error)).partition(".")[0]
        extra = f" with: {install_command(_EXTRAS[package])}" if package in _EXTRAS else "."
        raise FeddagError(f"{where} needs {package} to be read. Install it{extra}") from None
    except UnicodeDecodeError as error:
        raise FeddagError(f"{where} is not in UTF-8 ({error.reason} at byte {error.start}). Convert it.") from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise FeddagError(f"{where} could not be read ({reason}). {source.remedy}") from None


def _check_header(source: Source, columns: Sequence[str]) -> None:
    header = source.header()
    lacking = [name for name in columns if name not in header]
    if lacking:
        raise FeddagError(
            f"{source.shown} lacks {', '.join(map(repr, lacking))}. It has {', '.join(map(repr, header))}: let the "
            "study tell what the site calls them."
        )
    for name in columns:
        if header.count(name) > 1:
            raise FeddagError(
                f"{source.shown} has {header.count(name)} columns {name!r}. Give each column its own name."
            )
