"""What a round over the network costs beyond the sites' own work: 4 sites on loopback, plain sums and secure ones.

    .venv/bin/python benchmarks/federation.py

Sites take one step of a linear model a round, which is nothing beside the messages; the time of a round is read off the
server's journal. It includes what protects a site: following the method, checking the sum, and the log on the disk.
Bytes are those of the messages themselves, without what TLS and FLARE put around them.
"""

from __future__ import annotations

import argparse
import statistics
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import feddag
from feddag.deployment.demo import free_port, running
from feddag.deployment.engine import ANALYST, SERVER
from feddag.deployment.engines import engine
from feddag.study import Study

_STUDY = """\
name = "overhead"
[variables]
{variables}
[method]
name = "feddag"
parameters = {{ sharing = "all", model = "linear", it_max = 1, it_inner = {rounds}, it_fl = 1, rho_update = "once" }}
{sites}
[privacy]
secure_sum = {secure}
"""


def measured(nodes: int, sites: int, rounds: int, *, secure: bool) -> tuple[float, float, float]:
    """The median seconds of a round, and the bytes that a site sends and receives in one."""
    simulation = feddag.simulate(nodes, mechanism="linear", sites=sites, rows=100, seed=1)
    names = [silo.name for silo in simulation.silos]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        simulation.write(folder / "data")
        policy = folder / "policy.toml"
        rules = [f"unprotected_sums = {str(not secure).lower()}", 'sharing = ["all"]']
        rules.append("maximum_numbers_per_value = 1e6")  # there are few rows and many rounds
        policy.write_text("\n".join(rules))
        policy.chmod(0o600)
        variables = "\n".join(f'{name} = "continuous"' for name in simulation.silos[0].columns)
        study_file = folder / "study.toml"
        study_file.write_text(
            _STUDY.format(
                variables=variables,
                rounds=rounds,
                sites="\n".join(f"[sites.{name}]" for name in names),
                secure=str(secure).lower(),
            )
        )
        kits = engine().provision(study_file, folder / "kits", "localhost", free_port())
        commands = [["server", "--kit", str(kits[SERVER])]]
        for name in names:
            data = folder / "data" / f"{name}.csv"
            commands.append(["site", "--kit", str(kits[name]), "--data", str(data), "--policy", str(policy)])
        study = Study.load(study_file)
        with (
            running(commands, {"FEDDAG_STATE": str(kits[ANALYST].parent / "state")}),
            engine().open_analyst(kits[ANALYST]).connect(study, print) as connected,
        ):
            learner = connected.run(lambda status: None)
        journal = next(kits[SERVER].rglob("journal"))
        written = sorted(path.stat().st_mtime for path in journal.glob("[0-9]*.json"))
        seconds = statistics.median(later - earlier for earlier, later in pairwise(written))
        traffic = learner.communication_
        return seconds, traffic.sent[names[0]] / len(written), traffic.received[names[0]] / len(written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 40])
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=60)
    asked = parser.parse_args()
    print("| nodes | sums | seconds per round | bytes sent per site and round | received | a d x d matrix of float32 |")
    print("|---|---|---|---|---|---|")
    for nodes in asked.nodes:
        for secure in (False, True):
            seconds, sent, received = measured(nodes, asked.sites, asked.rounds, secure=secure)
            kind, matrix = "secure" if secure else "plain", 4 * nodes**2
            print(f"| {nodes} | {kind} | {seconds:.3f} | {sent:,.0f} | {received:,.0f} | {matrix:,} |", flush=True)


if __name__ == "__main__":
    main()
