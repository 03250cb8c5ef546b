"""A study on a network whose calls are function calls: real endpoints, real sums, any mishap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from feddag import simulate
from feddag.deployment.server import build_server, run_study
from feddag.deployment.site import build_site
from feddag.federation.calls import OutOfReachError
from feddag.federation.identities import Authority, Trust
from feddag.federation.policy import SHARING, Policy
from feddag.federation.server_endpoint import ServerEndpoint
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.study import Study

SIMULATION = simulate(4, mechanism="linear", sites=4, rows=[60, 80, 70, 90], seed=1)
NAMES = tuple(silo.name for silo in SIMULATION.silos)
AUTHORITY = Authority.create("test")
IDENTITIES = {name: AUTHORITY.identify(name) for name in NAMES}
LINEAR = 'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 2, it_fl = 500, seed = 1 }'


def lose(request_lost, *sites_lost, when=lambda content: True):
    """Have a request not reach sites, if something holds of it."""

    def lost(site, request, content):
        if site in sites_lost and request == request_lost and when(content):
            raise OutOfReachError("gone")

    return lost


def from_round(round_):
    """Say of a request that it belongs to this round or to a later one."""
    return lambda content: content["round"] >= round_


ANY_SITES = "[federation]\nminimum_sites = 1\n"
"""Sites may leave and come back at any time: sums may then tell about single sites, to whoever compares them."""


def study_of(method=LINEAR, *, secure=True, more="", silos=SIMULATION.silos):
    variables = "\n".join(f'{name} = "continuous"' for name in silos[0].columns)
    sites = "\n".join(f"[sites.{silo.name}]" for silo in silos)
    return Study.parse(
        f'name = "test"\n[variables]\n{variables}\n[method]\n{method}\n{sites}\n'
        f"[privacy]\nsecure_sum = {str(secure).lower()}\n{more}"
    )


class Net:
    """All sites of a study in folders of their own, any of which can be killed and started again."""

    def __init__(self, folder: Path, study: Study, silos=SIMULATION.silos) -> None:
        self.folder, self.study = folder, study
        self.identities = {each.name: IDENTITIES.get(each.name) or AUTHORITY.identify(each.name) for each in silos}
        fewest = min(Policy.minimum_sites, study.federation.minimum_sites)
        self.policy = Policy(
            unprotected_sums=not study.privacy.secure_sum,
            minimum_sites=fewest,
            sharing=SHARING,
            maximum_numbers_per_value=None,
        )
        self.sites: dict[str, SiteEndpoint] = {}
        self.let_through()
        self.requests: list[tuple[str, str]] = []
        self.told: list[str] = []
        for silo in silos:
            self.start(silo)

    def let_through(self) -> None:
        """Have every request and every reply arrive as it is."""
        self.before = lambda site, request, content: None
        """Called before a request reaches a site; what it raises is what the server sees."""
        self.after = lambda site, request, reply: reply

    def start(self, silo) -> None:
        if silo.name in self.sites:
            self.sites.pop(silo.name).close()
        table = self.study.silo(silo.name, silo.to_frame())
        self.sites[silo.name] = build_site(
            self.study,
            table,
            self.memory(silo.name),
            self.folder / silo.name / "tables",
            self.identities[silo.name],
            self.policy,
            lambda text: self.told.append(f"{silo.name}: {text}"),
        )

    def memory(self, site) -> Path:
        return self.folder / site / self.study.digest[:12]

    def call(self, site):
        def called(request, content, timeout):
            self.requests.append((site, request))
            self.before(site, request, content)
            return self.after(site, request, self.sites[site].reply(request, content))

        return called

    def server(self, sites=None) -> ServerEndpoint:
        calls = {site: self.call(site) for site in (self.sites if sites is None else sites)}
        return build_server(self.study, calls, self.folder, Trust(AUTHORITY.root), self.told.append)

    def run(self, server):
        return run_study(self.study, server, lambda status: None, self.told.append)

    def learn(self, sites=None):
        server = self.server(sites)
        return self.run(server).learner, server


def in_process(study, silos=SIMULATION.silos, experiments_together=()):
    read = study.silos({silo.name: silo.to_frame() for silo in silos})
    return study.learner().fit([replace(silo, experiments_together=experiments_together) for silo in read])
