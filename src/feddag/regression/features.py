"""Functions of a table's columns that regressions use.

Numbers act by themselves and by *waves*: the leading eigenfunctions of the squared-exponential kernel under a normal
distribution (Hermite functions), each times the root of its eigenvalue. Products of waves are functions of several
parents together. A discrete column acts by functions of its levels, and there are two codings:

- `ContrastFeatures`: orthonormal contrasts of the levels, multiplied with other parents' functions degree by degree;
- `IndicatorFeatures`: one indicator per level, multiplied with functions of single parents where rows allow.

All functions of a set of parents come in layers, so that a regression may use the first few layers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, combinations_with_replacement, product
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float, Int

from feddag.silos.cells import fewest_rows
from feddag.silos.variable_types import Kind

FUNCTIONS = 8
"""Functions of a number by itself: the number, and the first waves."""
LINEAR_WEIGHT = 3.0
"""The prior's standard deviation for the number itself, beside 1 for all waves together."""
HIGHEST_DEGREE = 12
JOINT_FUNCTIONS = 300
ROWS_PER_JOINT_FUNCTION = 4
"""A regression has fewer joint functions where there are not so many rows for each."""
BLOCK_ROWS = 10_000
"""Of larger tables, functions are evaluated for so many rows at a time."""
ROWS_PER_SUMMED_FUNCTION = 6
"""Rows of all sites for each function: sums of products over fewer rows would disclose single ones."""


@dataclass(frozen=True)
class Frame:
    """The mean and deviation that standardise numbers, and the levels of each column."""

    origin: Float[np.ndarray, " node"]
    scale: Float[np.ndarray, " node"]
    levels: Int[np.ndarray, " node"]
    """0 for a number."""

    @classmethod
    def of(cls, mean: np.ndarray, variance: np.ndarray, levels: np.ndarray) -> Frame:
        """Leave discrete columns and columns without variation as they are."""
        numbers = levels == 0
        return cls(np.where(numbers, mean, 0.0), np.where(numbers & (variance > 0), np.sqrt(variance), 1.0), levels)

    def standardise(self, values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row node"]:
        """Bring numbers to mean 0 and deviation 1."""
        return (values - self.origin) / self.scale


def level_counts(kinds: Sequence[Kind]) -> Int[np.ndarray, " node"]:
    """Count the levels of each discrete column; 0 for a number."""
    return np.array([len(kind.levels) if kind.discrete else 0 for kind in kinds])


def waves(values: Float[np.ndarray, "*row"], count: int) -> Float[np.ndarray, "*row wave"]:
    """Evaluate the kernel's leading eigenfunctions at standardised values, each times the root of its eigenvalue.

    Rasmussen & Williams 2006, section 4.3.1, with unit length scale and unit variance.
    """
    a, b = 1 / 4, 1 / 2
    c = np.sqrt(a * a + 2 * a * b)
    ratio = b / (a + b + c)
    z = np.sqrt(2 * c) * values
    found = np.empty((*values.shape, count))
    # the largest values let the bell underflow to 0, never the polynomial overflow to infinity
    found[..., 0] = (c / a) ** 0.25 * (2 * a / (a + b + c)) ** 0.25 * np.exp(-(c - a) * values**2)
    if count > 1:
        found[..., 1] = np.sqrt(2 * ratio) * z * found[..., 0]
    for k in range(2, count):
        found[..., k] = (
            np.sqrt(2 * ratio / k) * z * found[..., k - 1] - ratio * np.sqrt((k - 1) / k) * found[..., k - 2]
        )
    return found


@cache
def contrasts(levels: int) -> Float[np.ndarray, "level contrast"]:
    """Return an orthonormal basis of what differs between levels: all that is orthogonal to the constant."""
    columns = [np.repeat([1.0, -k, 0.0], [k, 1, levels - k - 1]) / np.sqrt(k * (k + 1)) for k in range(1, levels)]
    return np.array(columns).reshape(-1, levels).T


class Features:
    """Functions of the columns of one standardised table of numbers."""

    def __init__(self, values: Float[np.ndarray, "row node"]) -> None:
        self.values = values
        self._known: dict[tuple[str, int], Float[np.ndarray, "function row"]] = {}
        """Functions of single columns, once they were needed."""

    def of_rows(self, rows: slice | Int[np.ndarray, " chosen"]) -> Self:
        """Return the functions of some rows, which know nothing of the others but what the table as a whole decides."""
        part = copy(self)
        part.values, part._known = self.values[rows], {}
        return part

    def blocks(self) -> Iterator[tuple[slice, Self]]:
        """Return the table, or blocks of its rows if there are many: nobody holds all their functions at once."""
        rows = len(self.values)
        if rows <= BLOCK_ROWS:
            yield slice(0, rows), self
            return
        for start in range(0, rows, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, rows))
            yield block, self.of_rows(block)

    def coarse(self, functions: int = FUNCTIONS) -> Float[np.ndarray, "row feature"]:
        """Return so many functions of each variable, the first variable's first."""
        return np.concatenate([self._single(node)[:functions] for node in range(self.values.shape[1])]).T

    def joint(self, parents: Sequence[int], rows: int) -> Float[np.ndarray, "row feature"]:
        """Return the functions of one set of parents, in the layers of `layers`.

        Args:
            parents: Columns.
            rows: How many rows the regression is fitted to: these limit the number of functions.
        """
        single = [self._single(node) for node in parents]
        parts = [each[:1] for each in single] + [each[1:] for each in single]
        if len(single) > 1:
            parts.append(self._multiply(parents, joint_degrees(len(single), most_joint_functions(rows))))
        return np.concatenate([np.empty((0, len(self.values))), *parts]).T

    def lines(self, nodes: Sequence[int]) -> Float[np.ndarray, "row feature"]:
        """Return what acts by straight lines: numbers themselves, and contrasts of levels."""
        return self.values[:, list(nodes)]

    def layers(self, parents: Sequence[int], rows: int) -> list[int]:
        """Return where the layers of `joint` end."""
        return layers(len(parents), rows)

    def _multiply(
        self, parents: Sequence[int], layers: Sequence[Int[np.ndarray, "function parent"]]
    ) -> Float[np.ndarray, "function row"]:
        columns = np.concatenate(layers)
        found = self._factors(parents[0])[columns[:, 0]]
        for position, parent in enumerate(parents[1:], start=1):
            found *= self._factors(parent)[columns[:, position]]
        return found

    def _factors(self, node: int) -> Float[np.ndarray, "function row"]:
        """Return the functions of one column that joint functions are products of."""
        return self._once(
            "factors", node, lambda: np.ascontiguousarray(waves(self.values[:, node], HIGHEST_DEGREE + 1).T)
        )

    def _single(self, node: int) -> Float[np.ndarray, "function row"]:
        """Return the functions of one column by itself."""

        def evaluate() -> Float[np.ndarray, "function row"]:
            return np.concatenate([LINEAR_WEIGHT * self.values[None, :, node], self._factors(node)[: FUNCTIONS - 1]])

        return self._once("single", node, evaluate)

    def _once(self, kind: str, node: int, evaluate: Callable[[], np.ndarray]) -> Float[np.ndarray, "function row"]:
        if (kind, node) not in self._known:
            self._known[kind, node] = evaluate()
        return self._known[kind, node]


class MixedFeatures(Features):
    """Functions of columns that are standardised numbers, or numbers of levels. Subclasses say how levels act."""

    coding: ClassVar[Callable[[int], Float[np.ndarray, "level function"]]]
    """The functions of so many levels."""

    def __init__(self, values: Float[np.ndarray, "row node"], levels: Int[np.ndarray, " node"]) -> None:
        super().__init__(np.where(levels == 0, values, 0.0))
        self._levels = levels
        self.codes: dict[int, Int[np.ndarray, " row"]] = {
            int(node): values[:, node].astype(int) for node in np.flatnonzero(levels)
        }
        """The number of each row's level, by discrete column."""
        self._coded = {node: type(self).coding(int(levels[node]))[codes] for node, codes in self.codes.items()}

    def of_rows(self, rows: slice | Int[np.ndarray, " chosen"]) -> Self:
        """Return the functions of some rows."""
        part = super().of_rows(rows)
        part.codes, part._coded = ({node: each[rows] for node, each in of.items()} for of in (self.codes, self._coded))
        return part

    def _numbers(self, parents: Sequence[int]) -> list[int]:
        return [node for node in parents if node not in self._coded]


class ContrastFeatures(MixedFeatures):
    """Discrete parents act by orthonormal contrasts of their levels: no level is preferred to another.

    Products are those of all parents, by total degree; a contrast has the degree 1.
    """

    coding = staticmethod(contrasts)

    def __init__(
        self, values: Float[np.ndarray, "row node"], levels: Int[np.ndarray, " node"], minimum_cell: int = 1
    ) -> None:
        super().__init__(values, levels)
        self._minimum_cell = minimum_cell
        codes = self.codes  # of all rows, also for those who hold some of them
        self._fewest_rows = cache(lambda nodes: fewest_rows([codes[node] for node in nodes]))

    def joint(self, parents: Sequence[int], rows: int) -> Float[np.ndarray, "row feature"]:
        """Return the functions of one set of parents."""
        numbers = self._numbers(parents)
        if len(numbers) == len(parents):
            return super().joint(parents, rows)
        linear = [self._single(node)[: self._linear(node)] for node in parents]
        parts = [*linear, *(self._single(node)[1:] for node in numbers)]
        if len(parents) > 1:
            parts.append(self._multiply(parents, self._products(parents, rows)))
        features = np.concatenate(parts).T
        features[:, self.in_small_cells(parents, rows)] = 0.0
        return features

    def in_small_cells(
        self, parents: Sequence[int], rows: int, *, child: int | None = None
    ) -> Int[np.ndarray, " small"]:
        """Return which functions of `joint` tell combinations of levels apart that fewer rows than allowed share.

        Such a function could fit these rows alone, so that a score would be about them. Functions of one parent do not
        count: the rows of each level are many enough where the site takes part.

        Args:
            parents: Columns, some discrete.
            rows: As in `joint`.
            child: A discrete column whose levels are told apart, too.
        """
        discrete = [place for place, node in enumerate(parents) if node in self._coded]
        if self._minimum_cell < 2 or len(parents) < 2 or not discrete:
            return np.zeros(0, dtype=int)
        products = np.concatenate(self._products(parents, rows))
        kinds, kind_of = np.unique(products[:, discrete] > 0, axis=0, return_inverse=True)
        sets = [frozenset(parents[discrete[k]] for k in np.flatnonzero(kind)) for kind in kinds]
        among = frozenset() if child is None else frozenset({child})
        small = [bool(nodes) and self._has_small_cell(nodes | among) for nodes in sets]
        first = sum(map(self._linear, parents)) + len(self._numbers(parents)) * (FUNCTIONS - 1)
        return first + np.flatnonzero(np.array(small)[kind_of.ravel()])

    def _has_small_cell(self, nodes: frozenset[int]) -> bool:
        return len(nodes) > 1 and self._fewest_rows(nodes) < self._minimum_cell

    def lines(self, nodes: Sequence[int]) -> Float[np.ndarray, "row feature"]:
        """Return what acts by straight lines: numbers themselves, and contrasts of levels."""
        parts = [self._coded[node] if node in self._coded else self.values[:, [node]] for node in nodes]
        return np.concatenate([np.empty((len(self.values), 0)), *parts], axis=1)

    def layers(self, parents: Sequence[int], rows: int) -> list[int]:
        """Return where the layers of `joint` end."""
        numbers = self._numbers(parents)
        if len(numbers) == len(parents):
            return super().layers(parents, rows)
        sizes = [sum(map(self._linear, parents)), len(numbers) * (FUNCTIONS - 1)]
        if len(parents) > 1:
            sizes += [len(layer) for layer in self._products(parents, rows)]
        return np.cumsum(sizes).tolist()

    def additive(self, parents: Sequence[int]) -> int:
        """Count the features of `joint` that are functions of one parent each."""
        return sum(self._linear(node) if node in self._coded else FUNCTIONS for node in parents)

    def _linear(self, node: int) -> int:
        return self._coded[node].shape[1] if node in self._coded else 1

    def _factors(self, node: int) -> Float[np.ndarray, "function row"]:
        if node not in self._coded:
            return super()._factors(node)
        constant = np.ones((1, len(self.values)))
        return np.ascontiguousarray(np.concatenate([constant, self._coded[node].T]))

    def _single(self, node: int) -> Float[np.ndarray, "function row"]:
        if node not in self._coded:
            return super()._single(node)

        def evaluate() -> Float[np.ndarray, "function row"]:
            found = np.zeros((FUNCTIONS, len(self.values)))  # a function that is zero everywhere changes no score
            found[: self._linear(node)] = LINEAR_WEIGHT * self._coded[node].T
            return found

        return self._once("single", node, evaluate)

    def _products(self, parents: Sequence[int], rows: int) -> list[Int[np.ndarray, "function parent"]]:
        widths = tuple((1, self._linear(node)) if node in self._coded else _WAVES for node in parents)
        return joint_columns(widths, most_joint_functions(rows))


class IndicatorFeatures(MixedFeatures):
    """Discrete parents act by an indicator of each level.

    Linear functions and indicators come first, then waves of single parents, then products of indicators with these and
    with each other if rows allow, and then waves of several parents.
    """

    coding = staticmethod(np.eye)

    def joint(self, parents: Sequence[int], rows: int, *, summed: bool = False) -> Float[np.ndarray, "row feature"]:
        """Return the functions of one set of parents; fewer if sites sum their products over all their rows."""
        numbers = self._numbers(parents)
        linear, single = len(numbers), len(numbers) * FUNCTIONS
        of_numbers = super().joint(numbers, rows)
        indicators = [LINEAR_WEIGHT * self._coded[node] for node in parents if node in self._coded]
        products = [_times(each, of_numbers[:, :single]) for each in indicators]
        products += [_times(one, other) for k, one in enumerate(indicators) for other in indicators[:k]]
        if not _indicator_products(parents, self._levels, rows):
            products = []
        every = [of_numbers[:, :linear], *indicators, of_numbers[:, linear:single], *products, of_numbers[:, single:]]
        return np.concatenate(every, axis=1)[:, : self.layers(parents, rows, summed=summed)[-1]]

    def layers(self, parents: Sequence[int], rows: int, *, summed: bool = False) -> list[int]:
        """Return where the layers of `joint` end."""
        return indicator_layers(parents, self._levels, rows, summed=summed)


def _times(one: Float[np.ndarray, "row a"], other: Float[np.ndarray, "row b"]) -> Float[np.ndarray, "row ab"]:
    return (one[:, :, None] * other[:, None, :]).reshape(len(one), -1) / LINEAR_WEIGHT


def most_joint_functions(rows: int) -> int:
    """Limit the functions of several parents together, in a regression on one site's own rows."""
    return min(JOINT_FUNCTIONS, rows // ROWS_PER_JOINT_FUNCTION)


def may_be_summed(functions: int, rows: float) -> bool:
    """Say whether sums of so many functions' products over so many rows tell nothing about single ones."""
    return functions * ROWS_PER_SUMMED_FUNCTION <= rows


_WAVES = (1,) * (HIGHEST_DEGREE + 1)
"""One wave of each degree."""


@cache
def joint_columns(
    widths: tuple[tuple[int, ...], ...], limit: int, highest: int | None = None
) -> list[Int[np.ndarray, "function parent"]]:
    """Choose which functions of each parent are multiplied to functions of all, total degree by total degree.

    Whole layers only, so that no parent, and no level, is preferred to another.

    Args:
        widths: `widths[p][k]` of parent p's functions have the degree k.
        limit: The largest number of functions; the first layer is there in any case.
        highest: The highest total degree; by default the highest that there is.
    """
    starts = [list(accumulate(width, initial=0)) for width in widths]
    found: list[np.ndarray] = []
    size = 0
    highest = sum(len(width) - 1 for width in widths) if highest is None else highest
    for degree in range(highest + 1):
        layer: list[tuple[int, ...]] = []
        for each in combinations_with_replacement(range(len(widths)), degree):
            degrees = [each.count(parent) for parent in range(len(widths))]
            if any(k >= len(width) for k, width in zip(degrees, widths, strict=True)):
                continue
            layer += product(*(range(start[k], start[k + 1]) for k, start in zip(degrees, starts, strict=True)))
            if found and size + len(layer) > limit:
                return found
        if layer:
            found.append(np.array(layer))
            size += len(layer)
    return found


def joint_degrees(parents: int, most: int) -> list[Int[np.ndarray, "function parent"]]:
    """Return the degree of each joint function in each parent, where all parents are numbers; layer by layer."""
    return joint_columns((_WAVES,) * parents, most, HIGHEST_DEGREE)


def layers(parents: int, rows: int) -> list[int]:
    """Return where the layers of so many numbers' functions end.

    The linear functions come first, then all additive ones, then products total degree by total degree, of which there
    is one layer at least.
    """
    sizes = [parents, parents * (FUNCTIONS - 1)]
    if parents > 1:
        sizes += [len(layer) for layer in joint_degrees(parents, most_joint_functions(rows))]
    return list(accumulate(sizes))


def indicator_layers(
    parents: Sequence[int], levels: Int[np.ndarray, " node"], rows: int, *, summed: bool = False
) -> list[int]:
    """Return where the layers of `IndicatorFeatures.joint` end.

    If sites sum the products of functions over all their rows, there are fewer layers, but the first in any case.
    """
    indicators = int(sum(levels[parent] for parent in parents))
    linear, additive, *joint = layers(sum(not levels[parent] for parent in parents), rows)
    shift = indicators + _indicator_products(parents, levels, rows)
    ends = [linear + indicators, additive + indicators, *(end + shift for end in (additive, *joint))]
    return [end for end in dict.fromkeys(ends) if end == ends[0] or not summed or may_be_summed(end, rows)]


def _indicator_products(parents: Sequence[int], levels: Int[np.ndarray, " node"], rows: int) -> int:
    """Count the products with indicators: all of them, or none if these are too many."""
    single = FUNCTIONS * sum(not levels[parent] for parent in parents)
    of_each = [int(levels[parent]) for parent in parents if levels[parent]]
    count = single * sum(of_each) + sum(one * other for k, one in enumerate(of_each) for other in of_each[:k])
    return count if count <= rows // ROWS_PER_JOINT_FUNCTION else 0
