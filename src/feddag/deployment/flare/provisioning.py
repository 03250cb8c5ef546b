"""From keys to kits: a participant asks for a kit, the authority signs it, the participant installs it beside its keys.

Private keys are made where they are used, and stay there. The authority's folder keeps its own key, the server's
address, and all requests that it has signed: with it, later sites get kits of the same federation, and certificates are
renewed, while all other kits stay as they are.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from feddag.deployment.engine import ANALYST, AUTHORITY, SERVER, KitRequest
from feddag.deployment.flare.extra import flare
from feddag.deployment.flare.kits import (
    ANALYST_ID,
    IDENTITY_CERTIFICATE,
    IDENTITY_KEY,
    REVOKED,
    ROOT,
    STUDY,
    Kit,
    Role,
    certificate_file,
    key_file,
)
from feddag.deployment.kit_readme import README, readme
from feddag.deployment.preflight import check_network
from feddag.deployment.requests import REQUEST, SIGNED_KIT, Keys, Request, SignedKit, check_name
from feddag.errors import FeddagError
from feddag.federation.identities import Authority, Trust, check_identity_certificate, fingerprint, public_identity
from feddag.federation.revocations import Revocations, identity_digest, key_digest
from feddag.files import atomic_write, check_private
from feddag.study import Study

_ADDRESS, _REQUESTS = "federation.json", "requests"
_FROM_FLARE = ("fed_server.json", "fed_client.json", "fed_admin.json", "resources.json.default")
"""All that a kit takes from FLARE's provisioning: no start scripts, and none of its rules."""
_ORGANISATION, _LEAD = "feddag", "lead"

Folder = str | os.PathLike[str]


def request_kit(name: str, out: Folder) -> KitRequest:
    """Make a participant's keys in a new folder, and the request that is sent to the authority."""
    with _new_folder(Path(out).absolute()) as folder:
        request = _make_keys(name, folder)
    return KitRequest(Path(out) / f"{name}{REQUEST}", fingerprint(request.identity_key))


def provision(
    study_file: Folder,
    out: Folder,
    host: str,
    port: int,
    server_at: str | None = None,
    requests: Folder | None = None,
) -> dict[str, Path]:
    """Make a new authority, and a kit for each participant of a study, below `out`.

    Args:
        study_file: The study.
        out: A new or empty folder: the authority's folder is made in it as well.
        host: The server's name or address, as the sites reach it.
        port: The server's port.
        server_at: A site that hosts the server and the analyst; the three kits are in a folder of its name.
        requests: A folder of requests. Each becomes a signed kit, which its sender installs; a site without one gets
            none yet. The keys of a server and of an analyst without one are made here. Without `requests`, all keys
            are made here.

    Returns:
        By name, the folder of a kit that is complete, or the file of a signed one.
    """
    study = _read_study(study_file, host)
    if server_at is not None:
        study.site(server_at)
    with _flare_errors():
        flare("nvflare.lighter.provision").prepare_project(_project(study.name, host, port, SERVER))
    asked = {} if requests is None else _read_requests(Path(requests), study)
    with _new_folder(Path(out).absolute()) as folder:
        federation = _Federation.create(folder / AUTHORITY, study.name, host, port)
        text = Path(study_file).read_text(encoding="utf-8")
        places = {}
        for name in (SERVER, ANALYST, *(site.name for site in study.sites)):
            hosted = server_at is not None and name in (SERVER, ANALYST, server_at)
            place = (Path(server_at or "") if hosted else Path()) / name
            if name in asked:
                places[name] = _sign(federation, asked[name], text, folder, place)
            elif requests is None or name in (SERVER, ANALYST):
                places[name] = _make_whole(federation, name, text, folder, place)
    return {name: Path(out) / place for name, place in places.items()}


def add(study_file: Folder, authority: Folder, requests: Folder, out: Folder) -> dict[str, Path]:
    """Sign the kits of participants that join a federation later, and return the files; no other kit changes."""
    federation = _Federation.load(Path(authority))
    asked = _read_requests(Path(requests), _read_study(study_file, federation.host))
    text = Path(study_file).read_text(encoding="utf-8")
    with _new_folder(Path(out).absolute()) as folder:
        places = {name: _sign(federation, each, text, folder, Path(name)) for name, each in asked.items()}
    return {name: Path(out) / place for name, place in places.items()}


def renew(authority: Folder, out: Folder) -> dict[str, Path]:
    """Sign new certificates for the keys of every participant, and return the files. The study of a kit stays."""
    federation = _Federation.load(Path(authority))
    with _new_folder(Path(out).absolute()) as folder:
        places = {
            request.name: _sign(federation, request, "", folder, Path(request.name)) for request in federation.signed()
        }
    return {name: Path(out) / place for name, place in places.items()}


def revoke(name: str, authority: Folder, out: Folder) -> Path:
    """Revoke the keys of a participant, and write the signed list of all that were; return its file.

    No certificate is renewed for these keys. A participant that is to come back sends a new request.
    """
    federation, file = _Federation.load(Path(authority)), Path(out)
    request_file = federation.folder / _REQUESTS / f"{name}{REQUEST}"
    kept = Revocations.kept(federation.folder / REVOKED, federation.authority.root)
    if not request_file.exists():
        signed = [request.name for request in federation.signed()]
        raise FeddagError(f"{name!r} has no keys that {authority} has signed. It has signed for {', '.join(signed)}.")
    request = Request.read(request_file)
    keys = {key_digest(request.tls_key()): name, identity_digest(request.identity_key): name}
    revoked = Revocations({**kept.keys, **keys})
    revoked.write(federation.folder / REVOKED, federation.authority)
    revoked.write(file, federation.authority)
    request_file.unlink()
    return file


def install_revocations(file: Folder, kit: Folder) -> list[str]:
    """Install a list of revoked keys in a kit, and return the names; refuse one that lacks keys of the list before."""
    folder = Path(kit).absolute()
    check_private(folder)
    installed = folder / "startup" / REVOKED
    try:
        root = x509.load_pem_x509_certificate((folder / "startup" / ROOT).read_bytes())
    except FileNotFoundError:
        raise FeddagError(f"{folder} is no kit that was installed. Check the path.") from None
    new, old = Revocations.read(Path(file), root), Revocations.kept(installed, root)
    if not old.keys.keys() <= new.keys.keys():
        raise FeddagError(f"{file} is older than the list in {folder}. Ask for the newest.")
    _write(installed, Path(file).read_text(encoding="utf-8"))
    return sorted(set(new.keys.values()))


def fingerprints(authority: Folder) -> dict[str, str]:
    """Return the fingerprints of an authority, and of the identity of each participant whose keys it has signed."""
    federation = _Federation.load(Path(authority))
    signed = {request.name: fingerprint(request.identity_key) for request in federation.signed()}
    return {AUTHORITY: Trust(federation.authority.root).fingerprint, **signed}


def install(signed_kit: Folder, kit: Folder) -> Kit:
    """Install a signed kit in the folder with the keys that it was signed for; refuse one that does not fit them."""
    signed, folder = SignedKit.read(Path(signed_kit)), Path(kit).absolute()
    role = _role(signed.name)
    if not (folder / f"{signed.name}{REQUEST}").is_file():
        raise FeddagError(
            f"{signed_kit} is the kit of {signed.name!r}, and {folder} has no request of that name. Name the folder "
            f"that feddag kit request {signed.name} has made."
        )
    check_private(folder)
    _check_fit(signed, Keys.read(key_file(folder, role), folder / IDENTITY_KEY), folder)
    if signed.study and role == "site":
        Study.parse(signed.study).site(signed.name)
    startup = folder / "startup"
    with TemporaryDirectory(dir=folder) as scratch:
        made = _flare_folder(Path(scratch), signed.federation, signed.host, signed.port, signed.name)
        for part in ("startup", "local"):
            (folder / part).mkdir(exist_ok=True)
            for file in (made / part).iterdir():
                if file.name in _FROM_FLARE:
                    os.replace(file, folder / part / file.name)
    (folder / "transfer").mkdir(exist_ok=True)
    _write(certificate_file(folder, role), signed.tls)
    _write(startup / ROOT, signed.root)
    if role == "site":
        _write(startup / IDENTITY_CERTIFICATE, signed.identity)
    if signed.study:
        _write(folder / STUDY, signed.study)
    _write(folder / README, readme(signed.name, signed.federation, signed.host, signed.port))
    if role != "analyst":
        Kit(folder, role, signed.name).write_rules()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return Kit.open(folder, role)


def _check_fit(signed: SignedKit, keys: Keys, folder: Path) -> None:
    """Refuse a signed kit that is not for these keys, or of another authority than the one that is installed."""
    misfit = f"The signed kit of {signed.name!r} does not fit the keys in {folder}: "
    remedy = "Send your own request again, and compare fingerprints by telephone."
    try:
        root = x509.load_pem_x509_certificate(signed.root.encode())
        certificate = x509.load_pem_x509_certificate(signed.tls.encode())
        certificate.verify_directly_issued_by(root)
        identity = (
            x509.load_pem_x509_certificate(signed.identity.encode()).public_bytes(Encoding.DER)
            if (_role(signed.name) == "site")
            else None
        )
    except (ValueError, TypeError, InvalidSignature):
        raise FeddagError(f"{misfit}it has a certificate that its root did not sign. {remedy}") from None
    if certificate.public_key() != keys.tls.public_key():
        raise FeddagError(f"{misfit}it certifies another TLS key. {remedy}")
    if identity is not None:
        check_identity_certificate(identity, root, signed.name, public_identity(keys.identity))
    installed = folder / "startup" / ROOT
    if installed.exists() and x509.load_pem_x509_certificate(installed.read_bytes()) != root:
        raise FeddagError(
            f"{folder} is a kit of another federation: its authority is not the one that signed this. Make new keys "
            f"for a new federation: feddag kit request {signed.name} --out FOLDER"
        )


@dataclass(frozen=True)
class _Federation:
    """An authority, with what all kits that it signs have in common."""

    folder: Path
    authority: Authority
    name: str
    host: str
    port: int

    @classmethod
    def create(cls, folder: Path, name: str, host: str, port: int) -> Self:
        authority = Authority.create(name)
        authority.save(folder)
        (folder / _REQUESTS).mkdir(mode=0o700)
        _write(folder / _ADDRESS, json.dumps({"name": name, "host": host, "port": port}, indent=2))
        return cls(folder, authority, name, host, port)

    @classmethod
    def load(cls, folder: Path) -> Self:
        authority = Authority.load(folder)
        try:
            return cls(folder, authority, **json.loads((folder / _ADDRESS).read_bytes()))
        except (ValueError, TypeError, FileNotFoundError) as error:
            raise FeddagError(f"{folder / _ADDRESS} is damaged ({error}). Restore the folder.") from None

    def sign(self, request: Request, study: str) -> SignedKit:
        """Sign a request, and remember it; refuse another request of a name that has been signed."""
        before = self.folder / _REQUESTS / f"{request.name}{REQUEST}"
        if before.exists() and Request.read(before) != request:
            raise FeddagError(
                f"{request.name!r} has a kit with other keys. Call the participant: if the new request is its own, "
                f"remove {before}, and sign again."
            )
        request.write(before)
        subject = {SERVER: (self.host, None, self.host), ANALYST: (ANALYST_ID, _LEAD, None)}
        name, role, host = subject.get(request.name, (request.name, None, None))
        identity = ""
        if _role(request.name) == "site":
            certificate = self.authority.certify_identity(request.name, request.identity_key)
            identity = x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM).decode()
        return SignedKit(
            name=request.name,
            federation=self.name,
            host=self.host,
            port=self.port,
            root=self.authority.root.public_bytes(Encoding.PEM).decode(),
            tls=self.authority.certify_tls(name, request.tls_key(), role=role, host=host).decode(),
            identity=identity,
            study=study,
        )

    def signed(self) -> Iterator[Request]:
        """Return all requests that were signed."""
        for path in sorted((self.folder / _REQUESTS).glob(f"*{REQUEST}")):
            yield Request.read(path)


def _sign(federation: _Federation, request: Request, study: str, folder: Path, place: Path) -> Path:
    """Write a signed kit below a folder, and return where it is."""
    place = place.with_name(f"{place.name}{SIGNED_KIT}")
    (folder / place).parent.mkdir(exist_ok=True)
    federation.sign(request, study).write(folder / place)
    return place


def _make_whole(federation: _Federation, name: str, study: str, folder: Path, place: Path) -> Path:
    """Make a kit with its keys below a folder, and return where it is: whoever runs this has the keys."""
    request = _make_keys(name, folder / place)
    with TemporaryDirectory(dir=folder) as scratch:
        file = Path(scratch) / f"{name}{SIGNED_KIT}"
        federation.sign(request, study).write(file)
        install(file, folder / place)
    return place


def _make_keys(name: str, folder: Path) -> Request:
    keys = Keys.make()
    request = Request.make(name, keys)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    keys.write(key_file(folder, _role(name)), folder / IDENTITY_KEY)
    request.write(folder / f"{name}{REQUEST}")
    return request


def _read_study(file: Folder, host: str) -> Study:
    """Read a study; refuse one that cannot run, or one of whose sites would pass for another participant."""
    study = Study.load(file)
    check_network(study)
    for site in study.sites:
        check_name(site.name)
        if site.name in (SERVER, ANALYST, AUTHORITY, host):
            raise FeddagError(f"{file}: a site cannot be called {site.name!r}. Rename it.")
    return study


def _read_requests(folder: Path, study: Study) -> dict[str, Request]:
    found: dict[str, Request] = {}
    allowed = [SERVER, ANALYST, *(site.name for site in study.sites)]
    for path in sorted(folder.glob(f"*{REQUEST}")):
        request = Request.read(path)
        if request.name not in allowed:
            raise FeddagError(
                f"{path} is of {request.name!r}, and the study has the participants {', '.join(allowed)}. Remove the "
                "file, or name the site in the study."
            )
        if request.name in found:
            raise FeddagError(f"{folder} has two requests of {request.name!r}. Remove the one that is not its own.")
        found[request.name] = request
    if not found:
        raise FeddagError(f"{folder} has no request (NAME{REQUEST}). Participants make theirs: feddag kit request NAME")
    return found


def _role(name: str) -> Role:
    return "server" if name == SERVER else "analyst" if name == ANALYST else "site"


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Fill a folder that appears under its name only once it is complete."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise FeddagError(f"{out} is not an empty folder. Name a new one.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent) as scratch:
        folder = Path(scratch) / out.name
        folder.mkdir(mode=0o700)
        yield folder
        os.replace(folder, out)


def _flare_folder(scratch: Path, federation: str, host: str, port: int, name: str) -> Path:
    """Have FLARE write its configuration of one participant, without certificates."""
    builders, provisioner = flare("nvflare.lighter.prov_utils"), flare("nvflare.lighter.provisioner")
    project = _project(federation, host, port, name)
    with _flare_errors(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        made = provisioner.Provisioner(
            str(scratch), builders.prepare_builders(project), builders.prepare_packager(project)
        ).provision(flare("nvflare.lighter.provision").prepare_project(project))
        if made.get("build_error"):
            raise ValueError("FLARE's provisioning failed")
    return scratch / federation / "prod_00" / {SERVER: host, ANALYST: ANALYST_ID}.get(name, name)


@contextmanager
def _flare_errors() -> Iterator[None]:
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if isinstance(error, FeddagError):
            raise
        raise FeddagError(f"The kits could not be made: {error}. Check the names of sites and host.") from None


def _project(federation: str, host: str, port: int, name: str) -> dict[str, Any]:
    participants: list[Mapping[str, Any]] = [
        {"name": host, "type": "server", "org": _ORGANISATION, "fed_learn_port": port, "admin_port": port}
    ]
    if name == ANALYST:
        participants.append({"name": ANALYST_ID, "type": "admin", "org": _ORGANISATION, "role": _LEAD})
    elif name != SERVER:
        participants.append({"name": name, "type": "client", "org": _ORGANISATION})
    workspace = {"path": "nvflare.lighter.impl.workspace.WorkspaceBuilder"}
    files = {"path": "nvflare.lighter.impl.static_file.StaticFileBuilder", "args": {"config_folder": "config"}}
    return {
        "api_version": 3,
        "name": federation,
        "participants": participants,
        "builders": [workspace | {"args": {"template_file": ["master_template.yml"]}}, files],
    }


def _write(path: Path, content: str) -> None:
    with atomic_write(path) as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(content)
