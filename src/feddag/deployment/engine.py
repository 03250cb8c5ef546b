"""What an engine gives to the command line: kits for all participants, their processes, and an analyst's connection.

An engine carries calls between a study's server and its sites. Nothing above this package knows which one does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from feddag.deployment.logs import LogFormat
from feddag.deployment.proxy import Proxy
from feddag.learners.base import Learner
from feddag.learners.status import Progress
from feddag.study import Study
from feddag.trust.graph_checks import GraphChecks

if TYPE_CHECKING:
    from feddag.deployment.offers import Studies
    from feddag.federation.identities import SiteIdentity, Trust

SERVER, ANALYST = "server", "analyst"
"""The names of the two kits that are no site's."""
AUTHORITY = "authority"
"""The folder, beside the kits, of whoever signs them."""


@dataclass(frozen=True)
class Standing:
    """How a server stands."""

    server: str
    """Idle, or running a study."""
    sites: Mapping[str, float]
    """Those that are connected, and for how many seconds nothing was heard of each."""
    jobs: list[str]
    """Those that run."""
    at_work: Mapping[str, float]
    """Sites that work on a task, and for how many seconds."""
    figures: Mapping[str, Any]
    """How far the method is."""


@dataclass(frozen=True)
class Watching:
    """How operators and monitors follow a participant's process."""

    log_format: LogFormat = "text"
    health: tuple[str, int] | None = None
    """Host and port of the health page and the metrics."""


@dataclass(frozen=True)
class KitRequest:
    """A request for a kit."""

    file: Path
    fingerprint: str
    """Of the participant's identity, which signed it."""


class Kit(Protocol):
    """One participant's folder: what proves who it is, and what it remembers."""

    @property
    def folder(self) -> Path:
        """The folder itself."""
        ...

    @property
    def name(self) -> str:
        """The participant's name."""
        ...

    def study(self) -> Study:
        """Read the study that the participant has agreed to."""
        ...

    def trust(self) -> Trust:
        """Return whom the participant believes."""
        ...

    def studies(self) -> Studies:
        """Return the studies that the participant has agreed to, and those that were offered."""
        ...


class ServerKit(Kit, Protocol):
    """The server's kit."""

    def run(self, watching: Watching) -> int:
        """Serve in the foreground until a signal ends it, and return the exit code."""
        ...


class SiteKit(Kit, Protocol):
    """A site's kit."""

    def memory(self, study: Study) -> Path:
        """Return the folder that keeps what the site remembers of a study."""
        ...

    def identity(self) -> SiteIdentity:
        """Return what the site signs with."""
        ...

    def run(self, data: str, policy: Path | None, watching: Watching, proxy: Proxy | None = None) -> int:
        """Answer for a table in the foreground until a signal ends it, and return the exit code."""
        ...


class Analyst(Protocol):
    """The analyst's connection to a server."""

    record: dict[str, Any]
    """What a finished study adds to the run's record."""
    checks: GraphChecks
    """What a finished study has found out about the learned graph."""

    def run(self, progress: Progress) -> Learner:
        """Have the server run the study, and return what was learned, whatever happens on the way."""
        ...

    def status(self) -> Standing | None:
        """Return how the server stands; `None` where it is out of reach."""
        ...

    def stop(self) -> list[str]:
        """Have the server end what runs, and return the jobs that it has ended."""
        ...


class AnalystKit(Kit, Protocol):
    """The analyst's kit."""

    def connect(
        self, study: Study, report: Callable[[str], None], proxy: Proxy | None = None
    ) -> AbstractContextManager[Analyst]:
        """Connect to the server; `report` takes messages for the analyst."""
        ...


class Engine(Protocol):
    """Makes kits and opens them."""

    def provision(
        self,
        study_file: str | os.PathLike[str],
        out: str | os.PathLike[str],
        host: str,
        port: int,
        server_at: str | None = None,
        requests: str | os.PathLike[str] | None = None,
    ) -> dict[str, Path]:
        """Make an authority and a kit for each participant of a study; return, by name, folders or signed kits.

        Args:
            study_file: The study.
            out: A new or empty folder for the kits, and for the authority's folder.
            host: The server's name or address, as the sites reach it.
            port: The server's port.
            server_at: A site that hosts the server and the analyst.
            requests: A folder of requests: who sent one gets a signed kit, without any key. Without it, the keys of all
                are made here.
        """
        ...

    def add(
        self,
        study_file: str | os.PathLike[str],
        authority: str | os.PathLike[str],
        requests: str | os.PathLike[str],
        out: str | os.PathLike[str],
    ) -> dict[str, Path]:
        """Sign the kits of those who join later, and return the files by name."""
        ...

    def renew(self, authority: str | os.PathLike[str], out: str | os.PathLike[str]) -> dict[str, Path]:
        """Sign new certificates for all whom an authority knows, and return the files by name."""
        ...

    def revoke(self, name: str, authority: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
        """Revoke a participant's keys, and write the list of all revoked keys that everybody installs."""
        ...

    def install_revocations(self, file: str | os.PathLike[str], kit: str | os.PathLike[str]) -> list[str]:
        """Install a list of revoked keys in a kit, and return whose they are."""
        ...

    def fingerprints(self, authority: str | os.PathLike[str]) -> dict[str, str]:
        """Return the fingerprints of an authority (by the name of its folder) and of all whose keys it has signed."""
        ...

    def request_kit(self, name: str, out: str | os.PathLike[str]) -> KitRequest:
        """Make a participant's keys in a new folder, and a request for a kit."""
        ...

    def install(self, signed_kit: str | os.PathLike[str], kit: str | os.PathLike[str]) -> Kit:
        """Install a signed kit in the folder of its keys."""
        ...

    def open_server(self, folder: str | os.PathLike[str]) -> ServerKit:
        """Open the server's kit."""
        ...

    def open_site(self, folder: str | os.PathLike[str]) -> SiteKit:
        """Open a site's kit."""
        ...

    def open_analyst(self, folder: str | os.PathLike[str]) -> AnalystKit:
        """Open the analyst's kit."""
        ...
