"""Studies in one process: the sites' ends and the server's are those of a network, and calls are function calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from feddag.deployment.server import StudyResult, build_server, run_study
from feddag.deployment.site import build_site
from feddag.federation.identities import Authority, Trust
from feddag.federation.policy import SHARING, Policy
from feddag.federation.protocol import Ledger
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.silos.simulation import Simulation
from feddag.study import Study

Ask = Callable[[SiteEndpoint, str, str, Mapping[str, Any]], dict[str, Any]]
"""Has a site of a name reply to a request with a content."""


class Finished(NamedTuple):
    """A study that has ended."""

    result: StudyResult
    ledger: Ledger
    numbers_per_value: float
    """How many numbers have left the first site, for each value of its table."""
    seconds: float
    """Processor time of server and sites together."""


def study_of(method: str, simulation: Simulation, more: str = "") -> Study:
    """Return a study of simulated tables."""
    variables = "\n".join(f'{name} = "continuous"' for name in simulation.silos[0].columns)
    listed = "\n".join(f"[sites.{silo.name}]" for silo in simulation.silos)
    return Study.parse(f'name = "cost"\n[variables]\n{variables}\n[method]\n{method}\n{listed}\n{more}')


def reply(site: SiteEndpoint, name: str, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Have a site reply."""
    del name
    return site.reply(request, content)


def run(
    study: Study,
    simulation: Simulation,
    folder: Path,
    ask: Ask = reply,
    report: Callable[[str], None] = lambda text: None,
) -> Finished:
    """Run a study; the server's memory is in `folder / "server"`."""
    authority, policy = Authority.create("cost"), Policy(sharing=SHARING, maximum_numbers_per_value=None)
    sites = {
        silo.name: build_site(
            study,
            study.silo(silo.name, silo.to_frame()),
            folder / silo.name / "study",
            folder / silo.name / "tables",
            authority.identify(silo.name),
            policy,
            lambda text: None,
        )
        for silo in simulation.silos
    }

    def call(name: str) -> Callable[..., dict[str, Any]]:
        return lambda request, content, timeout: ask(sites[name], name, request, content)

    started = time.process_time()
    server = build_server(
        study, {name: call(name) for name in sites}, folder / "server", Trust(authority.root), lambda text: None
    )
    try:
        result = run_study(study, server, lambda status: None, report)
        seconds = time.process_time() - started
        numbers = sites[simulation.silos[0].name].numbers_per_value
        return Finished(result, server.ledger, numbers, seconds)
    finally:
        for site in sites.values():
            site.close()
