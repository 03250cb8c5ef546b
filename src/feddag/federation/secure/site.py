"""The site's side of the secure sum: it masks its numbers, and helps to unmask one sum of a round, never two."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from feddag.errors import FeddagError
from feddag.federation.identities import SiteIdentity
from feddag.federation.protocol import Answer
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.secure import fixed_point
from feddag.federation.secure.cryptography import (
    KEY_BYTES,
    SHARE_BYTES,
    Randomness,
    add_mask,
    agreed_key,
    commitment,
    derived_key,
    mask_order,
    pairwise_seed,
    public_key,
    seal,
    self_seed,
    split_secret,
    unseal,
)
from feddag.federation.secure.messages import (
    Attempt,
    Message,
    Roster,
    check,
    digest,
    read_roster,
    read_round_key,
    read_sum,
    sign,
    verify,
)
from feddag.federation.secure.sum_check import check_mask, check_of, check_to_bytes, is_true_sum
from feddag.federation.terms import StudyTerms

PREPARED, MASKED, CONFIRMED, REVEALED = "prepared", "masked", "confirmed", "revealed"


@dataclass
class _Round:
    """What a site remembers of the attempt under way; a new one takes its place, and its secrets are gone."""

    session: bytes
    round: int
    attempt: int
    participants: list[str]
    threshold: int
    key: Message
    mask_key: bytes
    self_secret: bytes
    """This and the one before are forgotten as soon as the site has masked: others hold their shares."""
    question: bytes
    check_share: bytes
    """This site's part of the key by which the members check the sum."""
    shares: dict[str, bytes]
    """By site: one share of its self mask's secret, one of its mask key."""
    phase: str = PREPARED
    keys: bytes = b""
    members: list[str] = field(default_factory=list)
    """The sites whose masks are in this site's numbers."""
    check_key: bytes = b""
    layout: fixed_point.Layout = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    """The one set whose sum this site has confirmed."""

    @property
    def id(self) -> Attempt:
        return Attempt(self.session, self.round, self.attempt)

    @property
    def awaited(self) -> _Awaited:
        return _Awaited(self.session, self.round, self.attempt, self.survivors, self.check_key, self.layout)


@dataclass(frozen=True)
class _Awaited:
    """The one sum that this site has confirmed for a round, whatever session it is unmasked in.

    Until it has confirmed one, the last that has its numbers: the others may complete it while this site is cut off.
    """

    session: bytes
    round: int
    attempt: int
    survivors: list[str]
    """Empty until the site has confirmed them."""
    check_key: bytes
    layout: fixed_point.Layout


class SecureSite:
    """One site. Each method takes a message of the server and gives the message that goes back.

    `keep` stores the state, safely and where only the site reads it, before a message that makes a promise is given
    back: the promise then outlives a crash. A site started anew with that `state` goes on where it was; with an older
    one, or none, it must set up a new session.
    """

    def __init__(
        self,
        name: str,
        terms: StudyTerms,
        identity: SiteIdentity,
        *,
        keep: Callable[[Message], None],
        state: Message | None = None,
        randomness: Randomness = os.urandom,
    ) -> None:
        if name not in terms.sites:
            raise FeddagError(f"Site {name} is none of the study's sites {', '.join(terms.sites)}.")
        if identity.name != name:
            raise FeddagError(f"Site {name}: its identity is certified as that of {identity.name}. Use its own kit.")
        if terms.identities.get(name, identity.public) != identity.public:
            raise FeddagError(f"Site {name}: its identity key is not the one that the study pins. Use that one.")
        self.name = name
        self._terms = terms
        self._certified = identity
        self._identity = identity.secret
        self._keep = keep
        self._randomness = randomness
        self._channel_key = b""
        self._advertisement: Message = {}
        self._roster_message: Message = {}
        self._roster: Roster | None = None
        self._round: _Round | None = None
        self._awaited: _Awaited | None = None
        self.clamped = 0
        """How many numbers of the last answer did not fit."""
        if state is not None:
            self._restore(state)

    def snapshot(self) -> Message:
        """Return the state, as plain as a message. It holds private keys."""
        return {
            "study": self._terms.digest,
            "site": self.name,
            "channel_key": self._channel_key,
            "advertisement": self._advertisement,
            "roster": self._roster_message,
            "round": asdict(self._round) if self._round else {},
            "awaited": asdict(self._awaited) if self._awaited else {},
        }

    def _restore(self, state: Message) -> None:
        try:
            if (state["study"], state["site"]) != (self._terms.digest, self.name):
                raise FeddagError(f"Site {self.name}: the kept state is that of {state['site']}, or of another study.")
            self._channel_key = state["channel_key"]
            self._advertisement = state["advertisement"]
            self._roster_message = state["roster"]
            if self._roster_message:  # checked before it was kept; a certificate that ended since ends no round
                self._roster = Roster.of(self._roster_message)
            self._round = _Round(**state["round"]) if state["round"] else None
            self._awaited = _Awaited(**state["awaited"]) if state["awaited"] else None
        except (KeyError, TypeError) as error:
            raise FeddagError(
                f"Site {self.name}: the kept state cannot be read ({error}). Remove it, and set up a new session."
            ) from None

    @property
    def question(self) -> bytes:
        """The digest of the question that the attempt under way is for; empty where there is none."""
        return self._round.question if self._round else b""

    def stands_for(self, round_: int) -> bool:
        """Return whether this site has confirmed a sum of a round."""
        return self._awaited is not None and self._awaited.round == round_ and bool(self._awaited.survivors)

    # Once per session

    def advertise(self) -> Message:
        """Begin a session: fresh keys for sealed letters, signed. What was under way is given up, its secrets lost."""
        self._channel_key = self._randomness(KEY_BYTES)
        self._roster_message, self._roster, self._round = {}, None, None
        self._advertisement = sign(
            {
                "kind": "advertisement",
                "study": self._terms.digest,
                "site": self.name,
                "identity": self._certified.public,
                "certificate": self._certified.certificate,
                "channel": public_key(self._channel_key),
            },
            self._identity,
        )
        self._keep(self.snapshot())
        return self._advertisement

    def accept(self, message: Message) -> None:
        """Check all sites' keys and certificates, and remember the identities of those seen for the first time."""
        trust = self._certified.trust
        roster = read_roster(message, self._terms, trust)
        if message["advertisements"].get(self.name) != self._advertisement:
            raise FeddagError(f"Site {self.name}: the server gave out other keys for it than it made. Set up anew.")
        if self._roster is not None and self._roster.session != roster.session:
            raise FeddagError(f"Site {self.name}: the server gave out a second list of keys. Set up a new session.")
        self._roster_message, self._roster = message, roster
        trust.known.remember({site: each for site, each in roster.identities.items() if site != self.name})
        self._keep(self.snapshot())

    # Every round

    def prepare(self, message: Message, question: bytes, *, audit: str = "", everyone: bool = False) -> Message:
        """Make this attempt's keys, and share their secrets among the participants, sealed.

        Args:
            message: The server's opening.
            question: The digest of what is asked and of all sums before: members whose digests differ do not sum.
            audit: The head of this site's audit log, for the others to remember.
            everyone: Whether the sum must hold every site of the study.
        """
        check(message, "opening", "The server")
        attempt, participants = Attempt.of(message), message["participants"]
        roster = self._session(attempt)
        self._refuse_repetition(attempt)
        if self.name not in participants or not set(participants) <= set(roster.channels):
            raise FeddagError(
                f"Site {self.name}: {attempt} is said to be of {', '.join(participants)}. Only those of this session "
                f"can take part ({', '.join(roster.channels)}), and {self.name} must be one."
            )
        threshold = self._terms.threshold(participants, everyone=everyone)
        mask_key, self_secret, check_share = (self._randomness(KEY_BYTES) for _ in range(3))
        key = sign(
            attempt.message(
                "key",
                site=self.name,
                participants=participants,
                threshold=threshold,
                mask=public_key(mask_key),
                commitment=commitment(self_secret, attempt),
                question=question,
                audit=audit,
            ),
            self._identity,
        )
        points = [self._terms.point(site) for site in participants]
        of_secret = split_secret(self_secret, threshold, points, self._randomness)
        of_key = split_secret(mask_key, threshold, points, self._randomness)
        shares = {site: of_secret[at] + of_key[at] for site, at in zip(participants, points, strict=True)}
        letters = {}
        for site, share in shares.items():
            if site != self.name:
                envelope = self._envelope(attempt, self.name, site)
                content = share + check_share
                letters[site] = seal(self._letter_key(site, envelope), content, envelope, self._randomness)
        self._round = _Round(
            session=attempt.session,
            round=attempt.round,
            attempt=attempt.attempt,
            participants=participants,
            threshold=threshold,
            key=key,
            mask_key=mask_key,
            self_secret=self_secret,
            question=question,
            check_share=check_share,
            shares={self.name: shares[self.name]},
        )
        self._keep(self.snapshot())
        return {"kind": "prepared", "site": self.name, "key": key, "shares": letters}

    def mask(self, message: Message, answer: Answer) -> Message:
        """Return this site's numbers under a mask of its own and one with every other member. Once per attempt."""
        check(message, "relay", "The server")
        current = self._under_way(message, PREPARED)
        attempt, roster = current.id, self._session(current.id)
        keys = {
            site: read_round_key(key, site, attempt, roster, current.participants, current.threshold, current.question)
            for site, key in message["keys"].items()
        }
        if keys.get(self.name) != current.key:
            raise FeddagError(f"Site {self.name}: the server gave out another key for it than it made in {attempt}.")
        self._enough(list(keys), current, "have made keys")
        others = [site for site in keys if site != self.name]
        letters = {site: self._open_letter(attempt, site, message["shares"]) for site in others}
        check_shares = {site: letter[2 * SHARE_BYTES :] for site, letter in letters.items()}
        current.check_key = derived_key(
            digest(check_shares | {self.name: current.check_share}), attempt.message("check of the sum")
        )

        current.layout, words, self.clamped = fixed_point.encode_answer(answer, len(current.participants))
        check_ = check_of(words, current.check_key)
        masks = {self_seed(current.self_secret, attempt): 1}
        for site in others:
            seed = pairwise_seed(current.mask_key, keys[site]["mask"], attempt, self.name, site)
            masks[seed] = mask_order(self.name, site)
        for seed, times in masks.items():
            add_mask(words, seed, times=times)
            check_ += times * check_mask(seed)

        current.mask_key = current.self_secret = b""
        current.shares |= {site: letter[: 2 * SHARE_BYTES] for site, letter in letters.items()}
        current.keys, current.members, current.phase = digest(keys), list(keys), MASKED
        if not self.stands_for(current.round):
            self._awaited = current.awaited
        self._keep(self.snapshot())
        content = attempt.message(
            "masked",
            site=self.name,
            keys=current.keys,
            layout=current.layout,
            vector=fixed_point.to_bytes(words),
            check=check_to_bytes(check_),
        )
        return sign(content, self._identity)

    def confirm(self, message: Message, permit: Callable[[list[str]], None] = lambda survivors: None) -> Message:
        """Sign the set of sites whose numbers arrived; this site will help to unmask their sum and no other.

        This holds for the round, not for the attempt or the session alone. `permit` may refuse the set by raising.
        """
        check(message, "survivors", "The server")
        current = self._under_way(message, MASKED, CONFIRMED, REVEALED)
        survivors = sorted(message["survivors"])
        awaited = self._awaited
        if awaited is not None and self.stands_for(current.round) and survivors != awaited.survivors:
            raise RefusedError(
                Refusal.ROSTER,
                f"Site {self.name}: in {current.id} it stands for the sum of {', '.join(awaited.survivors)}, and "
                f"refuses a second one, of {', '.join(survivors)}: the difference would lay open what some site sent.",
            )
        if self.name not in survivors or not set(survivors) <= set(current.members):
            raise FeddagError(
                f"Site {self.name}: a sum of {', '.join(survivors)} must hold {self.name}, and none but the members "
                f"{', '.join(current.members)}."
            )
        self._enough(survivors, current, "have sent numbers")
        if current.phase == MASKED:
            permit(survivors)
            current.survivors, current.phase = survivors, CONFIRMED
            self._awaited = current.awaited
        self._keep(self.snapshot())
        content = current.id.message("confirmed", site=self.name, keys=current.keys, survivors=survivors)
        return sign(content, self._identity)

    def reveal(self, message: Message) -> Message:
        """Shares that unmask the confirmed sum: of each survivor's self mask, or of a dropped site's mask key."""
        check(message, "unmask", "The server")
        current = self._under_way(message, CONFIRMED, REVEALED)
        if sorted(message["survivors"]) != current.survivors:
            raise FeddagError(
                f"Site {self.name}: in {current.id} it stands for the sum of {', '.join(current.survivors)}, and "
                f"refuses to unmask that of {', '.join(message['survivors'])}."
            )
        self._check_confirmations(message["confirmations"], current)
        current.phase = REVEALED
        self._keep(self.snapshot())
        length = SHARE_BYTES
        seeds = {site: current.shares[site][:length] for site in current.survivors}
        masks = {site: current.shares[site][length:] for site in current.members if site not in seeds}
        return sign(current.id.message("revealed", site=self.name, seeds=seeds, masks=masks), self._identity)

    # With the next round's task

    def check_sum(self, message: Message) -> None:
        """Refuse a sum that is not the one which this site has confirmed, or has numbers in.

        A site that had no part in it cannot tell: it relies on those who had, whose signed keys name the course of the
        study before they go on.
        """
        attempt, words, sum_check = read_sum(message, self._terms)
        awaited, survivors = self._awaited, message["survivors"]
        if awaited is None or awaited.round != attempt.round:
            awaited = None
        if self.name not in survivors and not (awaited and awaited.survivors):
            return
        if awaited is None or (attempt.session, attempt.attempt) != (awaited.session, awaited.attempt):
            raise RefusedError(
                Refusal.COURSE,
                f"Site {self.name}: the server shows a sum of {', '.join(survivors)} for {attempt}, and this site has "
                "confirmed none, or another. Look into the server.",
            )
        if awaited.survivors and survivors != awaited.survivors:
            raise RefusedError(
                Refusal.COURSE,
                f"Site {self.name}: the server shows a sum of {', '.join(survivors)} for {attempt}, and the one that "
                f"this site has confirmed is of {', '.join(awaited.survivors)}. Look into the server.",
            )
        if message["layout"] != awaited.layout or not is_true_sum(words, sum_check, awaited.check_key, len(survivors)):
            raise RefusedError(
                Refusal.COURSE,
                f"Site {self.name}: the sum that the server shows for {attempt} is not what the sites have sent. Look "
                "into the server.",
            )

    # What it checks, and how it reads its letters

    def _session(self, attempt: Attempt) -> Roster:
        if self._roster is None or attempt.session != self._roster.session:
            raise FeddagError(f"Site {self.name}: {attempt} is of a session that it is not in. Set up a new session.")
        return self._roster

    def _refuse_repetition(self, attempt: Attempt) -> None:
        last = self._round
        if last is None:
            return
        if (attempt.round, attempt.attempt) <= (last.round, last.attempt):
            raise FeddagError(f"Site {self.name}: {attempt} comes after {last.id}. Numbers must rise.")

    def _under_way(self, message: Message, *phases: str) -> _Round:
        current = self._round
        if current is None:
            raise FeddagError(f"Site {self.name}: no round is under way. Open one first.")
        current.id.expect(message, "The server")
        if current.phase not in phases:
            raise FeddagError(
                f"Site {self.name}: it has {current.phase} in {current.id}, and refuses '{message['kind']}' now."
            )
        return current

    def _enough(self, sites: list[str], current: _Round, what: str) -> None:
        if len(sites) < current.threshold:
            raise FeddagError(
                f"Site {self.name}: only {', '.join(sites)} {what} in {current.id}; it helps with sums of at least "
                f"{current.threshold} sites. Try again once more sites are there."
            )

    def _check_confirmations(self, confirmations: Mapping[str, Message], current: _Round) -> None:
        roster = self._session(current.id)
        for site, each in confirmations.items():
            check(each, "confirmed", f"Site {site}")
            current.id.expect(each, f"Site {site}")
            if each["site"] != site or site not in current.survivors:
                raise FeddagError(f"Site {self.name}: a confirmation of {each['site']} came as that of {site}.")
            verify(each, roster.identities[site])
            if each["survivors"] != current.survivors or each["keys"] != current.keys:
                raise FeddagError(
                    f"Site {self.name}: the server showed {site} another sum, in {current.id}. Not unmasked; "
                    f"look into the server."
                )
        self._enough(list(confirmations), current, "have confirmed the sum")

    def _envelope(self, attempt: Attempt, sender: str, receiver: str) -> Message:
        return attempt.message("shares", study=self._terms.digest, sender=sender, receiver=receiver)

    def _letter_key(self, other: str, envelope: Message) -> bytes:
        """Derive a key for one letter, from its sender, receiver and attempt."""
        return agreed_key(self._channel_key, self._session(Attempt.of(envelope)).channels[other], envelope, other)

    def _open_letter(self, attempt: Attempt, sender: str, letters: Mapping[str, bytes]) -> bytes:
        """Return a site's two shares, and its part of the key that checks the sum."""
        if sender not in letters:
            raise FeddagError(f"Site {self.name}: the shares of site {sender} did not come with its key in {attempt}.")
        envelope = self._envelope(attempt, sender, self.name)
        letter = unseal(self._letter_key(sender, envelope), letters[sender], envelope)
        if len(letter) != 2 * SHARE_BYTES + KEY_BYTES:
            raise FeddagError(f"Site {sender}: its letter for {self.name} has {len(letter)} bytes. Leave it out.")
        return letter
