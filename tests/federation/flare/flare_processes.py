"""A federation of real processes on loopback, any of which a test may kill and start again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from feddag import simulate
from feddag.federation.flare.demo import free_port
from feddag.federation.flare.kits import provision
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
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        for name in names or ("server", *self.names):
            arguments = ["server", "--kit", self.kits[name]]
            if name != "server":
                arguments = ["site", "--kit", self.kits[name], "--data", self.folder / "data" / f"{name}.csv"]
            self.processes[name] = self._popen(name, *arguments)

    def run(self, out: str = "run") -> subprocess.Popen[bytes]:
        """The analyst's command, in the background."""
        return self._popen(
            "analyst",
            *("federation", "run", self.study_file, "--kit", self.kits["analyst"], "--out", self.folder / out),
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
        return (self.folder / f"{name}.log").read_text()

    @property
    def rounds(self) -> int:
        """How many the server has in its journal."""
        return len(Journal(self.memory("server") / "journal"))

    def memory(self, name: str) -> Path:
        return self.kits[name] / "feddag" / f"{self.study.name}-{self.study.digest[:12]}"

    def close(self) -> None:
        for name in list(self.processes):
            self.stop(name)

    def _popen(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "feddag", *map(str, arguments)],
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Until something holds; fails where a process that should go on has ended."""
    started = time.monotonic()
    while not reached():
        assert time.monotonic() - started < PATIENCE, "waited in vain"
        assert process is None or process.poll() is None, f"ended with {process.returncode}"
        time.sleep(0.2)
