"""A study on a network whose calls are function calls: real stations, real sums, any mishap."""

from __future__ import annotations

from pathlib import Path

from feddag import simulate
from feddag.deployment.endpoints import (
    StudyTable,
    learn,
    noise_in_words,
    pinned_identities,
    secure_server,
    study_tasks,
)
from feddag.federation.journal import Journal
from feddag.federation.policy import Policy
from feddag.federation.server_endpoint import ServerEndpoint, Terms
from feddag.federation.site_endpoint import Membership, SiteEndpoint
from feddag.study import Study

SIMULATION = simulate(4, mechanism="linear", sites=4, rows=[60, 80, 70, 90], seed=1)
NAMES = tuple(silo.name for silo in SIMULATION.silos)
LINEAR = 'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 3, it_fl = 500, seed = 1 }'


def study_of(method=LINEAR, *, secure=True, more=""):
    variables = "\n".join(f'{name} = "continuous"' for name in SIMULATION.silos[0].columns)
    sites = "\n".join(f"[sites.{name}]" for name in NAMES)
    return Study.parse(
        f'name = "test"\n[variables]\n{variables}\n[method]\n{method}\n{sites}\n'
        f"[privacy]\nsecure_sum = {str(secure).lower()}\n{more}"
    )


class Net:
    """All sites of a study as stations in folders of their own, any of which can be killed and started again."""

    def __init__(self, folder: Path, study: Study, wrap=lambda site: site) -> None:
        self.folder, self.study, self.wrap = folder, study, wrap
        self.stations: dict[str, SiteEndpoint] = {}
        self.before = lambda site, request, content: None
        """Called before a request reaches a site; what it raises is what the server sees."""
        self.after = lambda site, request, reply: reply
        self.requests: list[tuple[str, str]] = []
        self.timeout = 30.0
        self.told: list[str] = []
        for silo in SIMULATION.silos:
            self.start(silo)

    def start(self, silo) -> None:
        study = self.study
        if silo.name in self.stations:
            self.stations.pop(silo.name).close()
        self.stations[silo.name] = SiteEndpoint(
            self.folder / silo.name / "memory",
            Membership(
                study.digest,
                NAMES,
                NAMES.index(silo.name),
                study.federation.quorum,
                study.privacy.secure_sum,
                study.federation.timeout,
                pinned_identities(study),
                noise_in_words(study),
            ),
            self.wrap(StudyTable(study, study.silo(silo.name, silo.to_frame()))),
            tasks=study_tasks(study),
            rows=silo.rows,
            data=silo.digest(),
            policy=Policy(unprotected_sums=not study.privacy.secure_sum),
            tell=self.told.append,
        )

    def call(self, site):
        def called(request, content, timeout):
            self.requests.append((site, request))
            self.before(site, request, content)
            return self.after(site, request, self.stations[site].reply(request, content))

        return called

    def server(self, sites=NAMES) -> ServerEndpoint:
        terms = Terms(self.study.digest, NAMES, self.study.federation.quorum, self.timeout)
        calls = {site: self.call(site) for site in sites}
        return ServerEndpoint(
            terms, calls, Journal(self.folder / "journal"), self.told.append, secure_server(self.study)
        )

    def learn(self, sites=NAMES):
        network = self.server(sites)
        try:
            network.open()
            return learn(self.study, network, lambda status: None), network
        finally:
            network.close()


def in_process(study):
    return study.learner().fit(study.silos({silo.name: silo.to_frame() for silo in SIMULATION.silos}))
