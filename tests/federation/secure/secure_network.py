"""Sites and a server in one process, every message carried between them as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from feddag.federation import Answer
from feddag.federation.identities import Authority, KnownIdentities, Trust, public_identity
from feddag.federation.secure import Message, SecureRound, SecureServer, SecureSite, from_text, to_text
from feddag.federation.secure.messages import read_total
from feddag.federation.terms import StudyTerms

NAMES = ("east", "north", "south", "west", "centre")
PHASES = ("prepare", "mask", "confirm", "reveal")
STUDY = bytes(range(32))
QUESTION = bytes(reversed(range(32)))
"""The digest of what is asked, and of all sums before: the sites have checked it."""
HEAD = "0" * 64
"""The head of a site's audit log."""
AUTHORITY = Authority.create("test")
TRUST = Trust(AUTHORITY.root)


def carried(message: Message) -> Message:
    return from_text(to_text(message))


def answers(names: Sequence[str] = NAMES, seed: int = 0) -> dict[str, Answer]:
    rng = np.random.default_rng(seed)
    return {
        name: Answer(
            float(rng.integers(1, 1000)), {"U": rng.normal(size=(3, 3)) * 10, "h": np.float32(rng.normal(size=2))}
        )
        for name in names
    }


class Network:
    """A session whose randomness is that of a seed, so that no test depends on chance."""

    def __init__(self, names: Sequence[str] = NAMES, quorum: int = 2, seed: int = 1, *, pinned: bool = True) -> None:
        self.randomness: Callable[[int], bytes] = np.random.default_rng(seed).bytes
        self.secret_identities = {name: self.randomness(32) for name in names}
        identities = {name: public_identity(secret) for name, secret in self.secret_identities.items()}
        self.terms = StudyTerms(STUDY.hex(), tuple(names), quorum, identities=identities if pinned else {})
        self.kept: dict[str, str] = {}
        self.known = {name: KnownIdentities() for name in names}
        """What each site's kit remembers of the others."""
        self.sites = {name: self.site(name) for name in names}
        self.server = SecureServer(self.terms, TRUST)
        self.transcript: list[Message] = []

    def site(self, name: str, *, restored: bool = False) -> SecureSite:
        """A site as a process would start it: new, or with what the process before had kept."""
        return SecureSite(
            name,
            self.terms,
            AUTHORITY.identify(name, self.secret_identities[name], self.known[name]),
            keep=lambda state: self.kept.update({name: to_text(state)}),
            state=from_text(self.kept[name]) if restored else None,
            randomness=self.randomness,
        )

    def restart(self, name: str) -> None:
        self.sites[name] = self.site(name, restored=True)

    def set_up(self) -> Network:
        self.server = SecureServer(self.terms, TRUST)
        for site in self.sites.values():
            self.server.add_advertisement(carried(site.advertise()))
        roster = self.server.roster()
        for site in self.sites.values():
            site.accept(carried(roster))
        return self

    def open(self, number: int = 0, attempt: int = 0, participants: Sequence[str] | None = None) -> SecureRound:
        return self.server.open(number, attempt, list(participants or self.sites), QUESTION)

    def prepared(self, name: str, opening: Message, question: bytes = QUESTION, *, everyone: bool = False) -> Message:
        """What a site makes of an opening."""
        return self.sites[name].prepare(carried(opening), question, audit=HEAD, everyone=everyone)

    def to_server(self, message: Message) -> Message:
        self.transcript.append(carried(message))
        return self.transcript[-1]

    def prepare(self, round_: SecureRound, names: Sequence[str]) -> dict[str, Message]:
        opening = round_.opening()
        for name in names:
            round_.add_prepared(self.to_server(self.prepared(name, opening)))
        return round_.relays()

    def mask(self, round_: SecureRound, relays: Mapping[str, Message], given: Mapping[str, Answer]) -> Message:
        for name, answer in given.items():
            round_.add_masked(self.to_server(self.sites[name].mask(carried(relays[name]), answer)))
        return round_.survivors_message()

    def confirm(self, round_: SecureRound, survivors: Message, names: Sequence[str]) -> Message:
        for name in names:
            round_.add_confirmed(self.to_server(self.sites[name].confirm(carried(survivors))))
        return round_.unmask_message()

    def reveal(self, round_: SecureRound, unmask: Message, names: Sequence[str]) -> dict[str, np.ndarray]:
        for name in names:
            round_.add_revealed(self.to_server(self.sites[name].reveal(carried(unmask))))
        return read_total(carried(round_.sum_message()), self.terms.maximum_rows).mean

    def run(
        self,
        given: Mapping[str, Answer],
        silent_from: Mapping[str, str] | None = None,
        number: int = 0,
        attempt: int = 0,
    ) -> dict[str, np.ndarray]:
        """A whole round, in which some sites fall silent from a phase on."""
        last = {name: PHASES.index((silent_from or {}).get(name, "reveal")) for name in given}
        last |= {name: 4 for name in given if name not in (silent_from or {})}
        present = [[name for name in given if last[name] > phase] for phase in range(4)]
        round_ = self.open(number, attempt, list(given))
        relays = self.prepare(round_, present[0])
        survivors = self.mask(round_, relays, {name: given[name] for name in present[1]})
        unmask = self.confirm(round_, survivors, present[2])
        return self.reveal(round_, unmask, present[3])
