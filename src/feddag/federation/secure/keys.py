"""Key agreement, derivation and sealed letters between sites: X25519, HKDF-SHA256, ChaCha20-Poly1305."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from feddag.errors import FeddagError
from feddag.federation.secure.messages import canonical

Randomness = Callable[[int], bytes]
"""Gives as many bytes as asked for; `os.urandom` but in tests."""

KEY_BYTES = 32
_NONCE_BYTES = 12


def public_key(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, purpose: dict[str, Any], owner: str) -> bytes:
    """The key that only one with this private key and the public key's owner can derive, for this one purpose."""
    try:
        common = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise FeddagError(f"Site {owner}: {public.hex()} is no X25519 public key. Leave the site out.") from None
    return derived_key(common, purpose)


def derived_key(secret: bytes, purpose: dict[str, Any]) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=canonical(purpose)).derive(secret)


def seal(key: bytes, content: bytes, envelope: dict[str, Any], randomness: Randomness) -> bytes:
    """Encrypt a letter, and tie it to what is written on its envelope."""
    nonce = randomness(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, canonical(envelope))


def unseal(key: bytes, letter: bytes, envelope: dict[str, Any]) -> bytes:
    try:
        return ChaCha20Poly1305(key).decrypt(letter[:_NONCE_BYTES], letter[_NONCE_BYTES:], canonical(envelope))
    except (InvalidTag, ValueError):
        raise FeddagError(
            f"Site {envelope['sender']}: its sealed shares for {envelope['receiver']} were changed on their way. "
            f"Repeat the attempt; if it happens again, look into the server."
        ) from None
