"""FLARE's side of `feddag.deployment.engine`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from feddag.deployment.engine import KitRequest, Watching
from feddag.deployment.flare.analyst import Analyst, analyst
from feddag.deployment.flare.environment import DATA, POLICY
from feddag.deployment.flare.extra import flare
from feddag.deployment.flare.kits import Kit
from feddag.deployment.flare.processes import run
from feddag.deployment.proxy import Proxy
from feddag.study import Study


class ServerKit(Kit):
    """The server's kit."""

    def run(self, watching: Watching) -> int:
        """Run FLARE's server in the foreground."""
        return run(self, {}, watching)


class SiteKit(Kit):
    """A site's kit."""

    def run(self, data: str, policy: Path | None, watching: Watching, proxy: Proxy | None = None) -> int:
        """Run FLARE's client in the foreground, for a table of this machine."""
        environment = {DATA: data if "://" in data else os.path.abspath(data)}
        return run(self, environment | ({} if policy is None else {POLICY: os.path.abspath(policy)}), watching, proxy)


class AnalystKit(Kit):
    """The analyst's kit."""

    def connect(
        self, study: Study, report: Callable[[str], None], proxy: Proxy | None = None
    ) -> AbstractContextManager[Analyst]:
        """Connect as FLARE's administrator."""
        return analyst(self, study, report, proxy)


class FlareEngine:
    """NVIDIA FLARE as a `feddag.deployment.engine.Engine`."""

    def provision(
        self,
        study_file: str | os.PathLike[str],
        out: str | os.PathLike[str],
        host: str,
        port: int,
        server_at: str | None = None,
        requests: str | os.PathLike[str] | None = None,
    ) -> dict[str, Path]:
        """Make an authority and kits."""
        return _provisioning().provision(study_file, out, host, port, server_at, requests)

    def add(
        self,
        study_file: str | os.PathLike[str],
        authority: str | os.PathLike[str],
        requests: str | os.PathLike[str],
        out: str | os.PathLike[str],
    ) -> dict[str, Path]:
        """Sign the kits of those who join later."""
        return _provisioning().add(study_file, authority, requests, out)

    def renew(self, authority: str | os.PathLike[str], out: str | os.PathLike[str]) -> dict[str, Path]:
        """Sign new certificates."""
        return _provisioning().renew(authority, out)

    def revoke(self, name: str, authority: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
        """Revoke a participant's keys."""
        return _provisioning().revoke(name, authority, out)

    def install_revocations(self, file: str | os.PathLike[str], kit: str | os.PathLike[str]) -> list[str]:
        """Install a list of revoked keys."""
        return _provisioning().install_revocations(file, kit)

    def fingerprints(self, authority: str | os.PathLike[str]) -> dict[str, str]:
        """Return the fingerprints of an authority, and of those whose keys it has signed."""
        return _provisioning().fingerprints(authority)

    def request_kit(self, name: str, out: str | os.PathLike[str]) -> KitRequest:
        """Make a participant's keys and its request."""
        return _provisioning().request_kit(name, out)

    def install(self, signed_kit: str | os.PathLike[str], kit: str | os.PathLike[str]) -> Kit:
        """Install a signed kit."""
        return _provisioning().install(signed_kit, kit)

    def open_server(self, folder: str | os.PathLike[str]) -> ServerKit:
        """Open the server's kit."""
        return ServerKit.open(folder, "server")

    def open_site(self, folder: str | os.PathLike[str]) -> SiteKit:
        """Open a site's kit."""
        return SiteKit.open(folder, "site")

    def open_analyst(self, folder: str | os.PathLike[str]) -> AnalystKit:
        """Open the analyst's kit."""
        return AnalystKit.open(folder, "analyst")


def _provisioning() -> Any:
    """Import what needs FLARE and its cryptography only when it is called."""
    return flare("feddag.deployment.flare.provisioning")
