"""Kinds of variables that somebody declares: in a study's file, or by `kinds` where one process has all tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from feddag import constraints
from feddag.errors import FeddagError
from feddag.silos.coding import as_level, canonical, categories_in_order, is_category, observed_levels
from feddag.silos.variable_types import CONTINUOUS, KINDS, Kind, KindName, Level

_KEYS = ("type", "levels")
_TYPE = constraints.one_of(KINDS)


def are_levels(value: Any) -> bool:
    """Whether a value is a list of different texts or numbers."""
    return (
        isinstance(value, list | tuple)
        and all(isinstance(level, str) or constraints.is_number(level) for level in value)
        and len(set(map(canonical, value))) == len(value)
    )


LEVELS = constraints.Constraint("a list of different texts or numbers", are_levels)


def is_range(value: Any) -> bool:
    """Whether a value is a pair of numbers, the smaller one first."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(map(constraints.is_number, value)) and value[0] < value[1]


RANGE = constraints.Constraint("two numbers, the smaller one first", is_range)


def levels_of(kind: KindName) -> constraints.Constraint:
    """Return how many levels a variable of a kind has."""
    return {
        "continuous": constraints.Constraint("left out: a continuous variable has none", lambda value: not value),
        "binary": constraints.Constraint("two", lambda value: len(value) == 2),
    }.get(kind, constraints.Constraint("at least two: all sites code them alike", lambda value: len(value) >= 2))


def declared_kinds(kinds: Mapping[str, Any], frames: Sequence[pd.DataFrame]) -> dict[str, Kind]:
    """Read what a user declares of some columns of all sites' frames.

    Args:
        kinds: By column its type, such as `"ordinal"`, or a mapping with its type and its levels, such as
            `{"type": "ordinal", "levels": ["low", "high"]}`. Levels that are not given are those that occur.
        frames: The sites' tables.
    """
    if not isinstance(kinds, Mapping):
        raise constraints.refusal("kinds", "a mapping from columns to types", kinds)
    there = dict.fromkeys(name for frame in frames for name in frame.columns)
    found = {}
    for name, given in kinds.items():
        if name not in there:
            raise FeddagError(f"kinds has {name!r}, which is not a column. There are {', '.join(map(repr, there))}.")
        found[name] = _declared(f"kinds[{name!r}]", given, [frame[name] for frame in frames if name in frame])
    return found


def _declared(where: str, given: Any, columns: Sequence[pd.Series]) -> Kind:
    described = given if isinstance(given, Mapping) else {"type": given}
    for key in described:
        if key not in _KEYS:
            raise FeddagError(f"{where} has {key!r}. It takes {' and '.join(_KEYS)}; a study takes more.")
    kind: Any = described.get("type")
    if not _TYPE.accepts(kind):
        raise constraints.refusal(where, f"{_TYPE.wording}, or a mapping with such a type and its levels", given)
    levels = described.get("levels")
    if levels is None:
        levels = _occurring(where, kind, columns)
    elif not LEVELS.accepts(levels):
        raise constraints.refusal(f"{where}['levels']", LEVELS.wording, levels)
    elif not levels_of(kind).accepts(levels):
        raise constraints.refusal(f"{where}['levels']", levels_of(kind).wording, levels)
    return Kind(kind, tuple(map(as_level, levels))) if levels else CONTINUOUS


def _occurring(where: str, kind: KindName, columns: Sequence[pd.Series]) -> tuple[Level, ...]:
    """Return the levels that a column's values show, in order."""
    if kind == "continuous":
        return ()
    ordered = [column for column in columns if is_category(column) and column.cat.ordered]
    levels = categories_in_order(ordered, columns) if ordered else observed_levels(columns)
    if kind == "ordinal" and not ordered and any(isinstance(level, str) for level in map(canonical, levels)):
        raise FeddagError(
            f"{where}: texts have no order of their own, and these occur: {', '.join(map(repr, levels))}. Declare the "
            "order: {'type': 'ordinal', 'levels': [...]}, or give an ordered category."
        )
    if kind == "binary":
        if {canonical(level) for level in levels} <= {0.0, 1.0}:
            return (0, 1)
        if len(levels) > 2:
            raise FeddagError(
                f"{where}: a binary variable has two levels, and {len(levels)} occur: "
                f"{', '.join(map(repr, levels[:5]))}{', ...' if len(levels) > 5 else ''}. Declare it categorical, or "
                "correct the values."
            )
    return levels
