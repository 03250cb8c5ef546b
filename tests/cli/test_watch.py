from __future__ import annotations

import http.client
import json
import threading
import time

import pytest

from feddag import FeddagError, make_learner
from feddag.reports.web import LOOPBACK, live_server
from feddag.runs import Run, at_work, follow, monitor


@pytest.fixture
def started(sites, tmp_path):
    """A run that has a folder, and has not begun to learn."""
    learner = make_learner("feddag", model="linear", it_inner=20, it_fl=5, rho_max=1.0)
    return Run.start(tmp_path / "run", learner, learner.check(sites), sites)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(monitor, "GRACE", 0.2)


def test_a_run_is_followed_to_its_end(feddag, started):
    run = started
    begun, seen = threading.Event(), []

    def slowly(status):
        begun.set()
        time.sleep(0.05)

    learning = threading.Thread(target=run.learn, args=(slowly,))
    learning.start()
    assert begun.wait(60)
    assert at_work(run.folder)
    for status in follow(run.folder, interval=0.02):
        seen.append(status.seconds)
    learning.join()
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert not at_work(run.folder)
    result = feddag("watch", run.folder)
    assert result.exit_code == 0
    assert "edges among 3 variables" in result.stdout


@pytest.mark.usefixtures("impatient")
def test_a_run_that_nobody_works_on_has_stopped(feddag, started):
    run = started

    def interrupt(status):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.learn(interrupt)
    result = feddag("watch", run.folder)
    assert result.exit_code == 3
    assert f"Go on with: feddag learn --resume {run.folder}" in result.stderr
    assert "edges" in result.stderr  # the last status
    run.learn()
    assert feddag("watch", run.folder).exit_code == 0


@pytest.mark.usefixtures("impatient")
def test_a_lock_that_a_killed_process_has_left_is_nobody_at_work(started):
    run = started
    (run.folder / ".lock").touch()
    assert not at_work(run.folder)
    assert list(follow(run.folder, interval=0.02)) == []


def test_looking_does_not_keep_a_run_from_being_taken_up(started):
    run = started
    (run.folder / ".lock").touch()
    stop = threading.Event()

    def look():
        while not stop.is_set():
            at_work(run.folder)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        run.learn()
    finally:
        stop.set()
        looking.join()
    assert Run.open(run.folder).finished


def test_mistakes_are_told_in_a_line(feddag, tmp_path, started):
    assert "is not a run" in feddag("watch", tmp_path).stderr
    result = feddag("watch", started.folder, "--port", "8000")
    assert result.exit_code == 2
    assert "--port is for --web" in result.stderr


@pytest.fixture
def served(started):
    run = started
    run.learn()
    with live_server(run.folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(server, path, **headers):
    connection = http.client.HTTPConnection(*server.server_address, timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_only_this_machine_can_ask_and_only_for_the_run(served):
    assert served.server_address[0] == LOOPBACK
    assert ask(served, "/")[1].startswith("<!DOCTYPE html>")
    assert json.loads(ask(served, "/state.json")[1])["state"] == "finished"
    assert ask(served, "/run.json")[0] == ask(served, "/../run.json")[0] == 404
    assert ask(served, "/", Host="elsewhere.example:80")[0] == 403


def test_a_port_in_use_is_told(served, started):
    port = served.server_address[1]
    with pytest.raises(FeddagError, match=f"Port {port} cannot be used"):
        live_server(started.folder, port)


def test_the_address_is_printed_and_ctrl_c_ends_it(feddag, started, monkeypatch):
    def interrupted(server):
        raise KeyboardInterrupt

    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", interrupted)
    result = feddag("watch", started.folder, "--web")
    assert result.stdout.startswith("Watch it at http://127.0.0.1:")
    assert result.exit_code == 0
