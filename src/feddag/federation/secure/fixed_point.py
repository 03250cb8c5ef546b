"""Numbers as 128-bit integers, so that sums are exact, in any order, and can be masked.

A number is a whole multiple of 2⁻⁶⁴, in two's complement: one word of 64 bits for the fraction, one for the whole part.
Each of n sites may add up to 2⁶²/n in absolute value, so that a sum never wraps. Rounding costs each number at most
half a step, 2.7e-20, wherever it lies in this range: no scale has to be chosen, from the data or by hand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, UInt64

from feddag.errors import FeddagError
from feddag.federation.protocol import Answer

STEP = 2.0**-64
ENTRY_BYTES = 16
CHUNK = 2**15
"""Numbers worked on at a time: what stays in a core's cache."""

Words = UInt64[np.ndarray, "2 entry"]
"""The fractions of all numbers, then their whole parts."""

Layout = list[list]
"""Name, type and shape of each array, in order: public, and the same at all sites."""


def limit(participants: int) -> float:
    """Return the absolute value that no number of one site may reach."""
    return 2.0**62 / participants


def in_range(words: Words) -> bool:
    """Return whether all numbers lie within ±2⁶², where every sum of sites that obey `limit` does.

    The difference of two such numbers has fewer than 2¹²⁷ − 1 steps.
    """
    whole = words[1].view(np.int64)
    return bool(((whole > -(2**62)) & (whole < 2**62)).all())


class Total(NamedTuple):
    """The sum of all sites' words, read."""

    weight: float
    """The sum of the sites' weights."""
    clamped: int
    """How many numbers of all sites were too large to be summed, or no numbers at all."""
    mean: dict[str, np.ndarray]
    """`Σ wₖ xₖ / Σ wₖ`, unless numbers were clamped."""


def encode_answer(answer: Answer, participants: int) -> tuple[Layout, Words, int]:
    """Encode a site's weight, then its arrays times that weight, then how many of these had to be clamped.

    A number beyond `limit` becomes that limit, and what is no number becomes 0. The count is summed with all else, so
    that the sum tells that it is worthless without telling whose numbers did not fit. The third value is that count.
    """
    layout = [[name, array.dtype.str, list(array.shape)] for name, array in answer.arrays.items()]
    words = np.empty((2, entries(layout)), np.uint64)
    largest = float(np.nextafter(limit(participants), 0))
    weight = float(answer.weight)
    words[:, :1], clamped = _encode_within(np.array([weight]), largest)
    start = 1
    for array in answer.arrays.values():
        numbers = np.ravel(array)
        for begin in range(0, numbers.size, CHUNK):
            with np.errstate(over="ignore", invalid="ignore"):
                weighted = weight * numbers[begin : begin + CHUNK].astype(np.float64)
            words[:, start : start + weighted.size], more = _encode_within(weighted, largest)
            start += weighted.size
            clamped += more
    words[:, start:] = encode(np.array([float(clamped)]))
    return layout, words, clamped


def decode_total(words: Words, layout: Layout) -> Total:
    """Read the sum of all sites' words."""
    sums = decode(words)
    if sums[0] <= 0:
        raise FeddagError(f"The weights of the sites add up to {sums[0]:g}. At least one must have rows.")
    means, start = {}, 1
    for name, dtype, shape in layout:
        size = math.prod(shape)
        means[name] = (sums[start : start + size] / sums[0]).reshape(shape).astype(dtype)
        start += size
    return Total(float(sums[0]), int(sums[start]), means)


def entries(layout: Layout) -> int:
    """Count the numbers of an answer: the weight, all arrays, and the count of clamped ones."""
    return 2 + sum(math.prod(shape) for _, _, shape in layout)


def encode(values: Float64[np.ndarray, " entry"]) -> Words:
    """Encode numbers as words."""
    magnitude = np.abs(values)
    whole = np.floor(magnitude)
    words = np.stack([np.rint((magnitude - whole) / STEP).astype(np.uint64), whole.astype(np.uint64)])
    return _negated(words, values < 0)


def decode(words: Words) -> Float64[np.ndarray, " entry"]:
    # By magnitude: a small negative number is 2¹²⁸ less a little, and its digits would be lost in a float.
    """Decode words as numbers."""
    negative = words[1] >> np.uint64(63) == 1
    fraction, whole = _negated(words, negative).astype(np.float64)
    magnitude = whole + fraction * STEP
    return np.where(negative, -magnitude, magnitude)


def add(total: Words, words: Words) -> None:
    """Add to a total modulo 2¹²⁸, in place."""
    fraction, whole = total
    fraction += words[0]
    whole += words[1]
    whole += fraction < words[0]


def subtract(total: Words, words: Words) -> None:
    """Take from a total modulo 2¹²⁸, in place."""
    fraction, whole = total
    whole -= fraction < words[0]
    fraction -= words[0]
    whole -= words[1]


def to_bytes(words: Words) -> bytes:
    """Write words as bytes."""
    return words.astype("<u8", copy=False).tobytes()


def from_bytes(content: bytes) -> Words:
    """Read what `to_bytes` wrote."""
    return np.frombuffer(content, "<u8").astype(np.uint64, copy=False).reshape(2, -1)


def _negated(words: Words, where: np.ndarray) -> Words:
    turned = np.where(where, ~words, words)
    turned[0] += where
    turned[1] += where & (turned[0] == 0)
    return turned


def _encode_within(values: Float64[np.ndarray, " entry"], largest: float) -> tuple[Words, int]:
    """Encode numbers, clamped to ±`largest`, and count those for which this changed anything."""
    fitting = np.clip(np.nan_to_num(values, nan=0.0, posinf=largest, neginf=-largest), -largest, largest)
    return encode(fitting), int(np.count_nonzero(fitting != values))
