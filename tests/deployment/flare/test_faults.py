"""Participants that die, come back, or have no business here: the study stays whole, and everyone is told why."""

from __future__ import annotations

import os
import random
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import PATIENCE, Federation, end_certificate, fill, small_disk, wait_until

import feddag
from feddag.deployment.flare.kits import Kit
from feddag.deployment.flare.provisioning import provision as make_kits
from feddag.federation.audit import verify
from feddag.federation.checkpoint import load_checkpoint
from feddag.federation.journal import Journal

pytestmark = pytest.mark.slow

MANY_ROUNDS = """\
name = "feddag"
parameters = { sharing = "all", model = "linear", it_max = 3, it_inner = 1000, it_fl = 50 }
"""
SO_MANY_THAT_A_SITE_CAN_RETURN = MANY_ROUNDS.replace("it_fl = 50", "it_fl = 10")
ALL_SITES = "quorum = 4"


@pytest.fixture
def federation(tmp_path):
    made = []

    def make(terms="", privacy="", method=MANY_ROUNDS, policy=""):
        made.append(Federation(tmp_path, method, terms=terms, privacy=privacy, policy=policy))
        made[0].start()
        return made[0]

    yield make
    made[0].close()


def in_process(federation: Federation):
    return federation.study.learner().fit(federation.simulation)


def under_way(federation: Federation) -> subprocess.Popen[bytes]:
    """The analyst's command, some rounds into the study."""
    analyst = federation.run()
    wait_until(lambda: federation.rounds >= 5, analyst)
    return analyst


def assert_ended_in_the_same_numbers(federation: Federation) -> None:
    learned = feddag.load(federation.folder / "run")
    np.testing.assert_allclose(learned.U_, in_process(federation).U_, rtol=1e-5, atol=1e-7)


def test_a_site_that_is_killed_is_waited_for_and_the_study_ends_as_if_it_had_never_been_away(federation):
    federation = federation()
    site = federation.names[1]
    analyst = under_way(federation)
    federation.kill(site)
    wait_until(lambda: f"waits for {site}" in federation.log("analyst"), analyst)
    federation.start(site)
    assert analyst.wait(PATIENCE) == 0, federation.log("analyst")
    assert_ended_in_the_same_numbers(federation)


def test_a_site_that_is_killed_is_done_without_where_all_allow_it_and_rejoins_with_its_state(federation):
    policy = "minimum_sites = 1\nmaximum_numbers_per_value = 100"  # so many rounds release 10 of them
    federation = federation("minimum_sites = 1", method=SO_MANY_THAT_A_SITE_CAN_RETURN, policy=policy)
    site = federation.names[1]
    analyst = under_way(federation)
    federation.kill(site)
    killed_at = federation.rounds
    wait_until(lambda: federation.rounds >= killed_at + 3, analyst)  # the others go on
    federation.start(site)
    assert analyst.wait(PATIENCE) == 0, federation.log("analyst")
    log = federation.log("analyst")
    assert f"Site '{site}' is out of reach" in log
    assert f"Back again: {site}" in log
    learned = feddag.load(federation.folder / "run")
    assert learned.graph_.edges == in_process(federation).graph_.edges
    sent = learned.communication_.sent
    assert 0 < sent[site] < sent[federation.names[0]]


def test_below_the_quorum_the_study_pauses_until_enough_sites_are_back(federation):
    federation = federation()
    analyst = under_way(federation)
    for site in federation.names[:2]:
        federation.kill(site)
    wait_until(lambda: "What was done is kept" in federation.log("analyst"), analyst)
    paused_at = federation.rounds
    federation.start(*federation.names[:2])
    assert analyst.wait(PATIENCE) == 0, federation.log("analyst")
    assert federation.rounds > paused_at
    assert feddag.load(federation.folder / "run").graph_.edges == in_process(federation).graph_.edges


def test_a_server_that_is_killed_goes_on_from_its_last_round_and_ends_in_the_same_numbers(federation):
    federation = federation(ALL_SITES)
    analyst = under_way(federation)
    federation.kill("server")
    federation.start("server")
    assert analyst.wait(PATIENCE) == 0, federation.log("analyst")
    assert_ended_in_the_same_numbers(federation)


def test_an_analyst_who_is_killed_goes_on_with_the_same_command(federation):
    federation = federation(ALL_SITES)
    analyst = under_way(federation)
    analyst.kill()
    analyst.wait()
    assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
    assert_ended_in_the_same_numbers(federation)


def test_a_site_whose_data_changed_is_told_so_and_so_is_the_analyst(federation):
    federation = federation(ALL_SITES)
    analyst = under_way(federation)
    site = federation.names[0]
    federation.kill(site)
    table = federation.folder / "data" / f"{site}.csv"
    original = table.read_text()
    table.write_text("\n".join(original.splitlines()[:-1]) + "\n")
    federation.start(site)
    wait_until(lambda: "Warning: Site" in federation.log(site), federation.processes[site])  # before it is asked
    assert analyst.wait(PATIENCE) == 2
    assert f"{site}: its own log says why" in federation.log("analyst")
    assert "the data have changed since the study began" in federation.log(site)
    federation.stop(site)
    table.write_text(original)
    federation.start(site)
    assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
    assert_ended_in_the_same_numbers(federation)


def test_a_site_with_another_study_file_is_told_so_and_so_is_the_analyst(federation):
    federation = federation(ALL_SITES)
    site = federation.names[2]
    federation.stop(site)
    study = Kit.open(federation.kits[site], "site").study_file
    study.write_text(study.read_text().replace("it_max = 3", "it_max = 4"))
    federation.start(site)
    assert federation.run().wait(PATIENCE) == 2
    assert "Give all participants the same study file" in federation.log("analyst")
    assert "Give all participants the same study file" in federation.log(site)


def test_a_site_whose_certificate_has_expired_is_not_let_in_and_the_others_finish(tmp_path):
    federation = Federation(tmp_path, MANY_ROUNDS)
    site, others = federation.names[1], [name for name in federation.names if name != federation.names[1]]
    yesterday = datetime.now(UTC) - timedelta(days=1)
    certificate = end_certificate(federation, site, yesterday)
    federation.start("server", *others)
    try:
        refused = federation.command("site", "--kit", federation.kits[site], "--data", federation.table(site))
        assert refused.returncode == 2
        assert f"{certificate}: this certificate expired on {yesterday:%Y-%m-%d}" in refused.stderr
        assert "feddag federation renew" in refused.stderr
        wait_until(lambda: all((federation.kits[name] / "log.txt").exists() for name in others))
        with pytest.raises(ssl.SSLError, match="certificate expired"):
            federation.knock(site)
        wait_until(lambda: "certificate is not valid here (certificate has expired)" in federation.log("server"))
        assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
    finally:
        federation.close()
    assert f"Waiting for {site}: 3 of 4 sites are connected" in federation.log("analyst")
    learned = feddag.load(federation.folder / "run")
    assert learned.communication_.sent[site] == 0
    assert learned.graph_.edges == in_process(federation).graph_.edges


def test_a_site_that_is_too_slow_is_done_without_until_it_has_finished(federation):
    federation = federation("timeout = 15\nminimum_sites = 1", policy="minimum_sites = 1")
    site = federation.names[1]
    analyst = under_way(federation)
    with federation.frozen(site):
        slow = f"Site '{site}' is too slow: it took longer than the 15 seconds that the study allows for a task"
        wait_until(lambda: slow in federation.log("analyst"), analyst)
    wait_until(lambda: f"Site '{site}' has finished, and takes part again" in federation.log("analyst"), analyst)
    assert analyst.wait(PATIENCE) == 0, federation.log("analyst")
    assert slow in federation.log("server")
    assert "took longer than the 15 seconds that the study allows for a task" in federation.log(site)
    learned = feddag.load(federation.folder / "run")
    assert learned.graph_.edges == in_process(federation).graph_.edges
    sent = learned.communication_.sent
    assert 0 < sent[site] < sent[federation.names[0]]


@pytest.mark.parametrize(
    ("hostile", "told"),
    [
        ("nan", "the array 'graph' has a value that is no finite number"),
        ("shape", "its answer has the form (('graph', 'float32', (3, 3)),), and others'"),
    ],
)
def test_a_site_that_sends_what_cannot_be_summed_is_left_out_and_both_sides_say_why(tmp_path, hostile, told):
    federation = Federation(tmp_path, MANY_ROUNDS, privacy="secure_sum = false", policy="unprotected_sums = true")
    site = federation.names[2]
    honest = [name for name in federation.names if name != site]
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parent / "hostile"), os.environ.get("PYTHONPATH")]))
    federation.start("server", *honest)
    federation.start(site, environment={"PYTHONPATH": paths, "FEDDAG_HOSTILE": hostile})
    try:
        assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
    finally:
        federation.close()
    for participant in ("analyst", "server", site):
        assert told in federation.log(participant)
    assert f"Site '{site}' does not take part any more" in federation.log("analyst")
    assert feddag.load(federation.folder / "run").graph_.edges == in_process(federation).graph_.edges


def assert_no_traceback(federation):
    """Neither the study nor Python's logging, whose file is on the full disk, may print one."""
    for name in federation.processes:
        assert "Traceback" not in federation.log(name)
        assert "Logging error" not in federation.log(name)


def test_a_site_whose_disk_is_full_says_so_and_goes_on_once_there_is_room(tmp_path):
    federation = Federation(tmp_path, MANY_ROUNDS, terms=ALL_SITES)
    site = federation.names[0]
    with small_disk(federation.kits[site], "32m"):
        federation.start()
        try:
            analyst = under_way(federation)
            ballast = fill(federation.kits[site])
            assert analyst.wait(PATIENCE) == 2
            memory = federation.memory(site)
            assert f"{memory}: No space left on device. Make room there" in federation.log(site)
            for participant in ("analyst", "server"):
                assert "its own log says why" in federation.log(participant)
            assert not list(memory.glob(".*.tmp"))
            assert_no_traceback(federation)
            load_checkpoint(memory / "site.npz")
            verify(memory / "audit.jsonl")
            ballast.unlink()
            assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
        finally:
            federation.close()
    assert_ended_in_the_same_numbers(federation)


def test_a_server_whose_disk_is_full_says_so_and_goes_on_once_there_is_room(tmp_path):
    federation = Federation(tmp_path, MANY_ROUNDS, terms=ALL_SITES)
    with small_disk(federation.kits["server"] / "feddag", "1m"):
        federation.start()
        try:
            analyst = under_way(federation)
            ballast = fill(federation.kits["server"] / "feddag")
            assert analyst.wait(PATIENCE) == 2
            journal = federation.memory("server") / "journal"
            for participant in ("analyst", "server"):
                assert f"{journal}: No space left on device. Make room there" in federation.log(participant)
            assert_no_traceback(federation)
            assert not list(journal.glob(".*"))
            kept = federation.rounds
            assert Journal(journal).read(kept - 1) is not None
            ballast.unlink()
            assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
            assert federation.rounds > kept
        finally:
            federation.close()
    assert_ended_in_the_same_numbers(federation)


def test_a_site_can_host_the_server_so_that_no_third_party_sees_the_graph(tmp_path):
    """The proxy server of the paper's appendix C.4: server and analyst run where one of the sites is."""
    federation = Federation(tmp_path, MANY_ROUNDS, sites=3)
    host = tmp_path / "host"
    kits = make_kits(federation.study_file, host, "localhost", 8399, server_at=federation.names[0])
    assert (
        kits["server"].parent
        == kits["analyst"].parent
        == kits[federation.names[0]].parent
        == host / federation.names[0]
    )
    assert all(kits[name].parent == host for name in federation.names[1:])
    federation.kits = kits
    with federation.after_study():
        edges = feddag.load(federation.folder / "run").graph_.edges
    assert edges == in_process(federation).graph_.edges


def test_twenty_kills_at_random_change_nothing(federation):
    federation = federation(ALL_SITES)
    draw = random.Random(1)
    analyst = federation.run()
    for _ in range(20):
        reached = federation.rounds + draw.randrange(1, 3)
        wait_until(lambda reached=reached: federation.rounds >= reached or analyst.poll() is not None)
        if analyst.poll() is not None:
            break
        victim = draw.choice(["server", *federation.names])
        federation.kill(victim)
        federation.start(victim)
    assert analyst.wait(PATIENCE) == 0, federation.log("analyst")
    assert_ended_in_the_same_numbers(federation)
