from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from counting_learner import SETTING, cells, fits

from feddag.errors import FeddagError
from feddag.experiments import Cell, Store, find_experiment, run
from feddag.experiments.result import history_of, reported_graphs
from feddag.experiments.running import on_dask
from feddag.experiments.settings import Real
from feddag.parallel import as_finished

ENOUGH = replace(SETTING, rows=200)
"""For sums of many functions."""
SCRIPT = Path(__file__).with_name("counting_learner.py")


def _begun(store: Store, log: Path, pause: float, count: int) -> subprocess.Popen[bytes]:
    """A run in a process of its own, which has begun its first cells."""
    process = subprocess.Popen([sys.executable, SCRIPT, store.path, log, str(pause), str(count)])
    while not fits(log):
        assert process.poll() is None
        time.sleep(0.02)
    return process


def test_the_time_left_is_told_by_the_latest_cells(store, made, tmp_path, counting):
    *before, to_come = cells(tmp_path / "fits", 0.0, range(1, 12))
    for hour, cell in enumerate(reversed(before), start=10):  # so that keys and times are in no common order
        seconds = 100.0 if hour < 15 else 2.0
        then = f"2026-01-01T{hour}:00:00+00:00"
        store.keep(made(cell, shd=0.0, seconds=seconds, started=then, finished=then))
    standings = []
    run([to_come], store, progress=standings.append)
    assert standings[0].seconds_left == 2.0


def test_a_finished_cell_is_never_run_again(store, tmp_path, counting):
    log = tmp_path / "fits"
    standings = []
    first = run(cells(log, 0.0, [1, 2]), store, progress=standings.append)
    second = run(cells(log, 0.0, [1, 2, 3]), store)
    assert (first.computed, second.there_before, second.computed) == (2, 2, 1)
    assert [seed for seed, _ in fits(log)] == [1, 2, 3]
    assert [(each.done, each.total) for each in standings] == [(0, 2), (1, 2), (2, 2)]
    assert [each.last is None for each in standings] == [True, False, False]
    assert standings[0].seconds_left is None  # nothing like it was measured so far
    assert standings[1].seconds_left > 0
    assert standings[2].seconds_left == 0


def test_a_result_tells_where_it_comes_from(store):
    cell = Cell(SETTING, "random", "federated", 2021, {"edges_per_node": 0.5})
    run([cell], store)
    (result,) = store.results()
    drawn = SETTING.draw(2021)
    assert result.data_digest == drawn.digest()
    assert result.true_edges == len(drawn.truth.edges)
    assert result.shd == result.missing + result.extra + result.reversed
    assert len(result.graph["edges"][0]) == result.nnz
    assert result.parameters == {"edges_per_node": 0.5, "seed": 2021}
    assert result.peak_memory > 10**7
    assert result.started <= result.finished
    assert (result.chosen, result.role, result.data) == ("declared", "reported", "raw")


def test_sites_that_learn_alone_are_averaged(store):
    cell = Cell(SETTING, "var-sortnregress", "separate", 1)
    run([cell], store)
    (result,) = store.results()
    assert len(result.graph["edges"]) == SETTING.sites
    assert result.nnz == np.mean([len(edges) for edges in result.graph["edges"]])


def test_methods_that_take_no_experiments_are_not_told_of_them(store):
    setting = replace(ENOUGH, interventions=2)
    assert [silo.is_target.sum() for silo in setting.draw(1).silos] == [2] * setting.sites
    told, not_told = Cell(setting, "search", "federated", 1, {"restarts": 0}), Cell(setting, "notears", "all", 1)
    assert not run([told, not_told], store).failures
    result = next(each for each in store.results() if each.method == "search")
    learner = told.learner().fit(list(setting.draw(1).silos))
    assert "interventions" in str(learner.edge_evidence_.told_by.tolist())
    (reported,) = reported_graphs(result)
    np.testing.assert_array_equal(reported.adjacency, learner.graph_.adjacency)


def test_the_course_of_an_optimisation_is_kept(store):
    quick = {"model": "linear", "sharing": "all", "it_inner": 20, "it_fl": 10, "rho_max": 10.0}
    run([Cell(SETTING, "feddag", "federated", 1, quick)], store)
    history = history_of(store.results()[0])
    assert {"step", "rho", "alpha", "h", "l1_distance", "shd_distance"} <= set(history["rounds"])
    assert np.shape(history["graphs"])[1:] == (4, 4)


def test_a_learner_that_has_a_guess_for_each_direction_is_judged_by_it(store):
    for regime in ("federated", "all"):
        run([Cell(ENOUGH, "search", regime, 1, {"sharing": "all"})], store)
    assert [result.graph["undirected"] for result in store.results()] == [[[]], [[]]]


def test_what_it_only_guessed_is_kept_too(store):
    cell = Cell(ENOUGH, "search", "federated", 1, {"sharing": "all"})
    run([cell], store)
    (result,) = store.results()
    learner = cell.learner().fit(list(ENOUGH.draw(1).silos))
    assert learner.graph_.undirected_edges
    (reported,) = reported_graphs(result)
    np.testing.assert_array_equal(reported.adjacency, learner.graph_.adjacency)
    older = {name: value for name, value in result.graph.items() if name != "guessed"}
    assert reported_graphs(replace(result, graph=older)) is None


def test_a_cell_is_run_again_on_request(store, tmp_path, counting):
    log = tmp_path / "fits"
    run(cells(log, 0.0, [1, 2]), store)
    anew = run(cells(log, 0.0, [1]), store, again=True)
    assert (anew.there_before, anew.computed) == (0, 1)
    assert [seed for seed, _ in fits(log)] == [1, 2, 1]
    assert len(store.results()) == 2


def test_one_cells_trouble_is_no_other_cells(store, tmp_path, counting):
    outcome = run(cells(tmp_path / "fits", 0.0, [12, 13, 15]), store)
    assert outcome.computed == 2
    (failure,) = outcome.failures
    assert (failure.cell.seed, failure.reason, failure.trace) == (13, "No luck with 13.", "")
    assert run(cells(tmp_path / "fits", 0.0, [13]), store).failures


def test_a_slip_in_a_method_is_found_by_file_and_line(store, tmp_path, counting):
    (failure,) = run(cells(tmp_path / "fits", 0.0, [14]), store).failures
    assert failure.reason == "KeyError: 'a slip'"
    assert 'counting_learner.py", line' in failure.trace
    assert 'raise KeyError("a slip")' in failure.trace


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"pause": -1}, "pause must be a number of at least 0. Got -1 instead"),
        ({"pause": "abc"}, "pause must be a number of at least 0. Got 'abc' instead"),
        ({"seed": 5}, "seed is no parameter to choose.* Use --seeds instead"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_drawn(store, tmp_path, counting, monkeypatch, given, complaint):
    monkeypatch.setattr("feddag.experiments.result.draw", lambda *_: pytest.fail("drawn"))
    good, wrong = cells(tmp_path / "fits", 0.0, [1, 2])
    with pytest.raises(FeddagError, match=complaint):
        run([good, replace(wrong, parameters={**wrong.parameters, **given})], store)


def test_a_value_is_refused_in_every_regime():
    for regime in ("federated", "all", "separate", "voting"):
        with pytest.raises(FeddagError, match="l1 must be a number of at least 0"):
            Cell(SETTING, "notears", regime, 1, {"l1": -1}).check()
    with pytest.raises(FeddagError, match="Use --jobs instead"):
        Cell(SETTING, "feddag", "federated", 1, {"workers": 2}).check()


def test_an_unknown_method_is_refused_before_anything_is_run(store, tmp_path, counting):
    unknown = Cell(SETTING, "nobody", "federated", 1)
    with pytest.raises(FeddagError, match="Got 'nobody' instead"):
        run([*cells(tmp_path / "fits", 0.0, [1]), unknown], store)
    assert fits(tmp_path / "fits") == []


def test_a_killed_run_loses_the_cell_under_way_alone(store, tmp_path, counting):
    log = tmp_path / "fits"
    process = _begun(store, log, 0.3, 4)
    while len(fits(log)) < 3:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {result.seed for result in store.results()}
    begun = [seed for seed, _ in fits(log)]
    assert kept == set(begun[:-1])
    outcome = run(cells(log, 0.3, range(1, 5)), store)
    assert outcome.there_before == len(kept)
    again = [seed for seed, process in fits(log) if process == os.getpid()]
    assert sorted(again) == sorted(set(range(1, 5)) - kept)
    assert {result.seed for result in store.results()} == {1, 2, 3, 4}


def test_two_processes_share_the_cells_of_one_store(store, tmp_path, counting):
    log = tmp_path / "fits"
    process = _begun(store, log, 0.2, 8)
    outcome = run(cells(log, 0.2, range(1, 9)), store)
    assert process.wait() == 0
    done = fits(log)
    assert sorted(seed for seed, _ in done) == list(range(1, 9))
    assert {process for _, process in done} == {process.pid, os.getpid()}
    assert outcome.there_before + outcome.computed + outcome.elsewhere == 8
    assert len(store.results()) == 8


@pytest.mark.parametrize("held", [[1, 2, 3], [4, 5, 6], [1, 2, 3, 4, 5, 6]])
@pytest.mark.parametrize("jobs", [1, 2])
def test_cells_of_another_process_count_as_done(store, monkeypatch, held, jobs):
    claim = Store.claim
    monkeypatch.setattr(Store, "claim", lambda self, cell, **how: cell.seed not in held and claim(self, cell, **how))
    wanted = [Cell(SETTING, "random", "federated", seed) for seed in range(1, 7)]
    standings = []
    outcome = run(wanted, store, jobs=jobs, progress=standings.append)
    assert (outcome.computed, outcome.elsewhere) == (6 - len(held), len(held))
    assert [each.done for each in standings] == sorted(each.done for each in standings)
    last = standings[-1]
    assert (last.done, last.total, last.seconds_left) == (6, 6, 0.0)
    assert last.last == f"{len(held)} are another process's"


def test_what_is_declared_stays_so_when_it_is_run_again_by_hand(store):
    cell = Cell(SETTING, "random", "federated", 2021, {"edges_per_node": 0.5})
    run([cell], store)
    run([cell], store, chosen="by hand", again=True)
    assert [result.chosen for result in store.results()] == ["declared"]


def test_a_process_that_dies_is_told():
    with pytest.raises(FeddagError, match="has died, perhaps for lack of memory"):
        list(as_finished([joblib.delayed(os._exit)(1)] * 2, 2))


def test_an_interruption_keeps_what_is_finished(store, tmp_path, counting):
    def stop(standing):
        if standing.last is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cells(tmp_path / "fits", 0.0, [1, 2, 3]), store, progress=stop)
    assert [result.seed for result in store.results()] == [1]
    assert run(cells(tmp_path / "fits", 0.0, [1, 2, 3]), store).computed == 2


def test_a_dask_cluster_computes_the_cells(store):
    distributed = pytest.importorskip("dask.distributed")
    wanted = [Cell(SETTING, method, "federated", seed) for method in ("random", "empty") for seed in (1, 2)]
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        on_dask(cluster.scheduler_address),
    ):
        outcome = run(wanted, store)
        workers = distributed.default_client().run(os.getpid).values()
    assert outcome.computed == 4
    assert os.getpid() not in workers
    alone = Store(store.path.with_name("alone.sqlite"))
    run(wanted, alone)
    shds = [{result.key: result.shd for result in each.results()} for each in (store, alone)]
    assert shds[0] == shds[1]


def _recorded(folder: Path, factor: float = 1.0) -> None:
    rng = np.random.default_rng(0)
    regions = ["PRC", "PHC", "ERC", "Sub", "CA1", "CA3DG"]
    for day in range(11):
        frame = pd.DataFrame(factor * rng.normal(size=(510, 6)), columns=regions)
        frame.to_csv(folder / f"day{day}.csv", index=False)
    (folder / "truth_edges.csv").write_text("source,target\nPHC,ERC\nPRC,ERC\n")


def test_the_digest_of_real_data_is_of_the_tables_as_they_were_read():
    plain, logged = Real("sachs").draw(0), Real("sachs", logged=True).draw(0)
    assert plain.digest() == logged.digest()
    assert not np.array_equal(plain.silos[0].values, logged.silos[0].values)


def test_the_users_recording_is_read_from_a_folder(store, tmp_path):
    _recorded(tmp_path)
    drawn = Real("hippocampus").draw(0, tmp_path)
    assert [silo.values.shape for silo in drawn.silos] == [(500, 6)] * 10
    assert [silo.name for silo in drawn.silos] == [f"day{day}" for day in range(10)]  # and day10, the last, is left out
    part = find_experiment("hippocampus").restrict(methods=["empty"])
    assert run(part.cells(), store, folder=tmp_path).computed == 1
    assert store.results()[0].missing == 2
    _recorded(tmp_path, factor=2.0)
    for each in (part, find_experiment("hippocampus").restrict(methods=["random"])):
        with pytest.raises(FeddagError, match="of other numbers than the data have now"):
            run(each.cells(), store, folder=tmp_path)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "truth_edges.csv").unlink(), "has no truth_edges.csv"),
        (lambda folder: [(folder / f"day{day}.csv").unlink() for day in (0, 1)], "9 tables are too few"),
        (lambda folder: [path.unlink() for path in folder.glob("day*")], r"has no \.csv file"),
    ],
)
def test_a_folder_that_lacks_something_is_refused(tmp_path, spoil, complaint):
    _recorded(tmp_path)
    spoil(tmp_path)
    with pytest.raises(FeddagError, match=complaint):
        Real("hippocampus").draw(0, tmp_path)
