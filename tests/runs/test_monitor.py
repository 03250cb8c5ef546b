from __future__ import annotations

import pytest

from feddag import make_learner, simulate
from feddag.learners import Status
from feddag.runs import Run
from feddag.runs.folder import PROGRESS
from feddag.runs.monitor import ProgressLog, ProgressReader, read_progress


def status(round_: int, seconds: float, site: str | None = None) -> Status:
    return Status(site, {"round": round_}, seconds, seconds_left=1.5)


def test_what_is_told_can_be_read_as_it_was(tmp_path):
    log = ProgressLog(tmp_path / "progress.jsonl")
    told = [status(1, 0.5), status(2, 1.0, "Zürich\n\u2028")]
    for each in told:
        log(each)
    assert read_progress(tmp_path / "progress.jsonl") == told


def test_a_reader_gets_each_line_once_and_no_half_of_one(tmp_path):
    path = tmp_path / "progress.jsonl"
    reader = ProgressReader(path)
    assert reader.news() == ([], False)
    log = ProgressLog(path)
    log(status(1, 1.0))
    assert reader.news() == ([status(1, 1.0)], True)
    assert reader.news() == ([], False)
    log(status(2, 2.0))
    whole = path.read_bytes()
    with path.open("r+b") as stream:
        stream.truncate(len(whole) - 5)
    assert reader.news() == ([], False)
    with path.open("r+b") as stream:
        stream.write(whole)
    assert reader.news() == ([status(2, 2.0)], False)


def test_a_run_that_is_taken_up_tells_no_round_twice(tmp_path):
    path = tmp_path / "progress.jsonl"
    log = ProgressLog(path)
    for k in (1, 2, 3):
        log(status(k, k))
    with path.open("ab") as stream:
        stream.write(b'{"site": nul')  # by a process that was killed
    reader = ProgressReader(path)
    reader.news()
    again = ProgressLog(path)  # from a checkpoint after round 1
    again(status(2, 1.8))
    again(status(3, 2.9))
    told = [status(1, 1), status(2, 1.8), status(3, 2.9)]
    assert read_progress(path) == told
    assert reader.news() == (told, True)


def test_sites_that_learn_alone_are_taken_up_each_by_itself(tmp_path):
    path = tmp_path / "progress.jsonl"
    log = ProgressLog(path)
    for each in (status(1, 1, "a"), status(1, 1, "b"), status(2, 2, "a"), status(2, 2, "b")):
        log(each)
    again = ProgressLog(path)
    again(status(2, 1.5, "a"))
    assert read_progress(path) == [status(1, 1, "a"), status(1, 1, "b"), status(2, 2, "b"), status(2, 1.5, "a")]


class StopError(Exception):
    pass


def test_a_run_keeps_its_progress_until_it_has_finished(tmp_path):
    simulate(3, mechanism="linear", sites=2, rows=20, seed=1).write(tmp_path / "data")
    sources = sorted((tmp_path / "data").glob("site-*.csv"))
    learner = make_learner("feddag", model="linear", it_inner=6, it_fl=3, rho_max=0.1)
    silos = learner.check(sources)
    run, told = Run.start(tmp_path / "run", learner, silos, sources), []

    def stop_after_two(each):
        told.append(each)
        if len(told) == 2:
            raise StopError

    with pytest.raises(StopError):
        run.learn(stop_after_two)
    assert read_progress(tmp_path / "run" / PROGRESS) == told
    run.learn()
    assert not (tmp_path / "run" / PROGRESS).exists()
