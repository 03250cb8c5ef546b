from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from feddag.errors import FeddagError
from feddag.experiments import Cell, Store, run
from feddag.experiments.settings import Simulated
from feddag.experiments.store import Tuned
from feddag.learners import registry

CELL = Cell(Simulated("linear", nodes=4, rows=20, sites=2), "notears", "all", 2021, {"l1": 0.5})


def test_what_was_kept_is_there_again(store, made):
    result = made(CELL, shd=3.0, tpr=0.5)
    store.keep(result)
    assert store.results_of([CELL]) == {CELL.key: result}
    assert store.results() == [result]
    assert (result.role, result.method_version, result.parameters["l1"]) == ("reported", 1, 0.5)
    assert "workers" not in result.parameters


def test_a_changed_default_makes_a_result_worthless_and_a_new_parameter_does_not(store, made):
    result = made(CELL, shd=3.0)
    store.keep(replace(result, parameters={**result.parameters, "threshold": 0.7}))
    assert not store.results_of([CELL])
    assert store.claim(CELL)
    older = {name: value for name, value in result.parameters.items() if name != "threshold"}
    store.keep(replace(result, parameters=older))
    assert CELL.key in store.results_of([CELL])


def test_a_method_of_another_version_is_run_again(store, made, monkeypatch):
    store.keep(made(CELL, shd=3.0))
    monkeypatch.setitem(registry.METHODS, "notears", replace(registry.METHODS["notears"], version=2))
    again = replace(CELL)
    assert not store.results_of([again])
    assert store.claim(again)


def test_data_of_another_version_are_drawn_again(store, made, monkeypatch):
    store.keep(made(CELL, shd=3.0))
    monkeypatch.setattr("feddag.silos.simulation.SIMULATOR_VERSION", 2)
    assert not store.results_of([replace(CELL)])


def _opened(path):
    try:
        Store(path)
    except FeddagError as error:
        return str(error)
    return None


def test_several_processes_may_make_a_store_at_once(tmp_path):
    paths = [tmp_path / f"{k}.sqlite" for k in range(20) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:  # each use has a connection of its own, as processes have
        assert set(pool.map(_opened, paths)) == {None}


def test_a_cell_is_claimed_once(store, made):
    assert store.claim(CELL)
    assert not store.claim(CELL)
    store.release([CELL])
    assert store.claim(CELL)
    store.keep(made(CELL, shd=1.0))
    assert not store.claim(CELL)


def _claimed_by(store: Store, machine: str, pid: int, renewed: float) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", (CELL.key, machine, pid, renewed))


def test_the_claim_of_a_dead_process_is_void(store):
    process = subprocess.Popen(["true"])
    process.wait()
    _claimed_by(store, platform.node(), process.pid, time.time())
    assert store.claim(CELL)


def test_the_claim_of_another_machine_lasts_while_it_is_renewed(store):
    _claimed_by(store, "elsewhere", os.getpid(), time.time())
    assert not store.claim(CELL)
    _claimed_by(store, "elsewhere", os.getpid(), time.time() - 1000)
    assert store.claim(CELL)


def test_claims_end_with_the_run_that_made_them(store):
    with store.claiming():
        assert store.claim(CELL)
    assert store.claim(CELL)


TUNED = Tuned("linear", "NOTEARS, all", "raw", 10, {"l1": 0.1}, (1, 2), "SHD", 1.5, "now")


def test_tuned_parameters_are_kept_by_row_data_and_nodes(store):
    others = [replace(TUNED, data="standardised"), replace(TUNED, nodes=20), replace(TUNED, row="NOTEARS, separate")]
    store.keep_tuned([replace(TUNED, mean=9.0), *others])
    store.keep_tuned([TUNED])
    assert sorted(map(repr, store.tuned("linear"))) == sorted(map(repr, [TUNED, *others]))
    assert store.tuned("gp") == []


def test_a_store_that_does_not_tell_what_was_tuned_on_is_read_and_gets_a_table_that_does(store, made):
    with sqlite3.connect(store.path) as connection:
        connection.execute("DROP TABLE tuned")
        connection.execute("CREATE TABLE tuned (experiment TEXT, row TEXT, parameters TEXT, seeds TEXT, finished TEXT)")
        connection.execute("INSERT INTO tuned VALUES ('linear', 'NOTEARS, all', '{}', '[1]', 'now')")
    store.keep(made(CELL, shd=1.0))
    before = store.path.read_bytes()
    older = Store(store.path)
    assert older.tuned("linear") == []
    assert store.path.read_bytes() == before
    older.keep_tuned([TUNED])
    assert Store(store.path).tuned("linear") == [TUNED]
    assert len(older.results()) == 1


def test_a_file_that_is_no_store_is_refused(tmp_path):
    other = tmp_path / "table.csv"
    other.write_text("a,b\n" * 1000)
    with pytest.raises(FeddagError, match=r"table\.csv is no store"):
        Store(other)
    assert other.read_text() == "a,b\n" * 1000
    with pytest.raises(FeddagError, match=r"does not exist\. Run an experiment first"):
        Store(tmp_path / "none.sqlite", create=False)
    with pytest.raises(FeddagError, match=r"directory .* does not exist"):
        Store(tmp_path / "no" / "none.sqlite")


def test_a_directory_is_no_store(tmp_path):
    with pytest.raises(FeddagError, match=r"is a directory\. Name a file in it"):
        Store(tmp_path)


@pytest.fixture
def read_only(store, monkeypatch) -> Store:
    """As to somebody who has no right to write it; modes of files do not hold for root, who may run the tests."""
    connect = sqlite3.connect
    monkeypatch.setattr(
        "feddag.experiments.store.sqlite3.connect",
        lambda path, **options: connect(f"file:{path}?mode=ro", uri=True, **options),
    )
    return store


def test_a_store_that_cannot_be_written_can_be_read_and_says_so(read_only, made):
    assert read_only.results() == []
    complaint = r"results\.sqlite cannot be written \(attempt to write a readonly database\)"
    for write in (
        lambda: read_only.keep(made(CELL, shd=1.0)),
        lambda: read_only.claim(CELL),
        read_only.release,
        lambda: read_only.keep_tuned([TUNED]),
        lambda: run([CELL], read_only),
    ):
        with pytest.raises(FeddagError, match=complaint):
            write()


def test_a_store_beside_which_nothing_can_be_written_is_still_called_a_store(store, made):
    store.keep(made(CELL, shd=1.0))
    log = store.path.with_name(f"{store.path.name}-wal")
    log.unlink(missing_ok=True)
    log.mkdir()
    with pytest.raises(FeddagError, match=r"cannot be written \(unable to open database file\)"):
        Store(store.path)


def test_a_store_that_another_process_holds_is_told(store, monkeypatch):
    monkeypatch.setattr("feddag.experiments.store._BUSY_SECONDS", 0.1)
    with sqlite3.connect(store.path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FeddagError, match="is held by another process"):
            store.claim(CELL)


def test_a_store_of_a_later_format_is_refused(store):
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(FeddagError, match="format 9"):
        Store(store.path)
