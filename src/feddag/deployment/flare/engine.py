"""FLARE's side of `feddag.deployment.engine`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from feddag.deployment.flare.analyst import Analyst, analyst
from feddag.deployment.flare.environment import DATA, POLICY
from feddag.deployment.flare.kits import Kit, provision
from feddag.deployment.flare.processes import run
from feddag.study import Study


class ServerKit(Kit):
    """The server's kit."""

    def run(self) -> int:
        """Run FLARE's server in the foreground."""
        return run(self, {})


class SiteKit(Kit):
    """A site's kit."""

    def run(self, data: str, policy: Path | None) -> int:
        """Run FLARE's client in the foreground, for a table of this machine."""
        environment = {DATA: data if "://" in data else os.path.abspath(data)}
        return run(self, environment | ({} if policy is None else {POLICY: os.path.abspath(policy)}))


class AnalystKit(Kit):
    """The analyst's kit."""

    def connect(self, study: Study, report: Callable[[str], None]) -> AbstractContextManager[Analyst]:
        """Connect as FLARE's administrator."""
        return analyst(self, study, report)


class FlareEngine:
    """NVIDIA FLARE as a `feddag.deployment.engine.Engine`."""

    provision = staticmethod(provision)

    def open_server(self, folder: str | os.PathLike[str]) -> ServerKit:
        """Open the server's kit."""
        return ServerKit.open(folder, "server")

    def open_site(self, folder: str | os.PathLike[str]) -> SiteKit:
        """Open a site's kit."""
        return SiteKit.open(folder, "site")

    def open_analyst(self, folder: str | os.PathLike[str]) -> AnalystKit:
        """Open the analyst's kit."""
        return AnalystKit.open(folder, "analyst")
