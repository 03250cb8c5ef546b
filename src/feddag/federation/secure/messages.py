"""Messages as plain dictionaries: what each holds, how it is signed and checked, and how it becomes text.

Nothing but dictionaries, lists, texts, whole numbers and bytes, so that any engine can carry them without pickles.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from feddag.errors import FeddagError
from feddag.federation.identities import Trust
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.secure import fixed_point
from feddag.federation.secure.fixed_point import Words
from feddag.federation.secure.sum_check import CHECK_BYTES, check_from_bytes
from feddag.federation.terms import StudyTerms

Message = dict[str, Any]
_Test = Callable[[Any], bool]
_BYTES = "bytes in base64"


def _is(kind: type) -> _Test:
    return lambda value: isinstance(value, kind)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _by_site(kind: type) -> _Test:
    return lambda value: (
        isinstance(value, dict)
        and all(isinstance(site, str) and isinstance(each, kind) for site, each in value.items())
    )


def _layout(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, list)
        and len(entry) == 3
        and isinstance(entry[0], str)
        and isinstance(entry[1], str)
        and isinstance(entry[2], list)
        and all(isinstance(length, int) and length >= 0 for length in entry[2])
        for entry in value
    )


def _check(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == CHECK_BYTES


_ROUND = {"session": _is(bytes), "round": _is(int), "attempt": _is(int)}
_SIGNED = {"site": _is(str), "signature": _is(bytes)}

FIELDS: Mapping[str, Mapping[str, _Test]] = {
    # Once per session: sites say who they are, and all get to know all.
    "advertisement": {
        "study": _is(bytes),
        "identity": _is(bytes),
        "certificate": _is(bytes),
        "channel": _is(bytes),
        **_SIGNED,
    },
    "roster": {"study": _is(bytes), "advertisements": _by_site(dict)},
    # Every round, in this order: from the server, from a site, and so on.
    "opening": {**_ROUND, "participants": _names},
    "prepared": {"site": _is(str), "key": _is(dict), "shares": _by_site(bytes)},
    "key": {
        **_ROUND,
        **_SIGNED,
        "participants": _names,
        "threshold": _is(int),
        "mask": _is(bytes),
        "commitment": _is(bytes),
        "question": _is(bytes),
        "audit": _is(str),
    },
    "relay": {**_ROUND, "keys": _by_site(dict), "shares": _by_site(bytes)},
    "masked": {**_ROUND, **_SIGNED, "keys": _is(bytes), "layout": _layout, "vector": _is(bytes), "check": _check},
    "survivors": {**_ROUND, "survivors": _names},
    "confirmed": {**_ROUND, **_SIGNED, "keys": _is(bytes), "survivors": _names},
    "unmask": {**_ROUND, "survivors": _names, "confirmations": _by_site(dict)},
    "revealed": {**_ROUND, **_SIGNED, "seeds": _by_site(bytes), "masks": _by_site(bytes)},
    # With the next round's task: what came of it.
    "sum": {**_ROUND, "survivors": _names, "layout": _layout, "words": _is(bytes), "check": _check},
}


def check(message: Message, kind: str, sender: str) -> Message:
    """Return the message; refuse one of another kind, or without the parts of its kind."""
    if not isinstance(message, dict) or message.get("kind") != kind:
        found = message.get("kind") if isinstance(message, dict) else type(message).__name__
        raise FeddagError(f"{sender} sent {found!r} where a message '{kind}' of the secure sum was due.")
    for name, test in FIELDS[kind].items():
        if name not in message or not test(message[name]):
            raise FeddagError(f"{sender} sent a message '{kind}' whose part '{name}' is missing or of the wrong form.")
    if more := set(message) - set(FIELDS[kind]) - {"kind"}:
        raise FeddagError(f"{sender} sent a message '{kind}' with unknown parts: {', '.join(map(str, more))}.")
    return message


def canonical(content: Any) -> bytes:
    """One text for one content, with the SHA-256 of bytes in place of bytes: what is signed and authenticated."""
    return json.dumps(_hashed(content), sort_keys=True, separators=(",", ":")).encode()


def digest(content: Any) -> bytes:
    """Hash the canonical text of a content."""
    return hashlib.sha256(canonical(content)).digest()


def _hashed(content: Any) -> Any:
    match content:
        case bytes() | bytearray() | memoryview():
            return {"sha256": hashlib.sha256(content).hexdigest()}
        case dict():
            return {name: _hashed(each) for name, each in content.items()}
        case list() | tuple():
            return [_hashed(each) for each in content]
        case _:
            return content


def sign(message: Message, identity: bytes) -> Message:
    """Add a site's signature to a message."""
    return message | {"signature": Ed25519PrivateKey.from_private_bytes(identity).sign(_signed_part(message))}


def verify(message: Message, identity: bytes) -> None:
    """Refuse a message that its site did not sign, or that was changed since."""
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(message["signature"], _signed_part(message))
    except (InvalidSignature, ValueError):
        raise FeddagError(
            f"Site {message['site']}: the signature of its message '{message['kind']}' is wrong. It was changed on its "
            f"way, or comes from another; repeat the attempt without the site, and look into its connection."
        ) from None


def _signed_part(message: Message) -> bytes:
    return b"feddag secure sum 1\n" + canonical({name: each for name, each in message.items() if name != "signature"})


def to_text(message: Message) -> str:
    """Write a message, or a site's state, as JSON."""
    return json.dumps(message, default=lambda content: {_BYTES: base64.b64encode(content).decode()})


def from_text(text: str) -> Message:
    """Read what `to_text` wrote."""
    return json.loads(text, object_hook=_with_bytes)


def _with_bytes(content: dict[str, Any]) -> Any:
    encoded = content.get(_BYTES)
    return base64.b64decode(encoded) if isinstance(encoded, str) else content


@dataclass(frozen=True)
class Attempt:
    """A session, a round in it, and how often it has been tried."""

    session: bytes
    round: int
    attempt: int

    @staticmethod
    def of(message: Message) -> Attempt:
        """Return the attempt that a message names."""
        return Attempt(message["session"], message["round"], message["attempt"])

    def message(self, kind: str, **content: Any) -> Message:
        """Make a message of this attempt."""
        return {"kind": kind, "session": self.session, "round": self.round, "attempt": self.attempt, **content}

    def expect(self, message: Message, sender: str) -> None:
        """Refuse a message of another attempt, such as an old one sent again."""
        if (found := Attempt.of(message)) != self:
            where = "another session" if found.session != self.session else f"{found}"
            raise FeddagError(f"{sender} sent a message '{message['kind']}' of {where}, but {self} is under way.")

    def __str__(self) -> str:
        return f"round {self.round}, attempt {self.attempt}"


@dataclass(frozen=True)
class Roster:
    """Who is in a session, with which keys: the same for all, or no two sites' messages fit together."""

    session: bytes
    """A hash of all that follows, and so of every site's fresh keys: nothing of an older session fits to it."""
    identities: Mapping[str, bytes]
    channels: Mapping[str, bytes]
    """X25519 keys with which sites seal letters to each other, for this session."""

    @classmethod
    def of(cls, message: Message) -> Roster:
        """Return the roster of a message that has been checked."""
        advertisements = message["advertisements"]
        return cls(
            session=digest(message),
            identities={site: each["identity"] for site, each in advertisements.items()},
            channels={site: each["channel"] for site, each in advertisements.items()},
        )


def read_advertisement(message: Message, terms: StudyTerms, trust: Trust) -> Message:
    """Return a site's advertisement, if the site signed it with an identity that is certified and the pinned one."""
    check(message, "advertisement", "A site")
    site, identity = message["site"], message["identity"]
    if site not in terms.sites:
        raise FeddagError(f"Site {site} is none of the study's sites {', '.join(terms.sites)}.")
    if message["study"] != terms.digest:
        raise FeddagError(
            f"Site {site} works on other terms: its study has hash {message['study'].hex()[:16]}, ours "
            f"{terms.study[:16]}. Give all sites the same study file."
        )
    pinned = terms.identities.get(site, identity)
    if identity != pinned:
        raise FeddagError(
            f"Site {site} shows identity {identity.hex()}, but the study pins {pinned.hex()}. Ask the site, by another "
            f"way than this network, whether it has a new one; if not, somebody stands in between."
        )
    trust.check(site, identity, message["certificate"])
    verify(message, identity)
    return message


def read_roster(message: Message, terms: StudyTerms, trust: Trust) -> Roster:
    """All sites' keys, each checked; a server that exchanges one is found out here."""
    check(message, "roster", "The server")
    advertisements = {site: read_advertisement(each, terms, trust) for site, each in message["advertisements"].items()}
    for site, each in advertisements.items():
        if each["site"] != site:
            raise FeddagError(f"The server gave out the keys of {each['site']} as those of {site}.")
    for part in ("identity", "channel"):
        if len({each[part] for each in advertisements.values()}) < len(advertisements):
            raise FeddagError(
                f"Two of the sites {', '.join(advertisements)} show the same {part} key. Each needs its own."
            )
    terms.threshold(list(advertisements))
    return Roster.of(message)


def read_round_key(
    message: Message,
    site: str,
    attempt: Attempt,
    roster: Roster,
    participants: Sequence[str],
    threshold: int,
    question: bytes,
) -> Message:
    """Return a site's key for an attempt, if the site signed it for the same participants, threshold and question."""
    check(message, "key", f"Site {site}")
    attempt.expect(message, f"Site {site}")
    if message["site"] != site or site not in participants:
        raise FeddagError(f"The key of site {message['site']} came as that of {site}, for {', '.join(participants)}.")
    verify(message, roster.identities[site])
    if message["participants"] != list(participants) or message["threshold"] != threshold:
        raise FeddagError(
            f"Site {site} has the participants {', '.join(message['participants'])} and a threshold of "
            f"{message['threshold']}, not {', '.join(participants)} and {threshold}. The server must tell all the same."
        )
    if message["question"] != question:
        raise RefusedError(
            Refusal.COURSE,
            f"Site {site} answers another question in {attempt}, or was shown other sums before it. The server must "
            "tell all the same.",
        )
    return message


def read_sum(message: Message, terms: StudyTerms) -> tuple[Attempt, Words, int]:
    """Return of which attempt a sum is, its numbers and their check."""
    check(message, "sum", "The server")
    terms.threshold(message["survivors"])
    content, numbers = message["words"], fixed_point.entries(check_layout(message["layout"], "The server"))
    if len(content) != fixed_point.ENTRY_BYTES * numbers:
        raise FeddagError(f"The server sent {len(content)} bytes for a sum of {numbers} numbers of 16.")
    return Attempt.of(message), fixed_point.from_bytes(content), check_from_bytes(message["check"])


def read_total(message: Message, maximum_weight: float) -> fixed_point.Total:
    """Return what a sum says; refuse one in which numbers had to be clamped, or weights are beyond what is allowed."""
    total = fixed_point.decode_total(fixed_point.from_bytes(message["words"]), message["layout"])
    what = f"Round {message['round'] + 1}"
    if total.clamped:
        raise FeddagError(
            f"{what}: {total.clamped} numbers of the sites were too large to be summed, or no numbers; the sites' own "
            "logs say whose. Bring columns to comparable scales: give them other units, or standardise them."
        )
    if total.weight > maximum_weight * len(message["survivors"]):
        raise FeddagError(
            f"{what}: {len(message['survivors'])} sites claim a weight of {total.weight:g}, and the study allows "
            f"{maximum_weight:g} for each. Find out which site claims more rows than it has, or raise "
            "federation.maximum_rows in a new study."
        )
    return total


def check_layout(layout: fixed_point.Layout, sender: str) -> fixed_point.Layout:
    """Return the layout, if all its arrays hold numbers."""
    for name, dtype, _ in layout:
        try:
            numeric = np.dtype(dtype).kind in "fiub"
        except TypeError:
            numeric = False
        if not numeric:
            raise FeddagError(f"{sender}: array {name} is said to hold {dtype!r}. A sum takes numbers.")
    return layout
