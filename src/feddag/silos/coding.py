"""Turn columns into numbers: parsed, or coded by the order of their levels. A missing value is NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from jaxtyping import Float

from feddag.errors import FeddagError
from feddag.silos.variable_types import CONTINUOUS, Kind, Level, Variable

MOST_LEVELS = 20
"""A text column of more different values is taken for free text, or for names, unless its levels are declared."""


def code_column(where: str, column: pd.Series, variable: Variable) -> Float[np.ndarray, "row"]:
    """Turn a column into numbers, or refuse the first value that stands for none."""
    absent = _absent(column, variable.missing)
    if variable.kind.discrete:
        return _level_numbers(where, column, absent, variable)
    numbers = _numbers(where, column, absent)
    if variable.range is not None and variable.clamped:
        numbers = np.clip(numbers, *variable.range)
    elif variable.range is not None:
        _check_range(where, numbers, *variable.range)
    return _log(where, numbers) if variable.transform == "log" else numbers


def _check_range(where: str, numbers: Float[np.ndarray, "row"], low: float, high: float) -> None:
    outside = (numbers < low) | (numbers > high)
    if outside.any():
        row = int(outside.argmax())
        several = "" if outside.sum() == 1 else f", and {outside.sum() - 1} more values,"
        raise FeddagError(
            f"{where}: {numbers[row]:g} in row {row + 1}{several} is outside the study's range of {low:g} to {high:g}. "
            "Correct the value or its unit, or have the study list it as missing or change the range."
        )


def _log(where: str, numbers: Float[np.ndarray, "row"]) -> Float[np.ndarray, "row"]:
    without = numbers <= 0
    if without.any():
        row = int(without.argmax())
        raise FeddagError(
            f'{where}: {numbers[row]:g} in row {row + 1} has no logarithm, and the study has transform = "log". '
            "Correct the value, have the study list it as missing, or leave out the transform."
        )
    return np.log(numbers)


def infer_kind(columns: Sequence[pd.Series]) -> Kind:
    """Infer the kind of an undeclared column from its values at all sites.

    Numbers stay numbers. Booleans are binary; texts of which none is a number are categorical, or binary. A column
    that is a category of pandas at some site has those levels that occur, whatever they are: in their order if the
    category is ordered at every site that has one.
    """
    categories = [column for column in columns if is_category(column)]
    found = [_distinct(column)[1] for column in columns]
    if all(values and all(isinstance(value, bool | np.bool_) for value in values) for values in found):
        return Kind("binary", (0, 1))
    if categories and any(found):
        ordered = all(column.cat.ordered for column in categories)
        levels = categories_in_order(categories, columns) if ordered else observed_levels(columns)
        return Kind(("ordinal" if ordered else "categorical") if len(levels) > 2 else "binary", levels)
    if not all(values and all(map(_is_word, values)) for values in found):
        return CONTINUOUS
    levels = sorted({str(canonical(value)) for values in found for value in values})
    if len(levels) > MOST_LEVELS:
        return CONTINUOUS
    return Kind("categorical" if len(levels) > 2 else "binary", tuple(levels))


def is_category(column: pd.Series) -> bool:
    """Whether a column is a category of pandas."""
    return isinstance(column.dtype, pd.CategoricalDtype)


def observed_levels(columns: Sequence[pd.Series]) -> tuple[Level, ...]:
    """Return the values that occur in a column at any site, each once: numbers in their order, then texts in theirs."""
    values = [value for column in columns for value in _distinct(column)[1]]
    found: dict[Level, Level] = {}
    for value in values:
        if (key := canonical(value)) is None:
            raise FeddagError(
                f"Column {columns[0].name!r}: {value!r} is neither a text nor a number. Write its levels as such."
            )
        found.setdefault(key, as_level(value))
    return tuple(found[key] for key in sorted(found, key=lambda key: (isinstance(key, str), key)))


def categories_in_order(ordered: Sequence[pd.Series], columns: Sequence[pd.Series]) -> tuple[Level, ...]:
    """Return those levels of ordered categories that occur in a column at any site.

    Sites may lack levels that others have, but must agree on the order of those that they share.
    """
    orders = [[canonical(_plain(value)) for value in column.cat.categories] for column in ordered]
    longest = max(orders, key=len)
    for order in orders:
        if order != [key for key in longest if key in order]:
            raise FeddagError(
                f"Column {ordered[0].name!r}: the order of its categories is {_in_order(longest)} at one site and "
                f"{_in_order(order)} at another. Give the sites one order, or declare the levels: kinds={{...}}."
            )
    found = {canonical(level): level for level in observed_levels(columns)}
    return tuple(found[key] for key in longest if key in found)


def _in_order(keys: Sequence[Level | None]) -> str:
    return " < ".join(str(as_level(key)) for key in keys)


def as_level(value: Any) -> Level:
    """Return a value as a level that JSON knows: whole numbers as such."""
    key = canonical(value)
    if isinstance(value, str):
        return value.strip()
    return int(key) if isinstance(key, float) and key.is_integer() else cast(Level, key)


def _plain(value: Any) -> Any:
    """Return a category as it is if it is a number or a text, else as text: an interval, a date."""
    return value if isinstance(value, str | bool | int | float | np.number | np.bool_) else str(value)


def canonical(value: Any) -> Level | None:
    """Return one key for all spellings of a level: 1, 1.0 and "1" are the same, and so are true and 1."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value.strip() if isinstance(value, str) else None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and isinstance(canonical(value), str)


def _distinct(column: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Return each row's position among the column's different values (-1 if it is missing), and these values."""
    try:
        positions, values = pd.factorize(column)
    except TypeError:  # lists and the like
        return np.arange(len(column)), column.tolist()
    return positions, [*map(_plain, values)] if is_category(column) else list(values)


def _absent(column: pd.Series, markers: Sequence[Level]) -> np.ndarray:
    absent = column.isna().to_numpy(dtype=bool)
    if markers:
        marked = {canonical(marker) for marker in markers}
        positions, values = _distinct(column)
        absent = absent | np.array([*(canonical(value) in marked for value in values), True])[positions]
    return absent


def _level_numbers(where: str, column: pd.Series, absent: np.ndarray, variable: Variable) -> np.ndarray:
    numbers_of = {
        canonical(value): float(number) for number, values in enumerate(variable.spellings()) for value in values
    }
    positions, values = _distinct(column)
    coded = np.array([*(_level_number(value, numbers_of) for value in values), np.nan])[positions]
    coded[absent] = np.nan
    strange = np.isnan(coded) & ~absent
    if strange.any():
        row = int(strange.argmax())
        raise FeddagError(
            f"{where}: {_shown(column.iloc[row])} in row {row + 1} is not a level of the {variable.kind.name} variable."
            f" Its levels are {', '.join(map(repr, variable.declared_levels))}: correct the value, or the levels."
        )
    return coded


def _level_number(value: Any, numbers_of: dict[Level | None, float]) -> float:
    spellings = (value, str(value), str(value).lower()) if isinstance(value, bool | np.bool_) else (value,)
    return next((numbers_of[key] for key in map(canonical, spellings) if key in numbers_of), np.nan)


def _numbers(where: str, column: pd.Series, absent: np.ndarray) -> np.ndarray:
    # pandas would take dates as nanoseconds, and the real part of complex numbers
    if is_category(column):
        column = column.astype(object)
    alien = column.dtype.kind in "mMc"
    parsed = column if alien else pd.to_numeric(column, errors="coerce")
    unreadable = (np.ones(len(column), dtype=bool) if alien else parsed.isna().to_numpy(dtype=bool)) & ~absent
    if unreadable.any():
        row = int(unreadable.argmax())
        raise FeddagError(
            f"{where}: {_shown(column.iloc[row])} in row {row + 1} is not a number. "
            "Correct it, encode the column as numbers, or leave it out."
        )
    numbers = np.full(len(column), np.nan)
    numbers[~absent] = parsed[~absent].to_numpy(dtype=np.float64)
    return numbers


def _shown(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
