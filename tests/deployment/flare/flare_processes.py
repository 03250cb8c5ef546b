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
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from cryptography.x509 import load_pem_x509_certificate
from cryptography.x509.oid import NameOID
from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert, serialize_pri_key

from feddag import simulate
from feddag.deployment.demo import free_port
from feddag.deployment.flare.environment import KIT
from feddag.deployment.flare.kits import provision
from feddag.federation.journal import Journal
from feddag.study import Study

PATIENCE = 600.0
"""Seconds until a test gives up; nothing depends on how many it takes."""


class Federation:
    """A server and sites, each a process of its own with a log; the analyst's commands are run by the test."""

    def __init__(self, folder: Path, method: str, *, sites: int = 4, terms: str = "", privacy: str = "") -> None:
        self.folder = folder
        self.simulation = simulate(4, mechanism="linear", sites=sites, rows=120, seed=1)
        self.names = [silo.name for silo in self.simulation.silos]
        self.simulation.write(folder / "data")
        self.study_file = folder / "study.toml"
        variables = "\n".join(f'{name} = "continuous"' for name in self.simulation.silos[0].columns)
        listed = "\n".join(f"[sites.{name}]" for name in self.names)
        self.study_file.write_text(
            f'name = "test"\n[variables]\n{variables}\n[method]\n{method}\n{listed}\n'
            f"[federation]\n{terms}\n[privacy]\n{privacy}\n"
        )
        self.study = Study.load(self.study_file)
        self.kits = provision(self.study_file, folder / "kits", "localhost", free_port())
        self.options: tuple[object, ...] = ()
        """Of every site's command."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

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

    def run(self, out: str = "run") -> subprocess.Popen[bytes]:
        """The analyst's command, in the background."""
        return self._popen(
            "analyst",
            *("-m", "feddag", "federation", "run", self.study_file),
            *("--kit", self.kits["analyst"], "--out", self.folder / out),
        )

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

    def close(self) -> None:
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
                env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            )


def renew_certificates(kits: Mapping[str, Path], ends: Mapping[str, datetime]) -> None:
    """Give all kits certificates of a new authority, some of which hold only until a given moment."""
    root_key, root_public = generate_keys()
    root = Identity("test")
    authority = serialize_cert(generate_cert(root, root, root_key, root_public, ca=True))
    for name, kit in kits.items():
        own = kit / "startup" / ("server.crt" if name == "server" else "client.crt")
        subject = {each.oid: each.value for each in load_pem_x509_certificate(own.read_bytes()).subject}
        key, public = generate_keys()
        certificate = generate_cert(
            Identity(subject[NameOID.COMMON_NAME], "feddag", subject.get(NameOID.UNSTRUCTURED_NAME)),
            root,
            root_key,
            public,
            not_valid_before=datetime.now(UTC) - timedelta(days=30),
            not_valid_after=ends.get(name, datetime.now(UTC) + timedelta(days=30)),
        )
        own.write_bytes(serialize_cert(certificate))
        own.with_suffix(".key").write_bytes(serialize_pri_key(key))
        (kit / "startup" / "rootCA.pem").write_bytes(authority)


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
