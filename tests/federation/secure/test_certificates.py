"""A site believes identities that its authority certifies and that do not change, whatever the server shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate
from secure_network import AUTHORITY, NAMES, TRUST, Network, carried

from feddag.errors import FeddagError
from feddag.federation.identities import (
    Authority,
    KnownIdentities,
    SiteIdentity,
    Trust,
    check_identity_certificate,
    fingerprint,
    public_identity,
)
from feddag.federation.secure import SecureServer, SecureSite, from_text, to_text
from feddag.federation.secure.messages import sign

OTHER = Authority.create("test")
"""Another authority of the same name."""


def shown(network: Network, **north: bytes) -> dict:
    """What a server shows that has exchanged parts of north's advertisement; signed with `secret`, if given."""
    advertisements = {name: site.advertise() for name, site in network.sites.items()}
    secret = north.pop("secret", network.secret_identities["north"])
    advertisements["north"] = sign(advertisements["north"] | north, secret)
    return {"kind": "roster", "study": network.terms.digest, "advertisements": advertisements}


def tls_certificate() -> bytes:
    key = rsa.generate_private_key(65537, 2048).public_key()
    return load_pem_x509_certificate(AUTHORITY.certify_tls("north", key)).public_bytes(Encoding.DER)


OWN, STRANGER = bytes(range(32)), bytes(32)
LAST_WEEK = datetime.now(UTC) - timedelta(days=7)
WRONG = {
    "forged": (AUTHORITY.certify_identity("north", public_identity(OWN))[:-1] + b"!", "not of this federation's"),
    "of another authority": (OTHER.certify_identity("north", public_identity(OWN)), "not of this federation's"),
    "no certificate": (b"", "not of this federation's"),
    "of a TLS key": (tls_certificate(), "not of this federation's"),
    "the root itself": (AUTHORITY.root.public_bytes(Encoding.DER), "not of this federation's"),
    "expired": (AUTHORITY.certify_identity("north", public_identity(OWN), ends=LAST_WEEK), "holds from .* renewed"),
    "of another name": (AUTHORITY.certify_identity("south", public_identity(OWN)), "shows the certificate of south"),
    "of another identity": (AUTHORITY.certify_identity("north", public_identity(STRANGER)), "does not name"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_certificate_is_refused_by_sites_and_server(wrong: str):
    certificate, message = WRONG[wrong]
    network = Network(pinned=False)
    network.secret_identities["north"] = OWN
    network.sites["north"] = network.site("north")
    roster = shown(network, certificate=certificate)
    with pytest.raises(FeddagError, match=f"Site north.*{message}"):
        network.sites["east"].accept(carried(roster))
    with pytest.raises(FeddagError, match=f"Site north.*{message}"):
        SecureServer(network.terms, TRUST).add_advertisement(roster["advertisements"]["north"])
    assert network.known["east"].read() == {}


def test_an_identity_is_not_swapped_under_its_certificate():
    network = Network(pinned=False)
    roster = shown(network, identity=public_identity(STRANGER), secret=STRANGER)
    with pytest.raises(FeddagError, match="Site north shows an identity that its certificate does not name"):
        network.sites["east"].accept(roster)


def test_a_server_cannot_play_all_the_other_sites():
    """It knows the names, the study and the protocol, has an authority of its own, and pins bind nobody."""
    network = Network(pinned=False)
    victim, names = network.sites["east"], [name for name in NAMES if name != "east"]
    sybils = {name: SecureSite(name, network.terms, OTHER.identify(name), keep=lambda state: None) for name in names}
    advertisements = {"east": victim.advertise(), **{name: site.advertise() for name, site in sybils.items()}}
    roster = {"kind": "roster", "study": network.terms.digest, "advertisements": advertisements}
    with pytest.raises(FeddagError, match="certificate is not of this federation's authority"):
        victim.accept(roster)
    with pytest.raises(FeddagError, match="a session that it is not in"):
        victim.prepare(
            {"kind": "opening", "session": b"", "round": 0, "attempt": 0, "participants": list(advertisements)},
            bytes(32),
        )
    # nor with certificates of the right authority that it has seen: it lacks their keys
    seen = {name: network.sites[name].advertise() for name in names}
    for name in names:
        stolen = advertisements[name] | {part: seen[name][part] for part in ("identity", "certificate")}
        advertisements[name] = sign(stolen, sybils[name]._identity)
    with pytest.raises(FeddagError, match="signature of its message 'advertisement' is wrong"):
        victim.accept(roster)


def test_a_pin_and_a_certificate_must_agree():
    network = Network()
    network.secret_identities["north"] = STRANGER
    certificate = AUTHORITY.certify_identity("north", public_identity(STRANGER))
    roster = shown(network, identity=public_identity(STRANGER), certificate=certificate, secret=STRANGER)
    with pytest.raises(FeddagError, match=r"Site north shows identity .* the study pins"):
        network.sites["east"].accept(roster)


def test_an_identity_is_remembered_over_studies_and_a_new_one_accepted_once_the_old_is_forgotten():
    """Even where the authority certifies the new one."""
    first = Network(pinned=False, seed=1).set_up()
    assert first.known["east"].read() == {
        name: public_identity(secret) for name, secret in first.secret_identities.items() if name != "east"
    }
    second = Network(pinned=False, seed=1)
    second.known = first.known
    second.secret_identities["north"] = STRANGER
    second.sites = {name: second.site(name) for name in NAMES}
    old, new = (fingerprint(public_identity(each.secret_identities["north"])) for each in (first, second))
    with pytest.raises(FeddagError, match=f"Site north shows .* {new}, but {old} is on record.*--forget north"):
        second.set_up()
    for known in second.known.values():
        if "north" in known.read():
            known.forget("north")
    second.set_up()
    assert second.known["east"].read()["north"] == public_identity(STRANGER)


def test_a_restarted_site_goes_on_with_its_session_though_a_certificate_has_ended():
    network = Network().set_up()
    state, identity = from_text(network.kept["east"]), public_identity(network.secret_identities["north"])
    ended = AUTHORITY.certify_identity("north", identity, ends=LAST_WEEK)
    state["roster"]["advertisements"]["north"]["certificate"] = ended
    network.kept["east"] = to_text(state)
    network.restart("east")
    assert network.sites["east"].snapshot() == state


def test_an_identity_that_is_not_the_site_s_own_cannot_be_used():
    mine = AUTHORITY.certify_identity("east", public_identity(OWN))
    SiteIdentity("east", OWN, mine, TRUST)
    for name, secret, trust in [("west", OWN, TRUST), ("east", STRANGER, TRUST), ("east", OWN, Trust(OTHER.root))]:
        with pytest.raises(FeddagError, match=f"Site {name}"):
            SiteIdentity(name, secret, mine, trust)
    assert str(OWN) not in repr(SiteIdentity("east", OWN, mine, TRUST))


def test_a_certificate_ends_with_its_authority():
    certificate, identity = AUTHORITY.certify_identity("east", public_identity(OWN)), public_identity(OWN)
    check_identity_certificate(certificate, AUTHORITY.root, "east", identity)
    for now in (datetime.now(UTC) + timedelta(days=366), AUTHORITY.root.not_valid_after_utc + timedelta(days=1)):
        with pytest.raises(FeddagError, match="holds from"):
            check_identity_certificate(certificate, AUTHORITY.root, "east", identity, now)


def test_what_is_known_is_in_a_file_for_its_owner(tmp_path):
    known = KnownIdentities(tmp_path / "identities.json")
    assert known.read() == {}
    known.remember({"north": OWN})
    known.remember({"north": STRANGER, "south": STRANGER})
    assert KnownIdentities(tmp_path / "identities.json").read() == {"north": OWN, "south": STRANGER}
    assert (tmp_path / "identities.json").stat().st_mode & 0o777 == 0o600
    known.forget("north")
    assert known.fingerprints() == {"south": fingerprint(STRANGER)}
    with pytest.raises(FeddagError, match=r"No identity of 'north' is known here. Known are south"):
        known.forget("north")
    (tmp_path / "identities.json").write_text('{"north": 3}')
    with pytest.raises(FeddagError, match=r"identities.json is damaged"):
        known.read()
