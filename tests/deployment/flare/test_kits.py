"""Keys are made where they are used: whoever makes the kits signs requests, and never holds a participant's key."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from flare_processes import Federation
from typer.testing import CliRunner

import feddag
from feddag import FeddagError
from feddag.cli import app
from feddag.deployment.flare.daemon import TellingConnection
from feddag.deployment.flare.environment import KIT
from feddag.deployment.flare.kits import Kit
from feddag.deployment.flare.provisioning import (
    add,
    fingerprints,
    install,
    install_revocations,
    provision,
    renew,
    request_kit,
    revoke,
)
from feddag.deployment.requests import Keys, Request, SignedKit
from feddag.federation.identities import Authority, public_identity

SITES = ("basel", "bern", "lyon")


def study_of(*sites: str) -> str:
    named = "\n".join(f"[sites.{site}]" for site in sites)
    return (
        f'name = "asthma"\n[variables]\nage = "continuous"\ndose = "continuous"\n[method]\nname = "notears"\n{named}\n'
    )


class World:
    """Participants in folders of their own. Only `post` travels to whoever signs, and only `kits` back."""

    def __init__(self, folder: Path, *sites: str) -> None:
        self.folder, self.study, self.post = folder, folder / "study.toml", folder / "post"
        self.study.write_text(study_of(*SITES))
        self.post.mkdir()
        self.own = {}
        for name in sites:
            self.ask(name)

    def ask(self, name: str) -> Path:
        self.own[name] = self.folder / "own" / name
        file = request_kit(name, self.own[name]).file
        (self.post / file.name).write_bytes(file.read_bytes())
        return self.post / file.name

    def sign(self) -> dict[str, Path]:
        return provision(self.study, self.folder / "kits", "localhost", 8002, requests=self.post)

    @property
    def authority(self) -> Path:
        return self.folder / "kits" / "authority"


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """Kits of all, from requests of all, not installed."""
    world = World(tmp_path_factory.mktemp("world"), "server", "analyst", *SITES)
    world.kits = world.sign()
    return world


@pytest.fixture
def world(signed, tmp_path):
    """A copy of `signed` that a test may change."""
    shutil.copytree(signed.folder, tmp_path, dirs_exist_ok=True)
    copy = World.__new__(World)
    copy.folder, copy.study, copy.post = tmp_path, tmp_path / "study.toml", tmp_path / "post"
    copy.own = {name: tmp_path / "own" / name for name in signed.own}
    copy.kits = {name: tmp_path / kit.relative_to(signed.folder) for name, kit in signed.kits.items()}
    return copy


def private_parts(folder: Path) -> dict[str, list[bytes]]:
    """The private keys in a participant's folder, in every form in which a file could have them."""
    name = folder.name
    keys = Keys.read(
        folder / "startup" / f"{'server' if name == 'server' else 'client'}.key", folder / "feddag/identity.key"
    )
    numbers = keys.tls.private_numbers()
    return {
        "tls": [each.to_bytes(128, "big") for each in (numbers.p, numbers.q)],
        "identity": [keys.identity, keys.identity.hex().encode()],
    }


def test_whoever_signs_never_holds_a_participant_s_private_key(signed):
    files = [path for place in ("kits", "post") for path in (signed.folder / place).rglob("*") if path.is_file()]
    holding = [path for path in files if b"PRIVATE KEY" in path.read_bytes() or path.suffix == ".key"]
    assert holding == [signed.authority / "root.key"]
    secrets = [part for folder in signed.own.values() for parts in private_parts(folder).values() for part in parts]
    assert len(secrets) == 4 * 5
    for path in files:
        content = path.read_bytes()
        assert not any(secret in content for secret in secrets), path
    assert all(kit.suffix == ".kit" and kit.is_file() for kit in signed.kits.values())


def test_a_signed_kit_and_the_keys_make_a_kit(world):
    for name, kit in world.kits.items():
        before = private_parts(world.own[name])
        opened = install(kit, world.own[name])
        assert opened.study().digest == feddag.Study.load(world.study).digest
        assert private_parts(world.own[name]) == before
        assert all(path.stat().st_mode & 0o077 == 0 for path in (opened.folder, *opened.folder.rglob("*")))
        assert opened.trust().fingerprint == fingerprints(world.authority)["authority"]
        if name in SITES:
            assert opened.name == name
            assert opened.identity().fingerprint == fingerprints(world.authority)[name]


def test_a_kit_has_the_strict_rules_from_the_start_and_no_way_to_start_it_but_feddag(world):
    for name, kit in world.kits.items():
        folder = install(kit, world.own[name]).folder
        text = (folder / "README.txt").read_text()
        command = {"server": "feddag server", "analyst": "feddag federation run"}.get(name, "feddag site")
        assert f"{command} " in text
        assert "localhost:8002" in text
        assert not [path for path in folder.rglob("*") if path.suffix == ".sh" or path.name.lower() == "readme.txt"][1:]
        if name == "analyst":
            continue
        rights = json.loads((folder / "local" / "authorization.json").read_text())["permissions"]
        assert {role["byoc"] for role in rights.values()} == {"none"}
        rules = json.loads((folder / "local" / "resources.json").read_text())
        assert rules["class_list_enforcement_mode"] == "enforce"
        assert not (folder / "local" / "authorization.json.default").exists()


def test_sites_without_a_request_get_no_kit_and_nobody_makes_their_keys(tmp_path):
    world = World(tmp_path, "basel", "bern")
    kits = world.sign()
    assert set(kits) == {"server", "analyst", "basel", "bern"}
    assert kits["server"].is_dir()
    assert not list((tmp_path / "kits").glob("lyon*"))
    with pytest.raises(FeddagError, match="has no request"):
        provision(world.study, tmp_path / "other", "localhost", 8002, requests=tmp_path)


def test_a_request_that_was_changed_is_refused(world):
    path = world.post / "basel.request"
    other = json.loads((world.post / "bern.request").read_text())
    own = json.loads(path.read_text())
    for changed, message in [
        (own | {"name": "lyon"}, "was changed, or is damaged"),
        (own | {"identity": other["identity"]}, "was changed, or is damaged"),
        (own | {"tls": other["tls"]}, "was changed, or is damaged"),
        (own | {"name": "../basel"}, "cannot be called '../basel'"),
        (own | {"more": 1}, "is no request. It must have name, identity, tls, signature, and nothing else"),
        (own | {"tls": 1}, "its part 'tls' is of the wrong form"),
    ]:
        path.write_text(json.dumps(changed))
        with pytest.raises(FeddagError, match=re.escape(message)):
            Request.read(path)


def test_requests_of_strangers_and_twice_of_one_are_refused(world):
    request_kit("far", world.folder / "far")
    stray = world.post / "far.request"
    stray.write_bytes((world.folder / "far" / "far.request").read_bytes())
    with pytest.raises(FeddagError, match="is of 'far', and the study has the participants server, analyst, basel"):
        provision(world.study, world.folder / "new", "localhost", 8002, requests=world.post)
    stray.write_bytes((world.post / "basel.request").read_bytes())
    with pytest.raises(FeddagError, match="has two requests of 'basel'"):
        provision(world.study, world.folder / "new", "localhost", 8002, requests=world.post)
    assert not (world.folder / "new").exists()


def test_a_site_cannot_take_the_name_of_the_server_or_its_host(world):
    for name in ("server", "analyst", "authority", "localhost"):
        world.study.write_text(study_of("basel", "bern", name))
        with pytest.raises(FeddagError, match=f"a site cannot be called '{name}'"):
            add(world.study, world.authority, world.post, world.folder / "new")


def test_a_kit_that_does_not_fit_the_keys_is_refused(world):
    basel, bern = (SignedKit.read(world.kits[name]) for name in ("basel", "bern"))
    stranger = Authority.create("asthma")
    forged = stranger.certify_identity("basel", Request.read(world.post / "basel.request").identity_key)
    forged = x509.load_der_x509_certificate(forged).public_bytes(Encoding.PEM).decode()
    root = stranger.root.public_bytes(Encoding.PEM).decode()
    for wrong, message in [
        (replace(basel, tls=bern.tls), "certifies another TLS key"),
        (replace(basel, identity=bern.identity), "shows the certificate of bern"),
        (replace(basel, identity=forged), "not of this federation's authority"),
        (replace(basel, root=root), "a certificate that its root did not sign"),
        (replace(basel, study=study_of("bern", "lyon")), "basel"),
        (bern, "has no request of that name"),
    ]:
        wrong.write(world.folder / "wrong.kit")
        with pytest.raises(FeddagError, match=message):
            install(world.folder / "wrong.kit", world.own["basel"])
        assert not (world.own["basel"] / "startup" / "rootCA.pem").exists()


def test_a_kit_takes_no_second_authority(world):
    install(world.kits["basel"], world.own["basel"])
    provision(world.study, world.folder / "other", "localhost", 8002, requests=world.post)
    with pytest.raises(FeddagError, match="is a kit of another federation"):
        install(world.folder / "other" / "basel.kit", world.own["basel"])


def test_a_late_site_joins_and_the_others_kits_stay_as_they_are(world):
    for name, kit in world.kits.items():
        install(kit, world.own[name])
    before = {path: path.read_bytes() for path in (world.folder / "own").rglob("*") if path.is_file()}
    late = world.folder / "late"
    request = request_kit("oslo", world.folder / "oslo").file
    late.mkdir()
    (late / request.name).write_bytes(request.read_bytes())
    with pytest.raises(FeddagError, match="is of 'oslo', and the study has"):
        add(world.study, world.authority, late, world.folder / "new")
    world.study.write_text(study_of(*SITES, "oslo"))
    made = add(world.study, world.authority, late, world.folder / "new")
    assert list(made) == ["oslo"]
    oslo = install(made["oslo"], world.folder / "oslo")
    assert {path: path.read_bytes() for path in before} == before
    for name in SITES:
        met, own = Kit.open(world.own[name], "site"), oslo.identity()
        met.trust().check("oslo", own.public, own.certificate)
        oslo.trust().check(name, met.identity().public, met.identity().certificate)


def test_renewed_certificates_are_for_the_same_keys_and_keep_all_that_is_remembered(world):
    basel = install(world.kits["basel"], world.own["basel"])
    basel.trust().known.remember({"bern": public_identity(bytes(32))})
    memory, keys, old = basel.memory(basel.study()) / "audit.jsonl", private_parts(basel.folder), basel.identity()
    memory.write_text("kept")
    (basel.folder / "study.toml").write_text(study_of(*SITES, "oslo"))
    renewed = renew(world.authority, world.folder / "renewed")
    assert set(renewed) == {"server", "analyst", *SITES}
    opened = install(renewed["basel"], basel.folder)
    assert opened.identity().certificate != old.certificate
    assert opened.identity().public == old.public
    assert private_parts(basel.folder) == keys
    assert memory.read_text() == "kept"
    assert "oslo" in (basel.folder / "study.toml").read_text()
    assert list(opened.trust().known.read()) == ["bern"]
    bern = install(world.kits["bern"], world.own["bern"])  # whoever has not renewed yet still knows it
    bern.trust().check("basel", opened.identity().public, opened.identity().certificate)


def test_new_keys_under_an_old_name_are_not_signed_unasked(world):
    (world.folder / "again").mkdir()
    request = request_kit("basel", world.folder / "again" / "keys").file
    (world.folder / "again" / "basel.request").write_bytes(request.read_bytes())
    with pytest.raises(FeddagError, match=r"'basel' has a kit with other keys. Call the participant") as caught:
        add(world.study, world.authority, world.folder / "again", world.folder / "new")
    kept = world.authority / "requests" / "basel.request"
    assert str(kept) in str(caught.value)
    kept.unlink()
    assert install(
        add(world.study, world.authority, world.folder / "again", world.folder / "new")["basel"], request.parent
    )


def test_revoked_keys_are_known_to_all_who_install_the_list_and_no_kit_changes(world):
    basel = install(world.kits["basel"], world.own["basel"])
    lyon = install(world.kits["lyon"], world.own["lyon"])
    of_lyon = lyon.identity()
    file = revoke("lyon", world.authority, world.folder / "revoked.json")
    basel.trust().check("lyon", of_lyon.public, of_lyon.certificate)  # who has not installed it knows nothing
    assert install_revocations(file, basel.folder) == ["lyon"]
    with pytest.raises(FeddagError, match="Site lyon shows an identity that the authority has revoked"):
        basel.trust().check("lyon", of_lyon.public, of_lyon.certificate)
    bern = install(world.kits["bern"], world.own["bern"]).identity()
    basel.trust().check("bern", bern.public, bern.certificate)
    assert "lyon" not in renew(world.authority, world.folder / "renewed")
    with pytest.raises(FeddagError, match=r"'lyon' has no keys that .* has signed"):
        revoke("lyon", world.authority, world.folder / "again.json")
    newer = revoke("bern", world.authority, world.folder / "newer.json")
    assert install_revocations(newer, basel.folder) == ["bern", "lyon"]
    with pytest.raises(FeddagError, match="is older than the list in"):
        install_revocations(file, basel.folder)
    content = json.loads(newer.read_text())
    newer.write_text(json.dumps(content | {"keys": {}}))
    with pytest.raises(FeddagError, match="is no list of revoked keys of this federation"):
        install_revocations(newer, world.own["lyon"])


def shake_hands(server_kit: Path, client_kit: Path) -> None:
    """Connect two kits over TLS as FLARE does, without a network."""
    sides = []
    for kit, role, purpose in ((server_kit, "server", True), (client_kit, "client", False)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if purpose else ssl.PROTOCOL_TLS_CLIENT)
        context.sslobject_class = TellingConnection if purpose else ssl.SSLObject
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(kit / "startup" / "rootCA.pem")
        context.load_cert_chain(kit / "startup" / f"{role}.crt", kit / "startup" / f"{role}.key")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides.append((context.wrap_bio(incoming, outgoing, server_side=purpose), incoming, outgoing))
    (server, to_server, from_server), (client, to_client, from_client) = sides
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            to_server.write(from_client.read())
            to_client.write(from_server.read())


def test_a_server_lets_nobody_in_with_a_revoked_key(world, monkeypatch, caplog):
    server = install(world.kits["server"], world.own["server"]).folder
    basel, lyon = (install(world.kits[name], world.own[name]).folder for name in ("basel", "lyon"))
    monkeypatch.setenv(KIT, str(server))
    shake_hands(server, lyon)
    install_revocations(revoke("lyon", world.authority, world.folder / "revoked.json"), server)
    shake_hands(server, basel)
    with pytest.raises(ssl.SSLError, match="the authority has revoked this key"):
        shake_hands(server, lyon)
    assert "has revoked the key of" in caplog.text
    assert "CN=lyon" in caplog.text


@pytest.mark.parametrize(
    "place", ["", "startup", "startup/client.key", "feddag", "feddag/identities.json", "study.toml"]
)
def test_a_kit_with_a_symbolic_link_is_refused_by_its_path(world, place):
    kit = world.own["basel"]
    install(world.kits["basel"], kit)
    outside, path = world.folder / "outside", kit / place
    if path.exists():
        path.rename(outside)
    path.symlink_to(outside)
    opened = re.escape(f"{kit / place} is a symbolic link")
    with pytest.raises(FeddagError, match=opened):
        Kit.open(kit, "site")
    with pytest.raises(FeddagError, match=opened):
        install(world.kits["basel"], kit)


def test_a_folder_that_is_not_the_kit_is_refused_by_what_it_is(world):
    kit = world.own["basel"]
    with pytest.raises(FeddagError, match="no kit yet, but keys that wait for it"):
        Kit.open(kit, "site")
    install(world.kits["basel"], kit)
    with pytest.raises(FeddagError, match="is the site's kit, and this command takes the server's kit"):
        Kit.open(kit, "server")
    with pytest.raises(FeddagError, match="is no kit, and this command takes the site's kit"):
        Kit.open(kit / "startup", "site")
    with pytest.raises(FeddagError, match="is not there, and this command takes the analyst's kit"):
        Kit.open(kit / "nowhere", "analyst")


@pytest.mark.parametrize("place", ["", "startup/client.key", "feddag/identity.key"])
def test_a_kit_that_others_can_read_is_refused_by_its_path(world, place):
    kit = world.own["basel"]
    install(world.kits["basel"], kit)
    (kit / place).chmod(0o750)
    with pytest.raises(FeddagError, match=re.escape(f"{kit / place}: others than its owner may read it. Type: chmod")):
        Kit.open(kit, "site")


def test_the_authority_s_folder_is_refused_where_others_can_read_it(world):
    (world.authority / "root.key").chmod(0o644)
    with pytest.raises(FeddagError, match=r"root.key: others than its owner may read it"):
        renew(world.authority, world.folder / "renewed")


def run(*arguments: object):
    return CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)


def test_the_commands_lead_from_a_request_to_a_kit_and_show_the_same_fingerprints(tmp_path):
    study, post, own = tmp_path / "study.toml", tmp_path / "post", tmp_path / "own"
    study.write_text(study_of(*SITES))
    post.mkdir()
    asked = run("kit", "request", "basel", "--out", own)
    (post / "basel.request").write_bytes((own / "basel.request").read_bytes())
    made = run("federation", "provision", study, "--requests", post, "--out", tmp_path / "kits")
    assert "the private keys of server, analyst were made here" in " ".join(made.stderr.split())
    assert "No request came from bern, lyon" in made.stderr
    (terms,) = re.findall(r"numbers: about .*", made.stdout)
    assert terms in run("study", "check", study).stdout
    installed = run("kit", "install", tmp_path / "kits" / "basel.kit", "--kit", own)
    shown = run("kit", "identities", "--kit", own)
    of = fingerprints(tmp_path / "kits" / "authority")
    assert of["basel"] in asked.stdout
    assert of["authority"] in installed.stdout
    for result in (made, shown):
        assert of["basel"] in result.stdout
        assert of["authority"] in result.stdout


def test_identities_are_shown_and_forgotten_by_name(world):
    known = install(world.kits["basel"], world.own["basel"]).trust().known
    known.remember({"bern": public_identity(bytes(32)), "lyon": public_identity(bytes(range(32)))})
    shown = run("kit", "identities", "--kit", world.own["basel"]).stdout
    assert all(fingerprint in shown for fingerprint in known.fingerprints().values())
    after = run("kit", "identities", "--kit", world.own["basel"], "--forget", "bern").stdout
    assert list(known.read()) == ["lyon"]
    assert "bern" not in after
    refused = run("kit", "identities", "--kit", world.own["basel"], "--forget", "bern")
    assert refused.exit_code == 2
    assert "No identity of 'bern' is known here. Known are lyon" in refused.stderr


@pytest.mark.slow
def test_a_study_runs_with_keys_that_never_left_their_owners_and_a_site_that_came_late(tmp_path):
    federation = Federation(tmp_path, 'name = "notears"')
    late, study = federation.names[-1], federation.study_file
    text = study.read_text()
    post, own = tmp_path / "post", {}
    for name in ("server", "analyst", *federation.names):
        own[name] = tmp_path / "own" / name
        file = request_kit(name, own[name]).file
        place = post / ("late" if name == late else "first")
        place.mkdir(parents=True, exist_ok=True)
        (place / file.name).write_bytes(file.read_bytes())
    study.write_text(text.replace(f"[sites.{late}]\n", ""))
    signed = provision(study, tmp_path / "signed", "localhost", federation.port, requests=post / "first")
    for name, kit in signed.items():
        install(kit, own[name])
    study.write_text(text)
    install(add(study, tmp_path / "signed" / "authority", post / "late", tmp_path / "more")[late], own[late])
    for name in signed:
        (own[name] / "study.toml").write_text(text)
    federation.kits = own
    with federation.after_study():
        learned = feddag.load(federation.folder / "run")
    assert learned.graph_.edges == federation.study.learner().fit(federation.simulation).graph_.edges
    for name in federation.names:
        assert set(Kit.open(own[name], "site").trust().known.read()) == set(federation.names) - {name}
