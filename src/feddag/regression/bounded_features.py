"""Bounded functions of a row, whose products one release may sum: no row can add more than a fixed length.

Numbers are clamped to ranges that the study declares, and never to what the data show. They act by themselves and by
Hermite functions, which are bounded by construction; products of two numbers' functions are functions of both. A
discrete variable acts by one indicator for each of its declared levels but the first. The vector of all functions of a
row is clipped to a length and then rounded towards zero to whole numbers, so that sums of products are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float

from feddag.errors import FeddagError
from feddag.regression.features import waves

DEVIATIONS = 3.0
"""A range is taken to reach so many standard deviations to either side of its middle."""
GRID = 2**14
"""Whole numbers stand for functions times this."""
MOST_ROWS = 2**25
"""Sums of whole numbers over so many rows are exact in double precision."""
LARGEST = 4.0
"""No function is above this: what is, is clamped."""
_BLOCK_ROWS = 20_000
_CONSTANT_SHARE = 1 / 20
"""The square of the constant's weight over that of the whole length."""
_MOST = 1.5
"""No function of a row that has been clipped is above this."""
_CLIP, _LINEAR_CLIP = 0.6, 0.3
"""The squared length that a row may have, over what it has on average if numbers are normal within their ranges.

Most rows are shortened a little: that costs less than the noise which longer ones would need (tuned on simulations).
Of straight lines alone more: what that does to a normal distribution is known, and undone (`clipped_moments`).
"""


@dataclass(frozen=True)
class FeatureMap:
    """The functions of a study, known before any row is seen."""

    ranges: tuple[tuple[float, float] | None, ...]
    """The range of each variable, in order; `None` for a discrete one."""
    levels: tuple[int, ...]
    """The levels of each variable; 0 for a number."""
    functions: int
    """Functions of a number by itself: the number, then Hermite functions."""
    paired: int
    """Functions of each of two numbers whose products are functions of both; 0 for none."""

    @property
    def nodes(self) -> int:
        """The number of variables."""
        return len(self.levels)

    @property
    def width(self) -> int:
        """The columns of one variable's own functions; those that a variable does not have are 0."""
        return max(self.functions, *(levels - 1 for levels in self.levels), 1)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of numbers that have common functions."""
        numbers = [node for node, levels in enumerate(self.levels) if not levels]
        return tuple(combinations(numbers, 2)) if self.paired else ()

    @cached_property
    def used(self) -> np.ndarray:
        """The columns that are not always 0: of all own functions, then of all pairs."""
        own = np.zeros((self.nodes, self.width), bool)
        for node, levels in enumerate(self.levels):
            own[node, : levels - 1 if levels else self.functions] = True
        return np.concatenate([own.ravel(), np.ones(len(self.pairs) * self.paired**2, bool)])

    @property
    def linear(self) -> bool:
        """Whether the functions are numbers, each by itself, and nothing else."""
        return self.functions == 1 and not self.paired and not any(self.levels)

    @property
    def longest(self) -> float:
        """The squared length of the longest row that is released."""
        return self._lengths[1] * (LARGEST / GRID) ** 2

    @cached_property
    def middles_and_units(self) -> tuple[Float[np.ndarray, " node"], Float[np.ndarray, " node"]]:
        """Return where each number's first function is 0, and how far it is from there to 1."""
        largest = float(_own_functions(np.ones(1), 1)[0, 0])
        low, high = np.array([(-largest, largest) if each is None else each for each in self.ranges]).T
        return (low + high) / 2, (high - low) / 2 / largest

    @property
    def _weights(self) -> tuple[int, int]:
        """The whole numbers that squares and products of two functions are multiplied by.

        Of one row's products, each of which stands for two entries of a matrix, the length is that of the matrix if
        they count √2 times as much: then no row of a clipped length adds more than another. It is worth its price
        where there are few functions.
        """
        return (5, 7) if self.linear else (1, 1)

    @property
    def columns(self) -> int:
        """The number of functions, with those that are always 0."""
        return self.nodes * self.width + len(self.pairs) * self.paired**2

    @property
    def entries(self) -> int:
        """The numbers of a release: the products of all functions and the constant with each other, each once."""
        size = int(self.used.sum()) + 1
        return size * (size + 1) // 2

    @property
    def _clip(self) -> float:
        return _LINEAR_CLIP if self.linear else _CLIP

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        """The squares, as whole numbers, of the constant and of the longest vector."""
        clip = math.floor(self._clip * int(self.used.sum()) * (GRID / LARGEST) ** 2)
        return math.isqrt(math.floor(_CONSTANT_SHARE * clip)) ** 2, clip

    @property
    def _most(self) -> int:
        """The largest function of a row that has been clipped, as a whole number; of straight lines any that fits."""
        return math.isqrt(self._lengths[1]) + 1 if self.linear else math.floor(_MOST * GRID / LARGEST)

    @cached_property
    def sensitivity(self) -> int:
        """The most that one row can change in a release, as a Euclidean length.

        With w² of the constant, Σ q² ≤ c² and q² ≤ m², and with weights a of squares and b of other products, the
        squares of all entries add up to (b² (w² + Σ q²)² + (2a² - b²) (w⁴ + Σ q⁴)) / 2, and Σ q⁴ ≤ m² c².
        """
        constant, clip = self._lengths
        square, product = self._weights
        fourth = constant**2 + min(self._most**2, clip) * clip
        twice = product**2 * (constant + clip) ** 2 + (2 * square**2 - product**2) * fourth
        return math.isqrt(twice // 2 + 1) + 1

    def products(self, values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, " entry"]:
        """Sum the products of all functions over the rows: whole numbers, exact."""
        if len(values) > MOST_ROWS:
            raise FeddagError(
                f"The table has {len(values)} rows, and sums over more than {MOST_ROWS} are not exact, as privacy of "
                "rows needs it. Take part with fewer rows."
            )
        size = int(self.used.sum()) + 1
        total = np.zeros((size, size))
        for start in range(0, len(values), _BLOCK_ROWS):
            block = self.whole_functions(values[start : start + _BLOCK_ROWS])
            total += block.T @ block
        return (total * self._entry_weights(size))[np.triu_indices(size)]

    def _entry_weights(self, size: int) -> Float[np.ndarray, "function function"]:
        square, product = self._weights
        return np.where(np.eye(size, dtype=bool), square, product).astype(float)

    def whole_functions(self, values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row function"]:
        """Return the constant and the functions of each row as whole numbers, of limited length."""
        constant, clip = self._lengths
        functions = self._functions(values) * (GRID / LARGEST)
        length = np.sqrt((functions**2).sum(axis=1, keepdims=True))
        whole = np.trunc(functions * np.minimum(1.0, math.sqrt(clip) / np.maximum(length, 1e-300)))
        too_long = (whole**2).sum(axis=1) > clip  # exact: all are whole numbers below 2^53
        whole[too_long] = np.trunc(whole[too_long] * (1 - 1e-3))
        whole = np.clip(whole, -self._most, self._most)
        return np.column_stack([np.full(len(values), float(math.isqrt(constant))), whole])

    def _functions(self, values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row function"]:
        return np.clip(self._evaluate(values)[:, self.used], -LARGEST, LARGEST)

    def values_at(self, numbers: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row node"]:
        """Return the values of which these are the first functions."""
        middles, units = self.middles_and_units
        return middles + numbers * units

    def _evaluate(self, values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row column"]:
        own = np.zeros((len(values), self.nodes, self.width))
        paired = np.zeros((len(values), self.nodes, self.paired))
        for node, (levels, bounds) in enumerate(zip(self.levels, self.ranges, strict=True)):
            if bounds is None:
                weight = _indicator_weight(levels)
                own[:, node, : levels - 1] = weight * (values[:, node, None] == np.arange(1, levels))
            else:
                functions = _own_functions(rescale(values[:, node], bounds), max(self.functions, self.paired))
                own[:, node, : self.functions] = functions[:, : self.functions]
                paired[:, node] = functions[:, : self.paired]
        both = [(paired[:, i, :, None] * paired[:, j, None, :]).reshape(len(values), -1) for i, j in self.pairs]
        return np.concatenate([own.reshape(len(values), -1), *both], axis=1)

    def unpack(self, entries: Float[np.ndarray, " entry"]) -> tuple[float, Float[np.ndarray, " column"], np.ndarray]:
        """Return the rows, the sums of all functions, and the sums of their products, from a release.

        Whole numbers become functions again; those that a variable does not have are 0.
        """
        size = int(self.used.sum()) + 1
        total = np.zeros((size, size))
        total[np.triu_indices(size)] = entries
        total /= self._entry_weights(size)
        total = total + np.triu(total, 1).T
        weight, back = float(math.isqrt(self._lengths[0])), LARGEST / GRID
        sums, products = np.zeros(self.columns), np.zeros((self.columns, self.columns))
        sums[self.used] = total[0, 1:] / weight * back
        products[np.ix_(self.used, self.used)] = total[1:, 1:] * back**2
        return float(total[0, 0]) / weight**2, sums, products

    def product_noise(self, deviation: float) -> float:
        """Return the standard deviation of the noise in one product of two functions, from that of an entry."""
        return deviation / self._weights[1] * (LARGEST / GRID) ** 2

    def sum_noise(self, deviation: float) -> tuple[float, float]:
        """Return the standard deviations of the noise in the number of rows, and in a sum of one function."""
        weight = float(math.isqrt(self._lengths[0]))
        square, product = self._weights
        return deviation / square / weight**2, deviation / product * LARGEST / GRID / weight


def rescale(values: Float[np.ndarray, " row"], bounds: tuple[float, float]) -> Float[np.ndarray, " row"]:
    """Clamp numbers to a range, and bring the range to -1 to 1."""
    low, high = bounds
    return (np.clip(np.nan_to_num(values, nan=low), low, high) - (low + high) / 2) / ((high - low) / 2)


def _own_functions(rescaled: Float[np.ndarray, " row"], functions: int) -> Float[np.ndarray, "row function"]:
    """Return the number itself and Hermite functions, orthonormal if numbers are normal within their range."""
    return _raw_functions(DEVIATIONS * rescaled, functions) @ _orthonormal(functions)


def _raw_functions(numbers: Float[np.ndarray, " row"], functions: int) -> Float[np.ndarray, "row function"]:
    return np.column_stack([np.ones(len(numbers)), numbers, waves(numbers, max(functions, 2))[:, : functions - 1]])


@cache
def _orthonormal(functions: int) -> Float[np.ndarray, "raw function"]:
    """Return the combinations of the constant, the number and Hermite functions that are orthonormal."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    raw = _raw_functions(np.clip(points, -DEVIATIONS, DEVIATIONS), functions)
    weighted = raw * (weights / weights.sum())[:, None]
    return np.linalg.inv(np.linalg.cholesky(raw.T @ weighted)).T[:, 1:]


def _indicator_weight(levels: int) -> float:
    return math.sqrt(levels)


def feature_map(
    ranges: Mapping[str, tuple[float, float]],
    levels: Mapping[str, int],
    *,
    expected_rows: int,
    multiplier: float,
    linear: bool,
) -> FeatureMap:
    """Choose the functions of a study by rule, from what is known before any row is seen.

    The noise of a correlation is about `multiplier · functions / rows`, and its sampling error `1 / √rows`. Of these
    sets of functions the largest is chosen whose noise is not above its sampling error.
    """
    bounds, counts = tuple(ranges.get(name) for name in levels), tuple(levels.values())
    if linear:
        return FeatureMap(bounds, counts, 1, 0)
    most = math.sqrt(expected_rows) / multiplier
    choices = [FeatureMap(bounds, counts, functions, paired) for functions, paired in _CHOICES]
    fitting = [each for each in choices if int(each.used.sum()) <= most]
    return fitting[-1] if fitting else choices[0]


_CHOICES: Sequence[tuple[int, int]] = ((2, 0), (3, 0), (4, 0), (5, 1), (6, 1), (6, 2))
