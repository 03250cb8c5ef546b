"""Masks: uniform vectors expanded from short seeds, which hide a site's numbers and can be taken off the sum again."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from feddag.federation.secure.attempt import Attempt
from feddag.federation.secure.fixed_point import CHUNK, Words, add, subtract
from feddag.federation.secure.keys import agreed_key, derived_key


def pairwise_seed(private: bytes, public: bytes, attempt: Attempt, site: str, other: str) -> bytes:
    """The seed of the mask that one of two sites adds and the `other` takes away; `public` is the other's key."""
    return agreed_key(private, public, attempt.message("pairwise mask", sites=sorted([site, other])), other)


def self_seed(secret: bytes, attempt: Attempt) -> bytes:
    """The seed of the mask that a site shares with nobody."""
    return derived_key(secret, attempt.message("self mask"))


def commitment(secret: bytes, attempt: Attempt) -> bytes:
    """What a site publishes of its self mask's secret, so that wrong shares of it are noticed."""
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
    """Of two sites, the first by name adds their common mask, the second takes it away."""
    return 1 if site < other else -1
