"""The server's side of the secure sum: it passes letters on, adds what it cannot read, and unmasks the total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.identities import Trust
from feddag.federation.secure import fixed_point
from feddag.federation.secure.cryptography import (
    KEY_BYTES,
    add_mask,
    commitment,
    join_shares,
    mask_order,
    pairwise_seed,
    public_key,
    self_seed,
)
from feddag.federation.secure.messages import (
    Attempt,
    Message,
    Roster,
    check,
    check_layout,
    digest,
    read_advertisement,
    read_roster,
    read_round_key,
    verify,
)
from feddag.federation.secure.sum_check import check_from_bytes, check_mask, check_to_bytes
from feddag.federation.terms import StudyTerms


class SecureServer:
    """A session's server: it collects the sites' keys, then opens rounds."""

    def __init__(self, terms: StudyTerms, trust: Trust) -> None:
        self._terms = terms
        self._trust = trust
        self._advertisements: dict[str, Message] = {}
        self._roster: Roster | None = None

    def add_advertisement(self, message: Message) -> None:
        """Take a site's keys for the session."""
        read_advertisement(message, self._terms, self._trust)
        if self._roster is not None:
            raise FeddagError(f"Site {message['site']} comes after the session began. Set up a new session with it.")
        self._advertisements[message["site"]] = message

    def roster(self) -> Message:
        """For every site that advertised: all of them, in the study's order. The session has begun."""
        message = {
            "kind": "roster",
            "study": self._terms.digest,
            "advertisements": {
                site: self._advertisements[site] for site in self._terms.sites if site in self._advertisements
            },
        }
        self._roster = read_roster(message, self._terms, self._trust)
        return message

    def open(
        self, number: int, attempt: int, participants: Sequence[str], question: bytes, *, everyone: bool = False
    ) -> SecureRound:
        """One attempt at a round. Rounds rise by one with each sum that is asked for, attempts with each retry."""
        if self._roster is None:
            raise FeddagError("A secure sum needs a session. Collect the sites' keys first.")
        if absent := [site for site in participants if site not in self._roster.channels]:
            raise FeddagError(f"Site {absent[0]} is to take part, but did not join this session. Set up a new one.")
        threshold = self._terms.threshold(participants, everyone=everyone)
        attempt_ = Attempt(self._roster.session, number, attempt)
        return SecureRound(self._terms, self._roster, attempt_, participants, threshold, question)


class SecureRound:
    """One attempt at a sum: four exchanges, each begun with the message that closes the one before.

    `add_...` takes one site's message and refuses a wrong one, by the site's name; the site then counts as dropped,
    unless the engine asks it again. The messages that close an exchange refuse to go on with too few.
    """

    def __init__(
        self,
        terms: StudyTerms,
        roster: Roster,
        attempt: Attempt,
        participants: Sequence[str],
        threshold: int,
        question: bytes,
    ) -> None:
        self._terms = terms
        self._roster = roster
        self._attempt = attempt
        self._participants = list(participants)
        self.threshold = threshold
        self._question = question
        self._prepared: dict[str, Message] = {}
        self._keys: dict[str, Message] = {}
        self._masked: dict[str, Message] = {}
        self._layout: fixed_point.Layout = []
        self._total = np.zeros((2, 0), np.uint64)
        self._total_check = 0
        self._survivors: list[str] = []
        self._confirmed: dict[str, Message] = {}
        self._revealed: dict[str, Message] = {}
        self._unmasked = False

    @property
    def survivors(self) -> tuple[str, ...]:
        """Whose numbers the sum holds, once that is settled."""
        return tuple(self._survivors)

    def opening(self) -> Message:
        """To all participants."""
        return self._attempt.message("opening", participants=self._participants)

    def add_prepared(self, message: Message) -> None:
        """Take a site's key and sealed shares."""
        check(message, "prepared", "A site")
        site = message["site"]
        self._expected(site, self._participants, self._prepared, closed=bool(self._keys))
        read_round_key(
            message["key"], site, self._attempt, self._roster, self._participants, self.threshold, self._question
        )
        if set(message["shares"]) != set(self._participants) - {site}:
            raise FeddagError(f"Site {site}: its shares are for {', '.join(message['shares'])}, not for all others.")
        self._prepared[site] = message

    def relays(self) -> dict[str, Message]:
        """To each site that prepared: all their keys, and the shares that are for it."""
        self._enough(self._prepared, "have made keys")
        self._keys = {site: self._prepared[site]["key"] for site in self._participants if site in self._prepared}
        return {
            receiver: self._attempt.message(
                "relay",
                keys=self._keys,
                shares={site: self._prepared[site]["shares"][receiver] for site in self._keys if site != receiver},
            )
            for receiver in self._keys
        }

    def add_masked(self, message: Message) -> None:
        """Take a site's masked numbers."""
        site = self._check(message, "masked", list(self._keys), self._masked, closed=bool(self._survivors))
        if message["keys"] != digest(self._keys):
            raise FeddagError(f"Site {site} masked its numbers for other members than {', '.join(self._keys)}.")
        entries = fixed_point.entries(check_layout(message["layout"], f"Site {site}"))
        if len(message["vector"]) != fixed_point.ENTRY_BYTES * entries:
            raise FeddagError(f"Site {site} sent {len(message['vector'])} bytes for {entries} masked numbers of 16.")
        self._masked[site] = message

    def drop_other_layouts(self) -> dict[str, str]:
        """Drop the sites whose arrays are not those that most have sent, and return by name what is wrong with them."""
        layouts = {site: _named(message["layout"]) for site, message in self._masked.items()}
        if not layouts:
            return {}
        common, _ = Counter(layouts.values()).most_common(1)[0]
        wrong = {site: found for site, found in layouts.items() if found != common}
        for site in wrong:
            del self._masked[site]
        return {site: f"it sent {found}, and others {common}" for site, found in wrong.items()}

    def survivors_message(self) -> Message:
        """To each site whose numbers are in the total: who else's are. It cannot change from here on."""
        self._enough(self._masked, "have sent their numbers")
        vectors = [fixed_point.from_bytes(message["vector"]) for message in self._masked.values()]
        self._survivors = sorted(self._masked)
        self._layout = self._masked[self._survivors[0]]["layout"]
        self._total = np.zeros_like(vectors[0])
        for vector in vectors:
            fixed_point.add(self._total, vector)
        self._total_check = sum(check_from_bytes(message["check"]) for message in self._masked.values())
        return self._attempt.message("survivors", survivors=self._survivors)

    def add_confirmed(self, message: Message) -> None:
        """Take a site's signature under the set of survivors."""
        site = self._check(message, "confirmed", self._survivors, self._confirmed, closed=False)
        if message["survivors"] != self._survivors or message["keys"] != digest(self._keys):
            raise FeddagError(f"Site {site} confirmed another sum than that of {', '.join(self._survivors)}.")
        self._confirmed[site] = message

    def unmask_message(self) -> Message:
        """To each site that confirmed: proof that enough of them mean the same sum. Sending it again does no harm."""
        self._enough(self._confirmed, "have confirmed the sum")
        return self._attempt.message("unmask", survivors=self._survivors, confirmations=self._confirmed)

    def add_revealed(self, message: Message) -> None:
        """Take a site's shares."""
        site = self._check(message, "revealed", self._survivors, self._revealed, closed=False)
        dropped = set(self._keys) - set(self._survivors)
        if set(message["seeds"]) != set(self._survivors) or set(message["masks"]) != dropped:
            raise FeddagError(f"Site {site} revealed shares for other sites than those of this sum.")
        self._revealed[site] = message

    def sum_message(self) -> Message:
        """Return the sum of the survivors' numbers, unmasked: what the sites check, and `read_total` reads."""
        if not self._unmasked:
            self._enough(self._revealed, "have helped to unmask")
            secrets = {site: self._recovered(site, "seeds") for site in self._survivors}
            mask_keys = {site: self._recovered(site, "masks") for site in self._keys if site not in self._survivors}
            for secret in secrets.values():
                self._take_off(self_seed(secret, self._attempt), times=1)
            for dropped, private in mask_keys.items():
                for site in self._survivors:
                    seed = pairwise_seed(private, self._keys[site]["mask"], self._attempt, dropped, site)
                    self._take_off(seed, times=mask_order(site, dropped))
            self._unmasked = True
        words, check_ = fixed_point.to_bytes(self._total), check_to_bytes(self._total_check)
        return self._attempt.message("sum", survivors=self._survivors, layout=self._layout, words=words, check=check_)

    def _take_off(self, seed: bytes, *, times: int) -> None:
        add_mask(self._total, seed, times=-times)
        self._total_check -= times * check_mask(seed)

    def _recovered(self, site: str, kind: str) -> bytes:
        """Join a self mask's secret, or a dropped site's mask key, and check it against what the site announced."""
        helpers = list(self._revealed)[: self.threshold]
        shares = {self._terms.point(helper): self._revealed[helper][kind][site] for helper in helpers}
        try:
            secret = join_shares(shares, KEY_BYTES)
        except FeddagError:
            secret = None
        announced = self._keys[site]["commitment" if kind == "seeds" else "mask"]
        if secret is None or announced != (
            commitment(secret, self._attempt) if kind == "seeds" else public_key(secret)
        ):
            raise FeddagError(
                f"{self._attempt}: the shares of site {site}'s secret do not fit together; {site} dealt wrong ones, or "
                f"one of {', '.join(helpers)} returned a wrong one. The sum stays masked; go on to the next round."
            )
        return secret

    def _check(
        self,
        message: Message,
        kind: str,
        expected: Sequence[str],
        present: Sequence[str] | Mapping[str, Message],
        *,
        closed: bool,
    ) -> str:
        """Return the name of the site that signed a message of this attempt and had not sent one yet."""
        check(message, kind, "A site")
        site = message["site"]
        self._attempt.expect(message, f"Site {site}")
        self._expected(site, expected, present, closed=closed)
        verify(message, self._roster.identities[site])
        return site

    def _expected(
        self, site: str, expected: Sequence[str], present: Sequence[str] | Mapping[str, Message], *, closed: bool
    ) -> None:
        if site not in expected:
            raise FeddagError(f"Site {site} is not among those asked in {self._attempt}: {', '.join(expected)}.")
        if site in present:
            raise FeddagError(f"Site {site} has already answered in {self._attempt}. A second answer is refused.")
        if closed:
            raise FeddagError(f"Site {site} answers too late in {self._attempt}. It counts as dropped.")

    def _enough(self, present: Sequence[str] | Mapping[str, Message], what: str) -> None:
        if len(present) < self.threshold:
            missing = [site for site in self._participants if site not in present]
            raise FeddagError(
                f"{self._attempt}: only {len(present)} sites {what}, {self.threshold} are needed to protect the sum. "
                f"Wait for {', '.join(missing)}, or try again later; there is no unprotected sum."
            )


def _named(layout: fixed_point.Layout) -> str:
    return ", ".join(f"{name} {dtype}{tuple(shape)}" for name, dtype, shape in layout) or "no array"
