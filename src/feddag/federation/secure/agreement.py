"""What all sites and the server agree on before the first sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from feddag.errors import FeddagError

IDENTITY_BYTES = 32


@dataclass(frozen=True)
class Agreement:
    """The study, its sites, and how many of them a sum must hold; every site checks the server against its own copy."""

    study: bytes
    """A hash of the study's terms: messages of another study are refused."""
    sites: tuple[str, ...]
    quorum: int
    """No sum of fewer sites is ever unmasked."""
    identities: Mapping[str, bytes] = field(default_factory=dict)
    """Pinned Ed25519 public keys; a site that has none here is trusted on first use."""

    def __post_init__(self) -> None:
        if len(set(self.sites)) < len(self.sites):
            raise FeddagError(f"The study's sites {', '.join(self.sites)} hold a name twice. Give each its own.")
        if not 2 <= self.quorum <= len(self.sites):
            raise FeddagError(
                f"A secure sum's quorum must be between 2 and the number of sites, {len(self.sites)}. "
                f"Got {self.quorum} instead."
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

    def threshold(self, participants: Sequence[str]) -> int:
        """How many of a round's participants a sum must hold, and how many must help to unmask it: more than half."""
        threshold = max(len(participants) // 2 + 1, self.quorum)
        if strangers := [site for site in participants if site not in self.sites]:
            raise FeddagError(f"Site {strangers[0]} is to take part in a secure sum, but is no site of the study.")
        if len(participants) < threshold:
            raise FeddagError(
                f"A secure sum of {len(participants)} sites ({', '.join(participants)}) is refused: the study's quorum "
                f"is {threshold}. Let more sites take part."
            )
        return threshold

    def point(self, site: str) -> int:
        """Where a site's share of a secret lies on the polynomial; 0 is the secret's own place."""
        return self.sites.index(site) + 1
