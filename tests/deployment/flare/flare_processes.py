"""A federation of real processes on loopback, any of which a test may kill and start again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

import psutil
import pytest

from feddag import simulate
from feddag.deployment.demo import free_port
from feddag.deployment.flare.environment import KIT
from feddag.deployment.flare.kits import certificate_file
from feddag.deployment.flare.provisioning import provision
from feddag.deployment.requests import Request
from feddag.federation.identities import Authority
from feddag.federation.journal import Journal
from feddag.federation.policy import SHARING
from feddag.study import Study

PATIENCE = 1200.0
"""Seconds until a test gives up; nothing depends on how many it takes."""


class Federation:
    """A server and sites, each a process of its own with a log; the analyst's commands are run by the test."""

    def __init__(
        self,
        folder: Path,
        method: str,
        *,
        sites: int = 4,
        terms: str = "",
        privacy: str = "",
        policy: str = "",
        variable: str = '"continuous"',
    ) -> None:
        self.folder = folder
        self.simulation = simulate(4, mechanism="linear", sites=sites, rows=120, seed=1)
        self.names = [silo.name for silo in self.simulation.silos]
        self.simulation.write(folder / "data")
        self.study_file = folder / "study.toml"
        variables = "\n".join(f"{name} = {variable}" for name in self.simulation.silos[0].columns)
        listed = "\n".join(f"[sites.{name}]" for name in self.names)
        self.study_file.write_text(
            f'name = "test"\n[variables]\n{variables}\n[method]\n{method}\n{listed}\n'
            f"[federation]\n{terms}\n[privacy]\n{privacy}\n"
        )
        self._set_up(f"sharing = {list(SHARING)}\n{policy}\n")

    def _set_up(self, policy: str) -> None:
        """Make what the participants of the study in the folder need."""
        self.study = Study.load(self.study_file)
        self.port = free_port()
        self.kits = provision(self.study_file, self.folder / "kits", "localhost", self.port)
        rules = self.folder / "policy.toml"
        rules.write_text(policy)
        rules.chmod(0o600)
        self.options: tuple[object, ...] = ("--policy", rules)
        """Of every site's command."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._analysts: list[subprocess.Popen[bytes]] = []

    def start(self, *names: str, environment: Mapping[str, str] | None = None) -> None:
        for name in names or ("server", *self.names):
            arguments = ["server", "--kit", self.kits[name]]
            if name != "server":
                arguments = ["site", "--kit", self.kits[name], "--data", self.table(name), *self.options]
            self.processes[name] = self._popen(name, "-m", "feddag", *arguments, environment=environment)

    def knock(self, name: str) -> None:
        """Ask the server something with a participant's certificate, whatever feddag or FLARE think of it."""
        startup = self.kits[name] / "startup"
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(startup / "rootCA.pem"))
        context.check_hostname = False
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
        target = json.loads((startup / "fed_client.json").read_bytes())["servers"][0]["service"]["target"]
        host, port = target.split(":")
        with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection.recv(1)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """All processes of a participant stand still, as on a machine that is far too busy."""
        members = [self.processes[name].pid]
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(KIT) == str(self.kits[name]):
                    members.append(process.pid)
        for member in members:
            os.kill(member, signal.SIGSTOP)
        try:
            yield
        finally:
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGCONT)

    def run(
        self, out: str = "run", environment: Mapping[str, str] | None = None, study: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """The analyst's command, in the background."""
        process = self._popen(
            "analyst",
            *("-m", "feddag", "federation", "run", study or self.study_file),
            *("--kit", self.kits["analyst"], "--out", self.folder / out),
            environment=environment,
        )
        self._analysts.append(process)
        return process

    def command(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "feddag", *map(str, arguments)],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes.pop(name).wait()

    def stop(self, name: str) -> int:
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(PATIENCE)

    def log(self, name: str) -> str:
        """What it said, however its lines were broken."""
        return " ".join((self.folder / f"{name}.log").read_text().split())

    def table(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.csv"

    @property
    def rounds(self) -> int:
        """How many the server has in its journal."""
        return len(Journal(self.memory("server") / "journal"))

    def memory(self, name: str) -> Path:
        return self.kits[name] / "feddag" / f"{self.study.name}-{self.study.digest[:12]}"

    @contextmanager
    def after_study(self) -> Iterator[Self]:
        """Start all, run the study to its end, and leave all up until the block ends."""
        try:
            self.start()
            assert self.run().wait(PATIENCE) == 0, self.log("analyst")
            yield self
        finally:
            self.close()

    def close(self) -> None:
        for analyst in self._analysts:  # one is left where a test has failed
            analyst.kill()
            analyst.wait()
        for process in self.processes.values():  # all at once: each takes seconds to end
            process.terminate()
        for name in list(self.processes):
            self.stop(name)

    def _popen(
        self, name: str, *arguments: object, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "FEDDAG_STATE": str(self.folder / "state"),
                    **(environment or {}),
                },
            )


def end_certificate(federation: Federation, name: str, ends: datetime) -> Path:
    """Give a site's kit a certificate of its own authority that holds only until a given moment."""
    authority = federation.folder / "kits" / "authority"
    request = Request.read(authority / "requests" / f"{name}.request")
    path = certificate_file(federation.kits[name], "site")
    path.write_bytes(Authority.load(authority).certify_tls(name, request.tls_key(), ends=ends))
    return path


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Put a folder on a file system of its own, so small that a test can fill it."""
    aside = folder.with_name(f"{folder.name}.aside")
    folder.mkdir(exist_ok=True)
    folder.rename(aside)
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "feddag-test", folder], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.decode().strip()}")
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Leave no room on a folder's file system; the room is back when the file that takes it is removed."""
    ballast = folder / "ballast"
    with suppress(OSError), open(ballast, "wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    return ballast


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Until something holds; fails where a process that should go on has ended."""
    started = time.monotonic()
    while not reached():
        assert time.monotonic() - started < PATIENCE, "waited in vain"
        assert process is None or process.poll() is None, f"ended with {process.returncode}"
        time.sleep(0.2)
