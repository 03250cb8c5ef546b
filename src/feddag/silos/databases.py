"""Read tables of databases: nothing is ever written, only the named columns are read, and no password is shown."""

from __future__ import annotations

import os
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from feddag.errors import FeddagError
from feddag.extras import imported

if TYPE_CHECKING:
    from sqlalchemy import URL

DATABASE_FILES = (".sqlite", ".db", ".duckdb", ".ddb")
_LONG_ENOUGH = 4
"""So long a secret is masked wherever it stands."""
_SECRET = re.compile(r"password|passwd|pwd|secret|token", re.IGNORECASE)


@dataclass(frozen=True)
class Selection:
    """Which rows of a database: those of a table, or of a query."""

    table: str | None
    query: str | None

    @classmethod
    def split(cls, text: str) -> tuple[str, Self]:
        """Split an address into the part without `table=` and `query=`, and these two. A query is all that follows."""
        address, query = text, None
        found = re.search(r"[?&]query=", text)
        if found:
            address, query = text[: found.start()], text[found.end() :].strip().rstrip(";")
        found = re.search(r"([?&])table=([^&]*)(&?)", address)
        if found is None:
            return address, cls(None, query)
        between = found[1] if found[3] else ""
        return address[: found.start()] + between + address[found.end() :], cls(found[2], query)

    def check(self, shown: str) -> None:
        """Refuse anything but one table or one query; `shown` names the address."""
        if bool(self.table) == bool(self.query):
            raise FeddagError(f"{shown} needs ?table=NAME or ?query=SELECT..., and one of them only.")

    def statement(self, columns: Sequence[str] | None, quote: Callable[[str], str]) -> str:
        """Rows come in the order of their values, so that the same table is the same silo each time it is read."""
        origin = f"({self.query}\n) feddag_rows" if self.query else ".".join(map(quote, str(self.table).split(".")))
        if columns is None:
            return f"SELECT * FROM {origin} WHERE 1 = 0"
        order = ", ".join(str(position) for position in range(1, len(columns) + 1))
        return f"SELECT {', '.join(map(quote, columns))} FROM {origin} ORDER BY {order}"

    def __str__(self) -> str:
        return f"?query={self.query}" if self.query else f"?table={self.table}"


class _Readable(ABC):
    """What both kinds of databases have in common."""

    shown: str
    selection: Selection

    def header(self) -> list[str]:
        self.selection.check(self.shown)
        return list(self._rows(None).columns)

    def read(self, columns: Sequence[str] | None) -> pd.DataFrame:
        return self._rows(self.header() if columns is None else columns)

    @abstractmethod
    def _rows(self, columns: Sequence[str] | None) -> pd.DataFrame:
        """Return the rows of these columns; with `None`, no rows, but all column names."""


class DatabaseFile(_Readable):
    """A SQLite or DuckDB file."""

    remedy = "Check the file, and its table or query."

    def __init__(self, text: str) -> None:
        path, self.selection = Selection.split(text)
        self.path = Path(path)
        self.name = self.path.stem
        self.shown = text
        self.recorded = f"{os.path.abspath(path)}{self.selection}"

    def _rows(self, columns: Sequence[str] | None) -> pd.DataFrame:
        if self.path.is_dir():
            raise IsADirectoryError
        if not self.path.exists():  # SQLite would make it
            raise FileNotFoundError
        statement = self.selection.statement(columns, lambda name: '"' + name.replace('"', '""') + '"')
        if self.path.suffix.lower() in (".duckdb", ".ddb"):
            return _duckdb_rows(self.path, statement)
        return _sqlite_rows(self.path, statement)


def _sqlite_rows(path: Path, statement: str) -> pd.DataFrame:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        cursor = connection.execute(statement)
        return _frame(cursor.fetchall(), [column[0] for column in cursor.description])
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None
    finally:
        connection.close()


def _duckdb_rows(path: Path, statement: str) -> pd.DataFrame:
    import duckdb  # noqa: PLC0415 - feddag[sql]

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return connection.execute(statement).df()
    except duckdb.Error as error:
        raise ValueError(str(error)) from None


class Database(_Readable):
    """A database that SQLAlchemy reaches. A password may stand in the address, or where the driver looks for it."""

    remedy = "Check the address, the password (PostgreSQL: PGPASSWORD), and the table or query."

    def __init__(self, text: str) -> None:
        address, self.selection = Selection.split(text)
        self._url, self._secrets = _parsed(address)
        public = self._url.difference_update_query([key for key in self._url.query if _SECRET.search(key)])
        self.name = Path(self._url.database or self._url.host or "database").stem
        self.shown = _joined(public, self.selection)
        self.recorded = _joined(public._replace(password=None), self.selection)

    def _rows(self, columns: Sequence[str] | None) -> pd.DataFrame:
        from sqlalchemy import NullPool, create_engine, text  # noqa: PLC0415 - feddag[sql]
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

        try:
            engine = create_engine(_with_driver(self._url), poolclass=NullPool)
            statement = self.selection.statement(columns, engine.dialect.identifier_preparer.quote_identifier)
            with engine.connect().execution_options(postgresql_readonly=True) as connection:
                # a colon of the query is no parameter
                result = connection.execute(text(re.sub(r"(?<!:):(?!:)", r"\\:", statement)))
                return _frame(result.fetchall(), list(result.keys()))
        except SQLAlchemyError as error:
            raise ValueError(self._without_secrets(str(getattr(error, "orig", None) or error))) from None

    def _without_secrets(self, reason: str) -> str:
        for secret in self._secrets:
            # a short one would be found within words, and tell by its stars where it stands
            within_words = len(secret) >= _LONG_ENOUGH
            pattern = re.escape(secret) if within_words else rf"(?<!\w){re.escape(secret)}(?!\w)"
            reason = re.sub(pattern, "***", reason)
        return reason


def _parsed(address: str) -> tuple[URL, list[str]]:
    """Parse an address; return it with its secrets, which must never be shown."""
    scheme = address.partition("://")[0]
    imported("sqlalchemy", "sql", f"Reading from {scheme}:// needs SQLAlchemy")
    from sqlalchemy import make_url  # noqa: PLC0415 - feddag[sql]
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):  # whose message might hold the password
        raise FeddagError(
            f"The address {scheme}://... is none. Write it as {scheme}://user@host:port/database?table=NAME, special "
            "characters as %40 and the like."
        ) from None
    secrets = [value for key in url.query if _SECRET.search(key) for value in _texts(url.query[key])]
    return url, [*secrets, *_texts(url.password)]


def _with_driver(url: URL) -> URL:
    """Choose the driver of feddag[sql] where the address leaves it open."""
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def _texts(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(map(str, value))


def _joined(url: URL, selection: Selection) -> str:
    address = url.render_as_string(hide_password=True)
    return f"{address}{str(selection).replace('?', '&', 1) if '?' in address else selection}"


def _frame(rows: Sequence[Any], names: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame([tuple(row) for row in rows], columns=pd.Index(names))
