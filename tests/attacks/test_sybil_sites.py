"""Sybil sites: a server that plays all sites but one knows what that one adds to a sum.

The federation's authority certifies the sites' identities, and each site remembers whom it has met. The server has none
of their keys. It can invent sites, change what real ones have signed, or use their messages in another place; and once
sites have met, not even the authority can help it to pass for one of them.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from hostile_server import AUTHORITY, FOUR, NOTEARS, VICTIM, HostileServer, Result, Sites

from feddag.federation.identities import Authority
from feddag.federation.secure import Message, SecureSite
from feddag.federation.secure import site as site_module
from feddag.federation.secure.cryptography import public_key
from feddag.federation.secure.messages import Roster, sign

OTHERS = FOUR[:3]
FOREIGN = Authority.create("foreign")


def of_its_own_authority(server: HostileServer) -> dict[str, Message]:
    """Show sites that an authority of the server's own certifies."""
    return _played(server, FOREIGN)


def with_own_certificates(server: HostileServer) -> dict[str, Message]:
    """Show invented keys, with the certificates of the real sites."""
    real = _advertisements(server)
    return {site: each | {"certificate": real[site]["certificate"]} for site, each in _played(server, FOREIGN).items()}


def changed_letter_keys(server: HostileServer) -> dict[str, Message]:
    """Put the server's key for sealed letters into what the real sites have signed."""
    real = _advertisements(server)
    return {site: message | {"channel": public_key(os.urandom(32))} for site, message in real.items()}


def signed_by_the_server(server: HostileServer) -> dict[str, Message]:
    """Do the same, and sign it anew with a key of the server's."""
    changed = changed_letter_keys(server)
    unsigned = {site: {k: v for k, v in each.items() if k != "signature"} for site, each in changed.items()}
    return {site: sign(message, os.urandom(32)) for site, message in unsigned.items()}


def one_site_in_all_places(server: HostileServer) -> dict[str, Message]:
    """Give out the victim's own keys as those of all others."""
    own = server.call(VICTIM, "join", {"study": server.terms.study})["advertisement"]
    return {site: own | {"site": site} for site in OTHERS}


def of_another_study(server: HostileServer) -> dict[str, Message]:
    """Give out what the real sites have signed for another study."""
    other = HostileServer(Sites(server.sites.folder, NOTEARS, name="other"))
    found = _advertisements(other)
    other.close()
    return found


def with_the_authority_s_help(server: HostileServer) -> dict[str, Message]:
    """Have the authority certify other keys, after the sites have met."""
    assert server.join()
    return _played(server, AUTHORITY)


def _played(server: HostileServer, authority: Authority) -> dict[str, Message]:
    return {
        site: SecureSite(site, server.terms, authority.identify(site), keep=lambda state: None).advertise()
        for site in OTHERS
    }


def _advertisements(server: HostileServer) -> dict[str, Message]:
    return {site: server.call(site, "join", {"study": server.terms.study})["advertisement"] for site in OTHERS}


WAYS = (
    of_its_own_authority,
    with_own_certificates,
    changed_letter_keys,
    signed_by_the_server,
    one_site_in_all_places,
    of_another_study,
    with_the_authority_s_help,
)


def sybil_sites(folder: Path) -> Result:
    """Play all sites but the victim, in every way that the server can."""
    recovered, refusals = 0, Counter[str]()
    for way in WAYS:
        server = HostileServer(Sites(folder / way.__name__, NOTEARS))
        others = way(server)
        own = server.call(VICTIM, "join", {"study": server.terms.study})["advertisement"]
        advertisements = {site: {**others, VICTIM: own}[site] for site in FOUR}
        roster = {"kind": "roster", "study": server.terms.digest, "advertisements": advertisements}
        recovered += server.call(VICTIM, "accept", {"roster": roster}) == {}
        refusals += server.refusals
        server.close()
    return Result(len(WAYS), recovered, refusals)


def test_a_site_accepts_no_site_that_the_server_plays(tmp_path):
    result = sybil_sites(tmp_path)
    assert result.recovered == 0
    assert result.refusals == {"protocol": len(WAYS)}


def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(site_module, "read_roster", lambda message, terms, trust: Roster.of(message))
    assert sybil_sites(tmp_path).recovered == len(WAYS)
