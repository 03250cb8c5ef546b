"""Shamir's secret sharing: any `threshold` shares give the secret, fewer say nothing at all about it.

The secret is a polynomial's value at 0, its other coefficients are uniform, and a share is its value elsewhere. For
each possible secret there is exactly one polynomial through it and `threshold - 1` given shares, and all are equally
likely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from feddag.errors import FeddagError
from feddag.federation.secure.keys import Randomness

PRIME = 2**521 - 1
SHARE_BYTES = 66


def split(secret: bytes, threshold: int, points: Sequence[int], randomness: Randomness) -> dict[int, bytes]:
    """A share for each point; the secret holds up to 65 bytes."""
    coefficients = [int.from_bytes(secret, "big"), *(_uniform(randomness) for _ in range(threshold - 1))]
    return {point: _value(coefficients, point).to_bytes(SHARE_BYTES, "big") for point in points}


def join(shares: Mapping[int, bytes], length: int) -> bytes:
    """The secret of `length` bytes behind exactly as many shares as the threshold asked for."""
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


def _value(coefficients: Sequence[int], point: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * point + coefficient) % PRIME
    return value


def _uniform(randomness: Randomness) -> int:
    """Uniform below the prime: 521 random bits, drawn again in the one case that is the prime itself."""
    while (drawn := int.from_bytes(randomness(SHARE_BYTES), "big") & PRIME) == PRIME:
        pass
    return drawn
