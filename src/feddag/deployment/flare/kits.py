"""Start-up kits: who may speak to whom, by certificates.

A kit is a folder for one participant: `startup/` (certificates, TLS key, address of the server), `local/` (rules that
its own feddag writes at every start), `study.toml` (what the participant agrees to), `feddag/` (its identity's key, the
identities of the other sites, and what it must remember of each study). `provisioning` makes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from feddag.deployment.flare.certificates import check_certificates, ends_first
from feddag.deployment.flare.extra import flare
from feddag.deployment.logs import LogFormat
from feddag.deployment.offers import Studies, read_offer
from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.federation.refusals import Refusal, RefusedError
from feddag.files import atomic_write, check_private
from feddag.study import Study

if TYPE_CHECKING:
    from feddag.federation.identities import SiteIdentity, Trust

Role = Literal["server", "site", "analyst"]

STUDY, MEMORY = "study.toml", "feddag"
ROOT, IDENTITY_CERTIFICATE, IDENTITY_KEY = "rootCA.pem", "identity.crt", f"{MEMORY}/identity.key"
REVOKED = "revoked.json"
"""The list of keys that the authority has revoked."""
ANALYST_ID = "analyst@feddag.study"
"""The name by which FLARE knows the analyst."""

_KNOWN = "identities.json"
_ALLOWED = (
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
    "feddag.deployment.flare.apps.StudyServer",
    "feddag.deployment.flare.apps.StudySite",
)
"""The only classes that a job may name, for whoever submits it."""
_RIGHTS = {
    "submit_job": "any",
    "manage_job": "n:submitter",
    "download_job": "n:submitter",
    "view": "any",
    "clone_job": "none",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
_NO_RIGHTS = dict.fromkeys(_RIGHTS, "none")


@dataclass(frozen=True)
class Kit:
    """One participant's folder."""

    folder: Path
    role: Role
    name: str
    """The site's name in the study, or the name by which FLARE knows the server or the analyst."""
    warning: str | None = None
    """That its certificates soon expire."""

    @classmethod
    def open(cls, folder: str | os.PathLike[str], role: Role) -> Self:
        """Open a kit; refuse one of another role, that others can read, or whose certificates do not hold now."""
        folder = Path(folder).absolute()
        path = _start_file(folder, role)
        if not path.is_file():
            raise FeddagError(f"{folder} is {_found(folder)}, and this command takes the {role}'s kit. Check the path.")
        check_private(folder)
        try:
            start = json.loads(path.read_bytes())
        except ValueError as error:
            raise FeddagError(f"{path} is damaged ({error}). Install the kit again.") from None
        if not key_file(folder, role).is_file():
            raise FeddagError(f"{key_file(folder, role)} is not there: the kit has lost its key. Restore it.")
        name = {
            "server": lambda: start["servers"][0]["admin_server"],
            "site": lambda: start["client"]["fqsn"],
            "analyst": lambda: start["admin"]["username"],
        }[role]()
        return cls(folder, role, name, check_certificates(folder / "startup", _certificates(folder, role)))

    @property
    def server_address(self) -> tuple[str, int]:
        """Return host and port of the server, as the kit's configuration has them."""
        start = json.loads(_start_file(self.folder, self.role).read_bytes())
        if self.role == "analyst":
            return start["admin"]["host"], int(start["admin"]["port"])
        host, _, port = start["servers"][0]["service"]["target"].rpartition(":")
        return host, int(port)

    def certificates_end(self) -> datetime:
        """Return when the first of the kit's certificates expires."""
        return ends_first(self.folder / "startup", _certificates(self.folder, self.role))

    @property
    def study_file(self) -> Path:
        """The study that the participant agrees to."""
        return self.folder / STUDY

    def study(self) -> Study:
        """Read the kit's study."""
        return Study.load(self.study_file)

    def studies(self) -> Studies:
        """Return this participant's studies."""
        return Studies(self.folder, self.study_file)

    def agreed_study(self, digest: str, offer: str = "", policy: Policy | None = None) -> Study:
        """Return the study of that digest; refuse one that this participant has not agreed to.

        Args:
            digest: The study that the other side names.
            offer: Its content, where it is not the study that came with the kit. The server, which sees sums alone,
                takes up any; a site decides.
            policy: The site's rules.
        """
        agreed = self.studies().agreed(digest)
        if agreed is not None:
            return agreed
        offered = read_offer(offer, digest)
        if self.role == "site":
            return self.studies().consider(self.name, offered, digest, policy or Policy())
        if offered is None:
            raise RefusedError(
                Refusal.STUDY,
                f"The {self.role} {self.name!r} has agreed to the study {self.study().digest[:12]}…, and was asked to "
                f"take part in {digest[:12]}…. Give all participants the same study file.",
            )
        return offered

    def memory(self, study: Study) -> Path:
        """Return the folder that keeps what this participant remembers of a study; each study has its own."""
        folder = self.folder / MEMORY / f"{study.name}-{study.digest[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        return folder

    def identity(self) -> SiteIdentity:
        """Return what this site signs with, and whom it believes."""
        secret, certificate = self.folder / IDENTITY_KEY, self.folder / "startup" / IDENTITY_CERTIFICATE
        return flare("feddag.federation.identities").SiteIdentity.load(self.name, secret, certificate, self.trust())

    def trust(self) -> Trust:
        """Return whom this participant believes: the kit's authority, and identities that it has seen in any study."""
        startup, known = self.folder / "startup", self.folder / MEMORY / _KNOWN
        return flare("feddag.federation.identities").Trust.load(startup / ROOT, known, startup / REVOKED)

    def write_rules(self, log_format: LogFormat = "text") -> None:
        """Write what FLARE may do here. This happens at every start: no kit, and no one on the wire, can widen it."""
        local = self.folder / "local"
        default = json.loads((local / "resources.json.default").read_bytes())
        rules = default | {"class_list_enforcement_mode": "enforce", "class_allow_list": list(_ALLOWED)}
        rules["allow_log_streaming"] = False
        rules["components"] = [
            each for each in default["components"] if each["id"] not in ("site_log_streamer", "log_receiver")
        ]
        if self.role == "server":
            storage = self.folder / "jobs"
            for component in rules["components"]:
                if component["id"] == "job_manager":
                    component["args"]["uri_root"] = str(storage / "definitions")
            rules["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(storage / "snapshots")
            rules["servers"][0] |= {"heart_beat_timeout": 20}
        permissions = {"project_admin": _NO_RIGHTS, "org_admin": _NO_RIGHTS, "lead": _RIGHTS, "member": _NO_RIGHTS}
        _write(local / "resources.json", rules)
        _write(local / "authorization.json", {"format_version": "1.0", "permissions": permissions})
        _write(local / "log_config.json", _log_config(self.role, log_format))


def _start_file(folder: Path, role: Role) -> Path:
    return folder / "startup" / {"server": "fed_server.json", "site": "fed_client.json"}.get(role, "fed_admin.json")


def _found(folder: Path) -> str:
    """Say what is in a folder that is not the kit that was looked for."""
    roles: tuple[Role, ...] = ("server", "site", "analyst")
    kit = next((f"the {role}'s kit" for role in roles if _start_file(folder, role).is_file()), None)
    if kit is None and (folder / IDENTITY_KEY).is_file():
        return "no kit yet, but keys that wait for it (feddag kit install)"
    return kit or ("no kit" if folder.exists() else "not there")


def _certificates(folder: Path, role: Role) -> list[str]:
    names = [certificate_file(folder, role).name, ROOT]
    return [*names, IDENTITY_CERTIFICATE] if role == "site" else names


def key_file(folder: Path, role: Role) -> Path:
    """Return where a kit has its TLS key."""
    return folder / "startup" / ("server.key" if role == "server" else "client.key")


def certificate_file(folder: Path, role: Role) -> Path:
    """Return where a kit has the certificate of its TLS key."""
    return key_file(folder, role).with_suffix(".crt")


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as stream:
        json.dump(content, stream, indent=2)


def _log_config(role: Role, log_format: LogFormat) -> dict[str, Any]:
    """FLARE's own messages go to a file; what an operator wants to read goes to the terminal."""
    plain = {"format": "%(asctime)s %(message)s", "datefmt": "%H:%M:%S"}
    watching = {"milestones": {"()": "feddag.deployment.flare.milestones.Milestones"}} if role == "server" else {}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": plain if log_format == "text" else {"()": "feddag.deployment.logs.JsonFormatter"},
            "full": {"format": "%(asctime)s %(name)s %(levelname)s %(message)s"},
        },
        "handlers": {
            **watching,
            "terminal": {"class": "feddag.deployment.logs.Terminal", "level": "INFO", "formatter": "plain"},
            "file": {
                "class": "feddag.deployment.logs.LogFile",
                "filename": "log.txt",
                "mode": "a",
                "maxBytes": 20971520,
                "backupCount": 5,
                "level": "INFO",
                "formatter": "full",
            },
        },
        "loggers": {
            "root": {"level": "INFO", "handlers": ["file", *watching]},
            "feddag": {"level": "INFO", "handlers": ["terminal", "file"], "propagate": False},
        },
    }
