"""A check by which the sites notice a false sum: a number that only the true one fits, and the server cannot make.

The members of a sum share a key that the server does not know. From it they derive a secret coefficient for each number
of the sum, and one for the number 1, which stands for the site. Each adds up the products of its numbers with these
coefficients, modulo the prime 2¹²⁷ − 1. Such checks are masked and summed modulo the prime, as the numbers are modulo
2¹²⁸. All is linear: the check of the sum is the sum of the checks. Whoever wants to pass off a changed sum has to guess
how its check changes, and since a change of any number is no multiple of the prime, all 2¹²⁷ − 1 changes of the check
are equally likely to somebody who does not know the coefficients (Carter and Wegman, 1979). The number 1 sees to it
that the check of a multiple of the sum is no multiple of its check.

The check says nothing about any site, not even to those who have the key: it is a function of the key and the sum.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from feddag.federation.secure.fixed_point import CHUNK, Words, in_range

PRIME = 2**127 - 1
CHECK_BYTES = 16


def check_of(words: Words, key: bytes, sites: int = 1) -> int:
    """Return the check of a sum of so many sites' numbers, below the prime."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    check = sites * int.from_bytes(stream.update(bytes(32)), "little")
    for start in range(0, words.shape[1], CHUNK):
        part = words[:, start : start + CHUNK]
        drawn = np.frombuffer(stream.update(bytes(16 * part.shape[1])), "<u8").reshape(2, -1).astype(np.uint64)
        drawn[1] >>= np.uint64(1)  # 127 bits, so that each coefficient is uniform but for a chance of 2⁻¹²⁷
        check += int(np.dot(_integers(drawn), _integers(part)))
    return check % PRIME


def check_mask(seed: bytes) -> int:
    """Return a seed's mask of a check: uniform below the prime, but for a chance of 2⁻¹²⁸."""
    stream = Cipher(ChaCha20(seed, bytes(15) + b"\x02"), mode=None).encryptor()
    return int.from_bytes(stream.update(bytes(32)), "little") % PRIME


def is_true_sum(words: Words, check: int, key: bytes, sites: int) -> bool:
    """Return whether numbers and their check are the sums of what so many owners of the key have sent."""
    return in_range(words) and check == check_of(words, key, sites)


def check_to_bytes(check: int) -> bytes:
    """Write a check, modulo the prime, as bytes."""
    return (check % PRIME).to_bytes(CHECK_BYTES, "little")


def check_from_bytes(content: bytes) -> int:
    """Read what `check_to_bytes` wrote."""
    return int.from_bytes(content, "little")


def _integers(words: Words) -> np.ndarray:
    """Return numbers as Python's integers: whole multiples of the fixed point's step."""
    return words[0].astype(object) + (words[1].view(np.int64).astype(object) << 64)
