"""Numbers become whole multiples of a step, sums of these are exact, and nothing wraps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddag.errors import FeddagError
from feddag.federation import Answer
from feddag.federation.secure.fixed_point import (
    CHUNK,
    STEP,
    add,
    decode,
    decode_total,
    encode,
    encode_answer,
    from_bytes,
    in_range,
    limit,
    subtract,
    to_bytes,
)

numbers = st.floats(-(2.0**58), 2.0**58) | st.floats(-1, 1) | st.sampled_from([0.0, -0.0, STEP, -STEP, 1 - 2**-53])


def exactly(words: np.ndarray) -> list[int]:
    """Each number as a whole multiple of the step, by Python's unbounded integers."""
    unsigned = [int(fraction) + (int(whole) << 64) for fraction, whole in words.T]
    return [value - (1 << 128) if value >> 127 else value for value in unsigned]


@settings(max_examples=100)
@given(st.lists(numbers, min_size=1, max_size=10))
def test_a_number_is_the_nearest_multiple_of_the_step(values: list[float]):
    words = encode(np.array(values))
    for value, encoded in zip(values, exactly(words), strict=True):
        assert abs(Fraction(encoded, 2**64) - Fraction(value)) <= Fraction(1, 2**65)
    np.testing.assert_allclose(decode(words), values, rtol=2**-52, atol=STEP / 2)


@settings(max_examples=100)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=10))
def test_sums_and_differences_are_those_of_unbounded_integers(pairs: list[tuple[float, float]]):
    left, right = (encode(np.array(values)) for values in zip(*pairs, strict=True))
    total, difference = left.copy(), left.copy()
    add(total, right)
    subtract(difference, right)
    assert exactly(total) == [a + b for a, b in zip(exactly(left), exactly(right), strict=True)]
    assert exactly(difference) == [a - b for a, b in zip(exactly(left), exactly(right), strict=True)]


def test_arithmetic_is_modulo_two_to_the_128():
    rng = np.random.default_rng(0)
    edges = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    left = np.concatenate([rng.integers(0, 2**64, (2, 100), np.uint64), np.stack([edges, edges[::-1]])], axis=1)
    right = left[:, ::-1].copy()
    total = left.copy()
    add(total, right)
    for a, b, c in zip(exactly(left), exactly(right), exactly(total), strict=True):
        assert (a + b - c) % 2**128 == 0
    subtract(total, right)
    np.testing.assert_array_equal(total, left)


def test_small_negative_numbers_keep_their_digits():
    assert decode(encode(np.array([-1e-9])))[0] == pytest.approx(-1e-9, rel=1e-10)
    assert decode(encode(np.array([-STEP])))[0] == -STEP


def test_bytes_are_those_of_little_endian_words():
    words = encode(np.array([1.5, -2.0]))
    np.testing.assert_array_equal(from_bytes(to_bytes(words)), words)
    assert to_bytes(words)[:8] == (2**63).to_bytes(8, "little")


def test_the_largest_numbers_of_all_sites_do_not_wrap():
    for sites in (2, 3, 1000):
        largest = np.nextafter(limit(sites), 0)
        total = np.zeros((2, 2), np.uint64)
        for _ in range(sites):
            add(total, encode(np.array([largest, -largest])))
        np.testing.assert_allclose(decode(total), [sites * largest, -sites * largest], rtol=1e-15)
        assert in_range(total)


def test_a_sum_out_of_the_range_of_all_sites_numbers_is_known_as_such():
    inside = [0, 1, -1, 2**126 - 1, -(2**126) + 2**64]
    outside = [2**126, -(2**126), 2**127 - 1, -(2**127)]
    for number in inside + outside:
        words = np.array([[number % 2**64], [(number >> 64) % 2**64]], np.uint64)
        assert in_range(words) == (number in inside)
    assert max(inside) - min(inside) < 2**127 - 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e18, -1e18, 1e300])
def test_a_number_out_of_range_becomes_one_that_fits_and_is_counted_in_the_sum(value: float):
    array = np.array([[1.0, 2.0], [3.0, value]])
    layout, words, clamped = encode_answer(Answer(100.0, {"fine": np.ones(2), "XX": array}), 10)
    assert clamped == 1
    total = words.copy()
    for _ in range(9):
        add(total, encode_answer(Answer(100.0, {"fine": np.ones(2), "XX": np.ones((2, 2))}), 10)[1])
    assert in_range(total)
    read = decode_total(total, layout)
    assert (read.weight, read.clamped) == (1000.0, 1)
    np.testing.assert_array_equal(read.mean["fine"], np.ones(2))


def test_numbers_that_fit_are_not_counted():
    layout, words, clamped = encode_answer(Answer(3.0, {"x": np.array([4.0, -5.5, 1e15])}), 10)
    assert clamped == 0
    assert decode_total(words, layout).clamped == 0


def test_arrays_longer_than_a_chunk_are_encoded_whole():
    long = np.random.default_rng(0).normal(size=(3, CHUNK))
    layout, words, _ = encode_answer(Answer(2.0, {"first": long, "second": long[0]}), 3)
    mean = decode_total(words, layout).mean
    np.testing.assert_allclose(mean["first"], long, rtol=1e-15)
    np.testing.assert_allclose(mean["second"], long[0], rtol=1e-15)


@pytest.mark.parametrize(("weight", "clamped"), [(float("nan"), 3), (float("inf"), 3), (1e30, 3), (1e17, 0)])
def test_a_weight_out_of_range_is_counted_with_all_that_it_spoils(weight: float, clamped: int):
    assert encode_answer(Answer(weight, {"x": np.ones(2)}), 10)[2] == clamped


def test_weights_that_vanish_are_refused():
    layout, words, _ = encode_answer(Answer(0.0, {"x": np.ones(2)}), 3)
    with pytest.raises(FeddagError, match="weights of the sites add up to 0"):
        decode_total(words, layout)
