"""The terms of a study on a network: what all sites and the server agree on before the first sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from feddag.errors import FeddagError
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.row_privacy import RowPrivacy

CERTIFICATE_NOTICE = timedelta(days=14)
"""How long before its end a certificate is warned of."""
IDENTITY_BYTES = 32


@dataclass(frozen=True)
class StudyTerms:
    """One study's terms. Every site checks the server against its own copy."""

    study: str
    """The SHA-256 of the study file's content, in hexadecimal: messages of another study are refused."""
    sites: tuple[str, ...]
    quorum: int
    """How many sites must answer. No secure sum of fewer sites is ever unmasked."""
    timeout: float = 600.0
    """The seconds that a site has for a task."""
    minimum_sites: int = 1
    """No combination of the study's sums may be about fewer sites."""
    maximum_rows: float = 1e7
    """The largest weight that a site may claim."""
    secure_sum: bool = True
    """Whether the server sees sums only, and no site's own numbers."""
    identities: Mapping[str, bytes] = field(default_factory=dict)
    """Pinned Ed25519 public keys, which must be the certified ones; a site without one here needs its certificate."""
    noise: str = ""
    """The name of the noise in the sites' answers, as audit logs have it; empty without differential privacy."""
    row_privacy: RowPrivacy | None = None
    """What each answer may reveal of one person; every answer is then charged to the table."""
    experiments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By variable, the sites whose experiments may set or change it: they say less about it than the others."""

    def __post_init__(self) -> None:
        if len(set(self.sites)) < len(self.sites):
            raise FeddagError(f"The study's sites {', '.join(self.sites)} hold a name twice. Give each its own.")
        least = 2 if self.secure_sum else 1
        if not least <= self.quorum <= len(self.sites):
            raise FeddagError(
                f"A {'secure ' if self.secure_sum else ''}sum's quorum must be between {least} and the number of "
                f"sites, {len(self.sites)}. Got {self.quorum} instead."
            )
        for site, identity in self.identities.items():
            if site not in self.sites:
                raise FeddagError(f"The study pins an identity for {site}, which is none of its sites. Remove it.")
            if len(identity) != IDENTITY_BYTES:
                raise FeddagError(
                    f"Site {site}: its pinned identity has {len(identity)} bytes. An Ed25519 public key has 32."
                )
        if len(set(self.identities.values())) < len(self.identities):
            raise FeddagError("The study pins one identity for two sites. Every site needs its own.")

    @property
    def digest(self) -> bytes:
        """The study's digest as bytes."""
        return bytes.fromhex(self.study)

    def threshold(self, participants: Sequence[str], *, everyone: bool = False) -> int:
        """Return how many participants a secure sum must hold, and must help to unmask it: more than half, or all."""
        threshold = len(self.sites) if everyone else max(len(participants) // 2 + 1, self.quorum)
        if strangers := [site for site in participants if site not in self.sites]:
            raise FeddagError(f"Site {strangers[0]} is to take part in a secure sum, but is no site of the study.")
        if len(participants) < threshold:
            raise RefusedError(
                Refusal.ROSTER,
                f"A secure sum of {len(participants)} sites ({', '.join(participants)}) is refused: it must be of "
                f"{threshold} at least. Let more sites take part.",
            )
        return threshold

    def point(self, site: str) -> int:
        """Return where a site's share of a secret lies on the polynomial; 0 is the secret's own place."""
        return self.sites.index(site) + 1
