"""Start-up kits: who may speak to whom, by certificates that FLARE's own provisioning makes.

A kit is a folder for one participant: `startup/` (certificate, key, address of the server), `local/` (rules that its
own feddag writes at every start), `study.toml` (what the participant agrees to), `feddag/` (what it must remember).
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

from feddag.deployment.engine import ANALYST, SERVER
from feddag.deployment.flare.certificates import check_certificates
from feddag.deployment.flare.extra import flare
from feddag.deployment.study_tasks import federated_learner
from feddag.errors import FeddagError
from feddag.files import atomic_write
from feddag.study import Study

Role = Literal["server", "site", "analyst"]

STUDY, MEMORY = "study.toml", "feddag"

_ORGANISATION = "feddag"
_ANALYST = "analyst@feddag.study"
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
        """Open a kit; refuse one of another role, or whose certificates do not hold now."""
        folder = Path(folder).absolute()
        path = folder / "startup" / {"server": "fed_server.json", "site": "fed_client.json"}.get(role, "fed_admin.json")
        try:
            start = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise FeddagError(f"{folder} is not the kit of a {role}: {path} is not there. Check the path.") from None
        except ValueError as error:
            raise FeddagError(f"{path} is damaged ({error}). Unpack the kit again.") from None
        name = {
            "server": lambda: start["servers"][0]["admin_server"],
            "site": lambda: start["client"]["fqsn"],
            "analyst": lambda: start["admin"]["username"],
        }[role]()
        own = "server.crt" if role == "server" else "client.crt"
        return cls(folder, role, name, check_certificates(folder / "startup", (own, "rootCA.pem")))

    @property
    def study_file(self) -> Path:
        """The study that the participant agrees to."""
        return self.folder / STUDY

    def study(self) -> Study:
        """Read the kit's study."""
        return Study.load(self.study_file)

    def agreed_study(self, digest: str) -> Study:
        """Return the kit's study; refuse any other than the one that the other side names."""
        study = self.study()
        if study.digest != digest:
            raise FeddagError(
                f"The {self.role} {self.name!r} has agreed to the study {study.digest[:12]}…, and was asked to take "
                f"part in {digest[:12]}…. Give all participants the same study file."
            )
        return study

    def memory(self, study: Study) -> Path:
        """Return the folder that keeps what this participant remembers of a study; each study has its own."""
        folder = self.folder / MEMORY / f"{study.name}-{study.digest[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        return folder

    def write_rules(self) -> None:
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
        _write(local / "log_config.json", _log_config())


def provision(
    study_file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    host: str,
    port: int,
    server_at: str | None = None,
) -> dict[str, Path]:
    """Make one kit for each site, for the server and for the analyst: new folders, by name, below `out`.

    With `server_at`, a site hosts the server, so that no third party sees the graph: its folder holds three kits.
    """
    study = Study.load(study_file)
    federated_learner(study)
    if len(study.sites) < 2:
        raise FeddagError(f"{study_file}: a federation has at least 2 sites. Name them, as [sites.NAME].")
    names = [site.name for site in study.sites]
    taken = [name for name in names if name in (SERVER, ANALYST, host)]
    if taken:
        raise FeddagError(f"{study_file}: a site cannot be called {taken[0]!r}. Rename it.")
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FeddagError(f"{out} is not an empty folder. Name a new one for the kits.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent) as scratch:
        made = _provisioned(Path(scratch), study.name, host, port, names)
        kits = {SERVER: made / host, ANALYST: made / _ANALYST, **{name: made / name for name in names}}
        places = {name: out / name for name in kits}
        if server_at is not None:
            study.site(server_at)
            places |= {name: out / server_at / name for name in (SERVER, ANALYST, server_at)}
        for name, folder in kits.items():
            shutil.copyfile(study_file, folder / STUDY)
            _keep_private(folder)
            places[name].parent.mkdir(parents=True, exist_ok=True)
            os.replace(folder, places[name])
    return places


def _provisioned(scratch: Path, name: str, host: str, port: int, sites: list[str]) -> Path:
    lighter = flare("nvflare.lighter.provision")
    builders = flare("nvflare.lighter.prov_utils")
    provisioner = flare("nvflare.lighter.provisioner")
    participants: list[dict[str, Any]] = [
        {"name": host, "type": "server", "org": _ORGANISATION, "fed_learn_port": port, "admin_port": port},
        {"name": _ANALYST, "type": "admin", "org": _ORGANISATION, "role": "lead"},
        *({"name": site, "type": "client", "org": _ORGANISATION} for site in sites),
    ]
    project = {
        "api_version": 3,
        "name": name,
        "participants": participants,
        "builders": [
            {
                "path": "nvflare.lighter.impl.workspace.WorkspaceBuilder",
                "args": {"template_file": ["master_template.yml"]},
            },
            {"path": "nvflare.lighter.impl.static_file.StaticFileBuilder", "args": {"config_folder": "config"}},
            {"path": "nvflare.lighter.impl.cert.CertBuilder"},
            {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
        ],
    }
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            made = provisioner.Provisioner(
                str(scratch), builders.prepare_builders(project), builders.prepare_packager(project)
            ).provision(lighter.prepare_project(project))
    except (ValueError, RuntimeError) as error:
        raise FeddagError(f"The kits could not be made: {error}. Check the names of sites and host.") from None
    if made.get("build_error"):
        raise FeddagError("The kits could not be made: FLARE's provisioning failed. Check the names of sites and host.")
    return scratch / name / "prod_00"


def _keep_private(folder: Path) -> None:
    """Only the owner may read a kit: who has its key is the participant."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() or path.suffix == ".sh" else 0o600)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as stream:
        json.dump(content, stream, indent=2)


def _log_config() -> dict[str, Any]:
    """FLARE's own messages go to a file; what an operator wants to read goes to the terminal."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {"format": "%(asctime)s %(message)s", "datefmt": "%H:%M:%S"},
            "full": {"format": "%(asctime)s %(name)s %(levelname)s %(message)s"},
        },
        "handlers": {
            "terminal": {"class": "logging.StreamHandler", "level": "INFO", "formatter": "plain"},
            "file": {
                "class": "logging.handlers.RotatingFileHandler",
                "filename": "log.txt",
                "mode": "a",
                "maxBytes": 20971520,
                "backupCount": 5,
                "level": "INFO",
                "formatter": "full",
            },
        },
        "loggers": {
            "root": {"level": "INFO", "handlers": ["file"]},
            "feddag": {"level": "INFO", "handlers": ["terminal", "file"], "propagate": False},
        },
    }
