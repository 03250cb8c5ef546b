"""The store of results: one SQLite file, which several processes may fill at the same time.

A cell is claimed before it is computed, so that no other process computes it too. A claim ends with its result, with
its process, or, on another machine, when it has not been renewed for a while.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Event, Thread
from typing import Any

from feddag.errors import FeddagError
from feddag.experiments.cell import Cell
from feddag.experiments.result import Result, elapsed, result_from_row
from feddag.experiments.settings import Setting
from feddag.files import check_target

DEFAULT_STORE = Path("experiments.sqlite")
_FORMAT = 1
_BUSY_SECONDS = 60.0
_NOT_WRITABLE = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)
_RENEWED_EVERY, _STALE_AFTER = 15.0, 120.0
_COLUMNS = tuple(each.name for each in fields(Result))
_ALL = ", ".join(_COLUMNS)
_TYPES = {"int": "INTEGER", "float": "REAL", "bytes": "BLOB"}
"""By the type of a field of `Result`; all others are texts."""
_TUNED = """
CREATE TABLE IF NOT EXISTS tuned (
    experiment TEXT, row TEXT, data TEXT, nodes INTEGER, parameters TEXT, seeds TEXT, metric TEXT, mean REAL,
    finished TEXT, PRIMARY KEY (experiment, row, data, nodes)
)
"""
_TYPED = ", ".join(f"{each.name} {_TYPES.get(str(each.type).split()[0], 'TEXT')}" for each in fields(Result))
_SCHEMA = (
    f"CREATE TABLE results ({_TYPED}, PRIMARY KEY (key))",
    "CREATE TABLE claims (key TEXT PRIMARY KEY, machine TEXT, pid INTEGER, renewed REAL)",
    _TUNED,
    f"PRAGMA user_version = {_FORMAT}",
)


@dataclass(frozen=True)
class Tuned:
    """The parameters that were best on the tuning seeds of some data."""

    experiment: str
    row: str
    """`Row.in_regime`."""
    data: str
    nodes: int
    parameters: dict[str, Any]
    seeds: tuple[int, ...]
    metric: str
    mean: float
    """Over everything that was tuned together, which may be more than these data and nodes."""
    finished: str


class Store:
    """Results by the key of their cell."""

    def __init__(self, path: str | os.PathLike[str] = DEFAULT_STORE, *, create: bool = True) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise FeddagError(f"{self.path} is a directory. Name a file in it, such as {self.path / DEFAULT_STORE}.")
        if not self.path.exists() and not create:
            raise FeddagError(f"{self.path} does not exist. Run an experiment first, or name its store with --store.")
        check_target(self.path)
        self._prepare(create=create)

    def results(self) -> list[Result]:
        """Return all results, in the order in which they were finished."""
        return self._results("")

    def undeclared(self) -> list[Result]:
        """Return the results whose parameters no experiment declares."""
        return self._results("WHERE chosen != 'declared'")

    def _results(self, where: str) -> list[Result]:
        with self._connected() as connection:
            rows = connection.execute(f"SELECT {_ALL} FROM results {where} ORDER BY finished, key")
            return [result_from_row(row) for row in rows]

    def digests(self, setting: Setting) -> set[str]:
        """Return the digests of the data behind the results of a setting."""
        query = "SELECT DISTINCT data_digest FROM results WHERE setting = ?"
        with self._connected() as connection:
            return {row[0] for row in connection.execute(query, (_json(setting.identity()),))}

    def paces(self) -> list[tuple[str, str, dict[str, Any], float]]:
        """Return method, regime and setting of every result, and how long its cell took, the latest last."""
        query = "SELECT method, regime, setting, started, finished, seconds FROM results ORDER BY finished"
        with self._connected() as connection:
            return [(row[0], row[1], json.loads(row[2]), elapsed(*row[3:])) for row in connection.execute(query)]

    def results_of(self, cells: Iterable[Cell]) -> dict[str, Result]:
        """Return, by key, the results that the store holds and that today's parameters would give."""
        wanted = {cell.key: cell for cell in cells}
        query = f"SELECT {_ALL} FROM results WHERE key IN"
        with self._connected() as connection:
            rows = [
                row
                for some in _batches(list(wanted))
                for row in connection.execute(f"{query} ({','.join('?' * len(some))})", some)
            ]
        return {row["key"]: result_from_row(row) for row in rows if _agrees(wanted[row["key"]], row)}

    def keep(self, result: Result) -> None:
        """Keep a result, in the place of an earlier one, and give back its claim."""
        row = asdict(result)
        for name in ("setting", "parameters", "graph"):
            row[name] = None if row[name] is None else _json(row[name])
        marks = ",".join("?" * len(_COLUMNS))
        with self._changing() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO results ({_ALL}) VALUES ({marks})", [row[name] for name in _COLUMNS]
            )
            connection.execute("DELETE FROM claims WHERE key = ?", (result.key,))

    def mark_chosen(self, keys: Iterable[str], chosen: str) -> None:
        """Correct how the parameters of kept results were chosen."""
        with self._changing() as connection:
            connection.executemany("UPDATE results SET chosen = ? WHERE key = ?", [(chosen, key) for key in keys])

    def claim(self, cell: Cell, *, again: bool = False) -> bool:
        """Claim a cell for this process; False if it is done (unless `again`), or claimed by another process."""
        with self._changing() as connection:
            done = connection.execute("SELECT parameters FROM results WHERE key = ?", (cell.key,)).fetchone()
            held = connection.execute("SELECT * FROM claims WHERE key = ?", (cell.key,)).fetchone()
            free = (again or not (done and _agrees(cell, done))) and not (held and _is_alive(held))
            if free:
                claim = (cell.key, platform.node(), os.getpid(), time.time())
                connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", claim)
        return free

    def release(self, cells: Iterable[Cell] | None = None) -> None:
        """Give back this process's claims on some cells, or on all."""
        owner = (platform.node(), os.getpid())
        with self._changing() as connection:
            if cells is None:
                connection.execute("DELETE FROM claims WHERE machine = ? AND pid = ?", owner)
            else:
                owned = [(cell.key, *owner) for cell in cells]
                connection.executemany("DELETE FROM claims WHERE key = ? AND machine = ? AND pid = ?", owned)

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Renew this process's claims while the context lasts, and give them back at its end."""
        ended = Event()

        def renew() -> None:
            while not ended.wait(_RENEWED_EVERY):
                # what fails here is tried again, and fails the run when a result is kept
                with suppress(FeddagError), self._connected() as connection:
                    connection.execute(
                        "UPDATE claims SET renewed = ? WHERE machine = ? AND pid = ?",
                        (time.time(), platform.node(), os.getpid()),
                    )

        renewing = Thread(target=renew, daemon=True, name="feddag-claims")
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            self.release()

    def keep_tuned(self, tuned: Iterable[Tuned]) -> None:
        """Keep tuned parameters. A table of an older form, which does not say what they were tuned on, is replaced."""
        rows = [
            {**asdict(each), "parameters": json.dumps(each.parameters, sort_keys=True), "seeds": json.dumps(each.seeds)}
            for each in tuned
        ]
        marks = ",".join(f":{each.name}" for each in fields(Tuned))
        with self._changing() as connection:
            if "data" not in {column["name"] for column in connection.execute("PRAGMA table_info(tuned)")}:
                connection.execute("DROP TABLE tuned")
                connection.execute(_TUNED)
            connection.executemany(f"INSERT OR REPLACE INTO tuned VALUES ({marks})", rows)

    def tuned(self, experiment: str) -> list[Tuned]:
        """Return an experiment's tuned parameters that say what they were tuned on."""
        with self._connected() as connection:
            rows = connection.execute("SELECT * FROM tuned WHERE experiment = ?", (experiment,)).fetchall()
        return [
            Tuned(**{**row, "parameters": json.loads(row["parameters"]), "seeds": tuple(json.loads(row["seeds"]))})
            for row in map(dict, rows)
            if "data" in row
        ]

    def _prepare(self, *, create: bool) -> None:
        with self._connected() as connection:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, _FORMAT):
                raise FeddagError(
                    f"{self.path} is a store of format {found}, and this feddag reads {_FORMAT}. "
                    "Install the feddag that wrote it, or name another store."
                )
            if found == _FORMAT:
                return
            no_store = FeddagError(f"{self.path} is no store of results. Name another file with --store.")
            if not create:
                raise no_store
            connection.execute("BEGIN IMMEDIATE")  # of several processes that find no store, one makes it
            if connection.execute("PRAGMA user_version").fetchone()[0] == _FORMAT:
                return
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise no_store
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for changes that other processes see together or, if something fails, not at all."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for each use: cells end in threads of joblib, and a connection belongs to one."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                yield connection
        except sqlite3.Error as error:
            raise FeddagError(f"{self.path} {_explain(error)}") from None


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _explain(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the rest is details
    if code in _NOT_WRITABLE:
        return (
            f"cannot be written ({error}), which even a reader may have to do. Check the rights to it and "
            "to its directory, and the free space, or name a copy elsewhere with --store."
        )
    if code == sqlite3.SQLITE_BUSY:
        return f"is held by another process ({error}). Repeat the command when that has ended."
    return f"is no store of results ({error}). Name another file with --store."


def _agrees(cell: Cell, row: Mapping[str, Any] | sqlite3.Row) -> bool:
    return cell.agrees(json.loads(row["parameters"]))


def _is_alive(claim: sqlite3.Row) -> bool:
    if time.time() - claim["renewed"] > _STALE_AFTER:
        return False
    if claim["machine"] != platform.node() or os.name == "nt":  # where signal 0 is no question
        return True
    try:
        os.kill(claim["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _batches(keys: list[str], size: int = 500) -> Iterator[list[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
