"""The cryptography of the secure sum: keys and sealed letters, masks, and shares of secrets.

**Keys**: X25519 agrees on a key, HKDF-SHA256 derives others, ChaCha20-Poly1305 seals a letter between two sites.

**Masks** are uniform vectors, expanded by ChaCha20 from short seeds. They hide a site's numbers, and can be taken off
the sum again.

**Shares** are Shamir's: any `threshold` of them give the secret, fewer say nothing at all about it. The secret is a
polynomial's value at 0, its other coefficients are uniform, and a share is its value elsewhere. For each possible
secret there is exactly one polynomial through it and `threshold - 1` given shares, and all are equally likely.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from feddag.errors import FeddagError
from feddag.federation.secure.fixed_point import CHUNK, Words, add, subtract
from feddag.federation.secure.messages import Attempt, canonical

Randomness = Callable[[int], bytes]
"""Gives as many bytes as asked for; `os.urandom` but in tests."""

KEY_BYTES = 32
SHARE_BYTES = 66
PRIME = 2**521 - 1
"""The order of the field in which secrets are shared."""
_NONCE_BYTES = 12


def public_key(private: bytes) -> bytes:
    """Derive the X25519 public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, purpose: dict[str, Any], owner: str) -> bytes:
    """Derive the key for one purpose that only the two owners of these keys can derive."""
    try:
        common = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise FeddagError(f"Site {owner}: {public.hex()} is no X25519 public key. Leave the site out.") from None
    return derived_key(common, purpose)


def derived_key(secret: bytes, purpose: dict[str, Any]) -> bytes:
    """Derive a key for one purpose from a secret."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=canonical(purpose)).derive(secret)


def seal(key: bytes, content: bytes, envelope: dict[str, Any], randomness: Randomness) -> bytes:
    """Encrypt a letter, and tie it to what is written on its envelope."""
    nonce = randomness(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, canonical(envelope))


def unseal(key: bytes, letter: bytes, envelope: dict[str, Any]) -> bytes:
    """Decrypt a letter; refuse one that was changed, or whose envelope is another."""
    try:
        return ChaCha20Poly1305(key).decrypt(letter[:_NONCE_BYTES], letter[_NONCE_BYTES:], canonical(envelope))
    except (InvalidTag, ValueError):
        raise FeddagError(
            f"Site {envelope['sender']}: its sealed shares for {envelope['receiver']} were changed on their way. "
            f"Repeat the attempt; if it happens again, look into the server."
        ) from None


def pairwise_seed(private: bytes, public: bytes, attempt: Attempt, site: str, other: str) -> bytes:
    """Derive the seed of the mask that one of two sites adds and the `other`, with the key `public`, takes away."""
    return agreed_key(private, public, attempt.message("pairwise mask", sites=sorted([site, other])), other)


def self_seed(secret: bytes, attempt: Attempt) -> bytes:
    """Derive the seed of the mask that a site shares with nobody."""
    return derived_key(secret, attempt.message("self mask"))


def commitment(secret: bytes, attempt: Attempt) -> bytes:
    """Derive what a site publishes of its self mask's secret, so that wrong shares of it are noticed."""
    return derived_key(secret, attempt.message("commitment"))


def add_mask(words: Words, seed: bytes, *, times: int) -> None:
    """Add a seed's mask once (`times=1`), or take it away (`times=-1`), in place."""
    apply = add if times > 0 else subtract
    streams = [Cipher(ChaCha20(seed, bytes(15) + bytes([row])), mode=None).encryptor() for row in (0, 1)]
    zeros = bytes(8 * CHUNK)
    mask = np.empty((2, CHUNK), "<u8")
    rows = mask.view(np.uint8)
    for start in range(0, words.shape[1], CHUNK):
        part = words[:, start : start + CHUNK]
        size = part.shape[1]
        for stream, row in zip(streams, rows, strict=True):
            stream.update_into(zeros[: 8 * size], row.data)
        apply(part, mask[:, :size].astype(np.uint64, copy=False))


def mask_order(site: str, other: str) -> int:
    """Return the sign of two sites' common mask: the first by name adds it, the second subtracts it."""
    return 1 if site < other else -1


def split_secret(secret: bytes, threshold: int, points: Sequence[int], randomness: Randomness) -> dict[int, bytes]:
    """Return a share for each point; the secret holds up to 65 bytes."""
    coefficients = [int.from_bytes(secret, "big"), *(_uniform(randomness) for _ in range(threshold - 1))]
    return {point: _polynomial(coefficients, point).to_bytes(SHARE_BYTES, "big") for point in points}


def join_shares(shares: Mapping[int, bytes], length: int) -> bytes:
    """Return the secret of `length` bytes behind exactly as many shares as the threshold demands."""
    secret = 0
    for point, share in shares.items():
        numerator = denominator = 1
        for other in shares:
            if other != point:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - point) % PRIME
        secret = (secret + int.from_bytes(share, "big") * numerator * pow(denominator, -1, PRIME)) % PRIME
    if secret >> (8 * length):
        raise FeddagError("Shares do not fit together: at least one was changed, or there are too few.")
    return secret.to_bytes(length, "big")


def _polynomial(coefficients: Sequence[int], point: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * point + coefficient) % PRIME
    return value


def _uniform(randomness: Randomness) -> int:
    """Uniform below the prime: 521 random bits, drawn again in the one case that is the prime itself."""
    while (drawn := int.from_bytes(randomness(SHARE_BYTES), "big") & PRIME) == PRIME:
        pass
    return drawn
