"""What 50 bootstraps cost beside the fit: seconds, rounds and bytes of a study with secure sums, all in one process.

The sites' ends and the server's are those of a network; calls between them are function calls. CPU seconds are those of
the server and all sites together, each of which follows the method to verify its questions.

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
    print("| bootstraps | CPU s | rounds | MB that sites send | receive | numbers per value |")
    print("|---|---|---|---|---|---|")
    costs = []
    for bootstraps in (0, options.bootstraps):
        costs.append(cost(simulation, bootstraps))
        seconds, rounds, sent, received, numbers = costs[-1]
        cells = (f"{bootstraps}", f"{seconds:.0f}", f"{rounds:.0f}", f"{sent / 1e6:.1f}", f"{received / 1e6:.1f}")
        print(f"| {' | '.join(cells)} | {numbers:.1f} |", flush=True)
    without, having = costs
    ratios = (f"{(more - less) / less:.1f}" for less, more in zip(without, having, strict=True))
    print(f"| the bootstraps alone, over the fit | {' | '.join(ratios)} |")


def cost(simulation, bootstraps: int) -> tuple[float, ...]:
    """Return the CPU seconds, rounds, bytes sent and received, and numbers per value of one study."""
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
        started = time.process_time()
        server = build_server(study, calls, folder, Trust(authority.root), lambda text: None)
        result = run_study(study, server, lambda status: None, print)
        seconds = time.process_time() - started
        numbers = sites[names[0]].numbers_per_value
        for site in sites.values():
            site.close()
        sent, received = (sum(each.values()) for each in (server.ledger.sent, server.ledger.received))
        return seconds, result.record["federation"]["rounds"], sent, received, numbers


if __name__ == "__main__":
    main()
