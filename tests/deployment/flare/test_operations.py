"""What an administrator does with a federation of real processes: look, stop, go on."""

from __future__ import annotations

import json
import urllib.request

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import PATIENCE, Federation, wait_until

import feddag
from feddag.deployment.demo import free_port

pytestmark = pytest.mark.slow  # .ci/run runs it

MANY_ROUNDS = """\
name = "feddag"
parameters = { sharing = "all", model = "linear", it_max = 2, it_inner = 1000, it_fl = 10 }
"""


@pytest.fixture
def federation(tmp_path):
    made = Federation(tmp_path, MANY_ROUNDS, policy="maximum_numbers_per_value = 1000")
    yield made
    made.close()


def test_all_see_whether_they_are_connected_and_a_study_can_be_stopped_and_goes_on(federation):
    analyst, site = federation.kits["analyst"], federation.names[0]
    unreachable = federation.command("federation", "status", "--kit", analyst, "--format", "json")
    assert unreachable.returncode == 1
    assert json.loads(unreachable.stdout)["server"] == "unreachable"

    federation.start("server")
    wait_until(lambda: f"Listening on port {federation.port}" in federation.log("server"))
    waiting = federation.run()
    wait_until(lambda: "0 of 4 sites are connected" in federation.log("analyst"), waiting)
    waiting.terminate()  # while it waits
    assert waiting.wait(PATIENCE) == 130
    assert "Interrupted. Resume with: feddag federation run" in federation.log("analyst")

    port = free_port()
    federation.options = (*federation.options, "--health", port)
    federation.start(site)
    wait_until(lambda: f"{site} has joined (1 connected)" in federation.log("server"))
    wait_until(lambda: f"Connected to the server at localhost:{federation.port}" in federation.log(site))
    some = federation.command("federation", "status", "--kit", analyst)
    assert some.returncode == 3
    assert "The server is idle" in some.stdout
    federation.options = federation.options[:-2]
    federation.start(*federation.names[1:])

    run = federation.run()
    wait_until(lambda: federation.rounds >= 3, run)
    running = json.loads(federation.command("federation", "status", "--kit", analyst, "--format", "json").stdout)
    assert running["server"] == "running"
    assert all(each["connected"] and each["doing"] in ("working", "waiting") for each in running["sites"].values())
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        metrics = page.read().decode()
    assert "feddag_healthy 1\n" in metrics
    assert "feddag_rounds_total 0\n" not in metrics

    stopped = federation.command("federation", "stop", "--kit", analyst)
    assert (stopped.returncode, stopped.stdout) == (0, "Stopped. What was done is kept.\n")
    assert run.wait(PATIENCE) == 2
    assert "The study was stopped" in federation.log("analyst")
    kept = federation.rounds
    assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
    record = json.loads((federation.folder / "run" / "run.json").read_text())["federation"]
    assert record["from_journal"] >= kept
    learned = feddag.load(federation.folder / "run").graph_
    assert learned.edges == federation.study.learner().fit(federation.simulation).graph_.edges
    assert federation.command("federation", "stop", "--kit", analyst).stdout == "Nothing runs.\n"
