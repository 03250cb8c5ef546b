"""Turn columns into numbers: parsed, or coded by the order of their levels. A missing value is NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    return _numbers(where, column, absent)


def infer_kind(columns: Sequence[pd.Series]) -> Kind:
    """Infer the kind of an undeclared column from its values at all sites.

    Numbers stay numbers. Booleans are binary; texts of which none is a number are categorical, or binary.
    """
    found = [_distinct(column)[1] for column in columns]
    if all(values and all(isinstance(value, bool | np.bool_) for value in values) for values in found):
        return Kind("binary", (0, 1))
    if not all(values and all(map(_is_word, values)) for values in found):
        return CONTINUOUS
    levels = sorted({str(canonical(value)) for values in found for value in values})
    if len(levels) > MOST_LEVELS:
        return CONTINUOUS
    return Kind("categorical" if len(levels) > 2 else "binary", tuple(levels))


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
    return positions, list(values)


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
            f"{where}: {_shown(column.iloc[row])} in row {row + 1} is no level of the {variable.kind.name} variable. "
            f"Its levels are {', '.join(map(repr, variable.declared_levels))}: correct the value, or the levels."
        )
    return coded


def _level_number(value: Any, numbers_of: dict[Level | None, float]) -> float:
    spellings = (value, str(value), str(value).lower()) if isinstance(value, bool | np.bool_) else (value,)
    return next((numbers_of[key] for key in map(canonical, spellings) if key in numbers_of), np.nan)


def _numbers(where: str, column: pd.Series, absent: np.ndarray) -> np.ndarray:
    # pandas would take dates as nanoseconds, and the real part of complex numbers
    alien = column.dtype.kind in "mMc"
    parsed = column if alien else pd.to_numeric(column, errors="coerce")
    unreadable = (np.ones(len(column), dtype=bool) if alien else parsed.isna().to_numpy(dtype=bool)) & ~absent
    if unreadable.any():
        row = int(unreadable.argmax())
        raise FeddagError(
            f"{where}: {_shown(column.iloc[row])} in row {row + 1} is not a number. "
            "Encode it as numbers, or drop the column."
        )
    numbers = np.full(len(column), np.nan)
    numbers[~absent] = parsed[~absent].to_numpy(dtype=np.float64)
    return numbers


def _shown(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
