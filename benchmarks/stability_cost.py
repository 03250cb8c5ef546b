"""What 50 bootstraps cost beside the fit: seconds, rounds and bytes of a study with secure sums, all in one process.

Type: python benchmarks/stability_cost.py [--variables 10] [--sites 4] [--rows 300] [--bootstraps 50]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from feddag import simulate
from feddag.deployment.server import build_server, run_study
from feddag.deployment.site import build_site
from feddag.federation.identities import Authority, Trust
from feddag.federation.policy import SHARING, Policy
from feddag.study import Study


def main() -> None:
    """Run the study without bootstraps and with them, and print the cost of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("variables", 10), ("sites", 4), ("rows", 300), ("bootstraps", 50), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    simulation = simulate(options.variables, mechanism="gp", sites=options.sites, rows=options.rows, seed=options.seed)
    print(f"{'bootstraps':>10} {'seconds':>8} {'rounds':>7} {'MB sent':>8} {'numbers per value':>18}")
    for bootstraps in (0, options.bootstraps):
        seconds, rounds, sent, numbers = cost(simulation, bootstraps)
        print(f"{bootstraps:>10} {seconds:8.1f} {rounds:7} {sent / 1e6:8.2f} {numbers:18.1f}", flush=True)


def cost(simulation, bootstraps: int) -> tuple[float, int, int, float]:
    """Return the seconds, rounds, bytes and numbers per value of one study."""
    columns, names = simulation.silos[0].columns, [silo.name for silo in simulation.silos]
    study = Study.parse(
        'name = "cost"\n[variables]\n'
        + "\n".join(f'{name} = "continuous"' for name in columns)
        + '\n[method]\nname = "search"\n'
        + "\n".join(f"[sites.{name}]" for name in names)
        + f"\n[trust]\nbootstraps = {bootstraps}\n"
    )
    authority, policy = Authority.create("cost"), Policy(sharing=SHARING, maximum_numbers_per_value=None)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sites = {
            silo.name: build_site(
                study,
                study.silo(silo.name, silo.to_frame()),
                folder / silo.name,
                folder / silo.name / "tables",
                authority.identify(silo.name),
                policy,
                lambda text: None,
            )
            for silo in simulation.silos
        }
        calls = {
            name: lambda request, content, timeout, site=site: site.reply(request, content)
            for name, site in sites.items()
        }
        started = time.monotonic()
        server = build_server(study, calls, folder, Trust(authority.root), lambda text: None)
        result = run_study(study, server, lambda status: None, print)
        seconds = time.monotonic() - started
        numbers = sites[names[0]].numbers_per_value
        for site in sites.values():
            site.close()
        return seconds, result.record["federation"]["rounds"], sum(server.ledger.sent.values()), numbers


if __name__ == "__main__":
    main()
