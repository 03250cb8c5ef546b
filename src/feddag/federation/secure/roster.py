"""Who is in a session, with which keys: the same for all, or no two sites' messages fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from feddag.errors import FeddagError
from feddag.federation.secure.agreement import Agreement
from feddag.federation.secure.messages import Message, check, digest, verify


@dataclass(frozen=True)
class Roster:
    session: bytes
    """A hash of all that follows, and so of every site's fresh keys: nothing of an older session fits to it."""
    identities: Mapping[str, bytes]
    channels: Mapping[str, bytes]
    """X25519 keys with which sites seal letters to each other, for this session."""


def read_advertisement(message: Message, agreement: Agreement, known: Mapping[str, bytes]) -> Message:
    """A site's advertisement, if the site itself signed it with the identity that is pinned or `known` from before."""
    check(message, "advertisement", "A site")
    site, identity = message["site"], message["identity"]
    if site not in agreement.sites:
        raise FeddagError(f"Site {site} is none of the study's sites {', '.join(agreement.sites)}.")
    if message["study"] != agreement.study:
        raise FeddagError(
            f"Site {site} works on other terms: its study has hash {message['study'].hex()[:16]}, ours "
            f"{agreement.study.hex()[:16]}. Give all sites the same study file."
        )
    expected = agreement.identities.get(site, known.get(site, identity))
    if identity != expected:
        raise FeddagError(
            f"Site {site} shows identity {identity.hex()}, but {expected.hex()} is on record. Ask the site, by another "
            f"way than this network, whether it has a new one; if not, somebody stands in between."
        )
    verify(message, identity)
    return message


def read_roster(message: Message, agreement: Agreement, known: Mapping[str, bytes]) -> Roster:
    """All sites' keys, each checked; a server that exchanges one is found out here."""
    check(message, "roster", "The server")
    advertisements = {
        site: read_advertisement(each, agreement, known) for site, each in message["advertisements"].items()
    }
    for site, each in advertisements.items():
        if each["site"] != site:
            raise FeddagError(f"The server gave out the keys of {each['site']} as those of {site}.")
    for part in ("identity", "channel"):
        if len({each[part] for each in advertisements.values()}) < len(advertisements):
            raise FeddagError(
                f"Two of the sites {', '.join(advertisements)} show the same {part} key. Each needs its own."
            )
    agreement.threshold(list(advertisements))
    return Roster(
        session=digest(message),
        identities={site: each["identity"] for site, each in advertisements.items()},
        channels={site: each["channel"] for site, each in advertisements.items()},
    )
