"""Masks are ChaCha20's key stream: they hide completely, cancel exactly, and belong to one attempt."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from feddag.federation.secure.cryptography import add_mask, commitment, mask_order, pairwise_seed, public_key, self_seed
from feddag.federation.secure.fixed_point import CHUNK
from feddag.federation.secure.messages import Attempt

ATTEMPT = Attempt(b"session", 3, 1)


@pytest.mark.parametrize("entries", [1, 7, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
def test_a_mask_is_the_key_stream_of_its_seed_whatever_the_chunks(entries: int):
    words = np.zeros((2, entries), np.uint64)
    add_mask(words, bytes(range(32)), times=1)
    for row in (0, 1):
        stream = (
            Cipher(ChaCha20(bytes(range(32)), bytes(15) + bytes([row])), None).encryptor().update(bytes(8 * entries))
        )
        np.testing.assert_array_equal(words[row], np.frombuffer(stream, "<u8"))


def test_what_is_added_can_be_taken_away():
    words = np.random.default_rng(0).integers(0, 2**64, (2, 1000), np.uint64)
    masked = words.copy()
    add_mask(masked, bytes(32), times=1)
    assert not np.any(masked == words)
    add_mask(masked, bytes(32), times=-1)
    np.testing.assert_array_equal(masked, words)


def test_two_sites_agree_on_a_seed_and_on_opposite_signs():
    east, west = bytes(range(32)), bytes(range(32, 64))
    seed = pairwise_seed(east, public_key(west), ATTEMPT, "east", "west")
    assert seed == pairwise_seed(west, public_key(east), ATTEMPT, "west", "east")
    assert mask_order("east", "west") == -mask_order("west", "east")


def test_seeds_differ_between_sessions_rounds_attempts_and_purposes():
    east, west = bytes(range(32)), public_key(bytes(range(32, 64)))
    attempts = [ATTEMPT, Attempt(b"session", 4, 1), Attempt(b"session", 3, 2), Attempt(b"other", 3, 1)]
    seeds = [pairwise_seed(east, west, each, "east", "west") for each in attempts]
    seeds += [derive(east, each) for each in attempts for derive in (self_seed, commitment)]
    assert len(set(seeds)) == len(seeds)
