"""Any threshold of shares gives the secret; fewer fit every secret equally well."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddag.errors import FeddagError
from feddag.federation.secure import cryptography
from feddag.federation.secure.cryptography import PRIME, join_shares, split_secret


@settings(max_examples=60)
@given(st.data())
def test_any_threshold_of_shares_gives_the_secret(data: st.DataObject):
    count = data.draw(st.integers(2, 20))
    threshold = data.draw(st.integers(1, count))
    secret = data.draw(st.binary(min_size=32, max_size=32))
    points = data.draw(st.lists(st.integers(1, 1000), min_size=count, max_size=count, unique=True))
    shares = split_secret(secret, threshold, points, np.random.default_rng(data.draw(st.integers(0, 99))).bytes)
    chosen = data.draw(st.permutations(points))[:threshold]
    assert join_shares({point: shares[point] for point in chosen}, 32) == secret


def test_shares_are_a_polynomials_values():
    """By hand: 5 + 3x + 2x² at 1, 2 and 4."""
    assert {
        point: int.from_bytes(share, "big")
        for point, share in split_secret(bytes([5]), 3, [1, 2, 4], _coefficients(3, 2)).items()
    } == {1: 10, 2: 19, 4: 49}


def _coefficients(*values: int):
    drawn = iter(values)
    return lambda length: next(drawn).to_bytes(length, "big")


@settings(max_examples=30)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(2, 6))
def test_one_share_less_is_consistent_with_every_secret(secret: bytes, other: bytes, threshold: int):
    """For any other secret there is one further share that, with the same shares, gives it: they say nothing."""
    shares = split_secret(secret, threshold, range(1, threshold + 1), np.random.default_rng(0).bytes)
    seen = {point: share for point, share in shares.items() if point < threshold}
    # The polynomial through (0, other) and the seen shares, at the missing point.
    known = {0: int.from_bytes(other, "big")} | {point: int.from_bytes(share, "big") for point, share in seen.items()}
    missing = _interpolated(known, threshold).to_bytes(cryptography.SHARE_BYTES, "big")
    assert join_shares({**seen, threshold: missing}, 32) == other


def test_fewer_shares_than_the_threshold_are_uniform_whatever_the_secret(monkeypatch):
    """In a field of 5, all polynomials can be counted: each pair of shares comes from as many for each secret."""
    monkeypatch.setattr(cryptography, "PRIME", 5)
    for secret in range(5):
        seen = []
        for first in range(5):
            for second in range(5):
                coefficients = [secret, first, second]
                seen.append(tuple(cryptography._polynomial(coefficients, point) for point in (1, 3)))
        assert sorted(seen) == [(a, b) for a in range(5) for b in range(5)]


def test_coefficients_are_drawn_again_when_they_fall_on_the_prime():
    draws = iter([PRIME, 7])
    shares = split_secret(bytes([1]), 2, [1], lambda length: next(draws).to_bytes(length, "big"))
    assert int.from_bytes(shares[1], "big") == 8


def test_shares_that_do_not_fit_are_refused():
    shares = split_secret(bytes(32), 3, [1, 2, 3], np.random.default_rng(0).bytes)
    with pytest.raises(FeddagError, match="do not fit together"):
        join_shares({1: shares[1], 2: shares[2]}, 32)


def _interpolated(values: dict[int, int], at: int) -> int:
    total = 0
    for point, value in values.items():
        others = [other for other in values if other != point]
        total += value * math.prod((at - other) * pow(point - other, -1, PRIME) for other in others)
    return total % PRIME
