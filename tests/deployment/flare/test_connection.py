"""An operator sees whether a daemon is connected, and who has joined."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import wait_until

import feddag.deployment.flare.connection as module
from feddag import FeddagError
from feddag.deployment.demo import free_port
from feddag.deployment.flare import apps
from feddag.deployment.flare.analyst import Analyst
from feddag.deployment.flare.connection import Connection, check_port
from feddag.deployment.flare.environment import KIT
from feddag.deployment.flare.extra import flare
from feddag.deployment.flare.kits import Kit
from feddag.deployment.flare.milestones import Milestones, forget_joined, read_joined
from feddag.deployment.flare.provisioning import provision
from feddag.deployment.flare.vitals import vitals
from feddag.federation.calls import OutOfReachError

STUDY = """
name = "asthma"
[variables]
age = "continuous"
dose = "continuous"
[method]
name = "notears"
[sites.basel]
[sites.bern]
[sites.lyon]
"""
CLIENT = "import socket, sys, time; s = socket.create_connection(('localhost', int(sys.argv[1]))); time.sleep(600)"


@pytest.fixture
def kits(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    port = free_port()
    folders = provision(tmp_path / "study.toml", tmp_path / "kits", "localhost", port)
    roles = {"server": "server", "basel": "site"}
    return {name: Kit.open(folders[name], role) for name, role in roles.items()}, port


def look_until(connection: Connection, daemon: int, state: str) -> str:
    messages: list[str] = []

    def reached() -> bool:
        if message := connection.look(daemon):
            messages.append(message)
        return connection.state == state

    wait_until(reached)
    return messages[-1]


def test_a_site_tells_that_it_cannot_reach_the_server_and_that_it_is_connected(kits, monkeypatch):
    (opened, port), connection = kits, None
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    connection = Connection(opened["basel"])
    told = look_until(connection, subprocess.Popen(["sleep", "0"]).pid, "unreachable")
    assert told.startswith(f"Cannot reach localhost:{port} (Connection refused)")
    assert not vitals(opened["basel"], connection).healthy
    with socket.create_server(("localhost", port)):
        daemon = subprocess.Popen([sys.executable, "-c", CLIENT, str(port)])
        try:
            told = look_until(connection, daemon.pid, "connected")
            assert told.startswith(f"Connected to the server at localhost:{port}.")
            health = vitals(opened["basel"], connection)
            assert health.healthy
            assert health.details["name"] == "basel"
            assert any("certificate_days_left 36" in str(metric) for metric in health.metrics)
        finally:
            daemon.kill()
            daemon.wait()
        assert "does not let this site in yet" in look_until(connection, daemon.pid, "unreachable")


def test_a_port_that_is_in_use_is_refused_before_the_server_starts(monkeypatch):
    monkeypatch.setattr(module, "_FREE_WITHIN", 0.0)
    with socket.create_server(("", 0)) as other:
        with pytest.raises(FeddagError, match=r"Port \d+ cannot be used \(Address already in use\)"):
            check_port(other.getsockname()[1])
        port = other.getsockname()[1]
    check_port(port)


def test_who_joins_and_leaves_is_told_and_kept(kits, monkeypatch, caplog):
    opened = kits[0]["server"]
    monkeypatch.setenv(KIT, str(opened.folder))
    handler = Milestones()

    def flare(text: str) -> None:
        handler.emit(logging.LogRecord("nvflare.server", logging.INFO, "", 0, text, (), None))

    with caplog.at_level(logging.INFO, "feddag.federation"):
        flare("Client: New client basel@127.0.0.1 joined. Sent token.  Total clients: 1")
        flare("Client: New client bern@127.0.0.1 joined. Sent token.  Total clients: 2")
        flare("Remove the dead Client. Name: basel.  Total clients: 1")
    assert [record.getMessage() for record in caplog.records] == [
        "basel has joined (1 connected)",
        "bern has joined (2 connected)",
        "basel is not connected any more (1 connected)",
    ]
    text = "\n".join(map(str, vitals(opened, Connection(opened)).metrics))
    assert 'feddag_site_connected{site="basel"} 0\nfeddag_site_connected{site="bern"} 1\n' in text
    forget_joined(opened.folder)
    assert read_joined(opened.folder) == {}


def test_the_terminal_s_format_stands_in_the_rules(kits):
    opened = kits[0]["server"]
    opened.write_rules("json")
    config = json.loads((opened.folder / "local" / "log_config.json").read_text())
    assert config["formatters"]["plain"] == {"()": "feddag.deployment.logs.JsonFormatter"}
    assert "milestones" in config["loggers"]["root"]["handlers"]


def test_a_server_that_knows_no_such_job_is_told_in_words(kits, monkeypatch):
    """As when the server's kit was replaced in mid-study."""
    opened, _ = kits
    folder = opened["basel"].folder.parent / "analyst"
    told: list[str] = []
    found = Analyst(Kit.open(folder, "analyst"), opened["basel"].study(), told.append)
    api = flare("nvflare.fuel.flare_api.api_spec")

    class Forgetful:
        def get_job_meta(self, job):
            raise api.JobNotFound(f"no such job: {job}")

    found._session = Forgetful()
    monkeypatch.setattr("feddag.deployment.flare.analyst._POLL", 0.0)
    outcome = found._follow("a-job", lambda status: None)
    assert outcome.status == "lost"
    assert "its kit was replaced" in outcome.message


def test_a_site_whose_connection_is_lost_has_not_timed_out():
    class Site:
        name = "basel"

        def __call__(self, timeout):
            return self

        def ask(self, request, content):
            raise RuntimeError("call to basel.client.ask failed: function ask timed out after 600.0 seconds")

    with pytest.raises(OutOfReachError, match=r"^its connection was lost$"):
        apps._call(Site())("ping", {}, 600.0)
    with pytest.raises(OutOfReachError, match="timed out after"):
        apps._call(Site())("ping", {}, 0.0)
