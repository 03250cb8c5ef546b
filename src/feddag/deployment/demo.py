"""A whole federation on one machine, for a first look: every participant a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from feddag.deployment.engine import ANALYST, SERVER, Engine
from feddag.graphs import CausalGraph
from feddag.learners.base import Learner
from feddag.learners.status import Progress
from feddag.parallel import ONE_THREAD
from feddag.silos.simulation import simulate
from feddag.study import Study

_STUDY = """\
name = "demo"

[variables]
{variables}

[method]
name = "feddag"
parameters = {{ sharing = "all", model = "linear", it_fl = 1000, seed = {seed} }}

{sites}
"""


def run_demo(
    engine: Engine, sites: int, seed: int, progress: Progress, report: Callable[[str], None]
) -> tuple[Learner, CausalGraph]:
    """Run a study on simulated data, and return what was learned and the true graph."""
    simulation = simulate(5, mechanism="linear", sites=sites, rows=300, seed=seed)
    names = [silo.name for silo in simulation.silos]
    with TemporaryDirectory(prefix="feddag-demo-") as scratch:
        folder = Path(scratch)
        simulation.write(folder / "data")
        study_file = folder / "study.toml"
        study_file.write_text(
            _STUDY.format(
                variables="\n".join(f'{name} = "continuous"' for name in simulation.silos[0].columns),
                sites="\n".join(f"[sites.{name}]" for name in names),
                seed=seed,
            )
        )
        policy = folder / "policy.toml"
        policy.write_text('sharing = ["all"]\n')
        policy.chmod(0o644)
        kits = engine.provision(study_file, folder / "kits", "localhost", free_port())
        report(f"A server and {sites} sites start, each with certificates of its own")
        commands = [["server", "--kit", str(kits[SERVER])]]
        commands += [
            ["site", "--kit", str(kits[name]), "--data", str(folder / "data" / f"{name}.csv"), "--policy", str(policy)]
            for name in names
        ]
        with running(commands, {"FEDDAG_STATE": str(folder / "state")}):
            study = Study.load(study_file)
            with engine.open_analyst(kits[ANALYST]).connect(study, report) as connected:
                return connected.run(progress), simulation.truth


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(commands: list[list[str]], environment: Mapping[str, str]) -> Iterator[None]:
    """Run commands of feddag, with some environment variables, until the block ends."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "feddag", *command],
            env={**ONE_THREAD, **os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
