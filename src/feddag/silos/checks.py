"""What a table must be before anything is learned from it. Each refusal names site, column, value and remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from feddag.errors import FeddagError
from feddag.silos.silo import Silo

MINIMUM_ROWS = 10
"""Fewer rows than this say nothing about a mechanism, and little enough to identify a person."""


def checked_silo(site: str, frame: pd.DataFrame) -> Silo:
    """Turn a frame into a silo of finite, varying numbers, or say why not."""
    columns = tuple("" if pd.isna(name) is True else str(name) for name in frame.columns)
    where = f"Site {site!r}"
    for name, count in Counter(columns).items():
        if not name:
            raise FeddagError(f"{where}: column {columns.index(name) + 1} has no name. Name every column.")
        if count > 1:
            raise FeddagError(f"{where}: column {name!r} stands {count} times. Give each column its own name.")
    if len(columns) < 2:
        raise FeddagError(f"{where}: a graph needs at least 2 columns. Got {len(columns)} instead.")
    if len(frame) < MINIMUM_ROWS:
        raise FeddagError(
            f"{where}: {len(frame)} rows are too few. Give at least {MINIMUM_ROWS}, or leave the site out."
        )
    values = np.column_stack(
        [_numbers(f"{where}, column {name!r}", frame.iloc[:, k]) for k, name in enumerate(columns)]
    )
    return Silo(site, columns, values)


def _numbers(where: str, column: pd.Series) -> np.ndarray:
    missing = column.isna().to_numpy()
    if missing.any():
        raise FeddagError(
            f"{where}: {missing.sum()} missing values, the first in row {missing.argmax() + 1}. "
            "Drop or impute them first."
        )
    # pandas would take dates as nanoseconds, and the real part of complex numbers
    alien = column.dtype.kind in "mMc"
    numbers = column if alien else pd.to_numeric(column, errors="coerce")
    unreadable = np.ones(len(column), dtype=bool) if alien else numbers.isna().to_numpy()
    if unreadable.any():
        row = int(unreadable.argmax())
        raise FeddagError(
            f"{where}: {column.iloc[row]!r} in row {row + 1} is not a number. Encode it as numbers, or drop the column."
        )
    values = numbers.to_numpy(dtype=np.float64)
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    infinite = ~np.isfinite(single)
    if infinite.any():
        row = int(infinite.argmax())
        raise FeddagError(
            f"{where}: {values[row]} in row {row + 1} is not finite in single precision. "
            "Remove the row, or choose a larger unit."
        )
    if (single == single[0]).all():  # a variation that single precision cannot see is none to the learners
        raise FeddagError(
            f"{where}: the value is {single[0]:g} in every row. A constant has no causes to learn: drop the column."
        )
    return values


def checked_silos(silos: Sequence[Silo]) -> tuple[Silo, ...]:
    """Bring all sites to the first one's column order, or say where they disagree."""
    if not silos:
        raise FeddagError("There is no silo. Give at least one site's table.")
    for name, count in Counter(silo.name for silo in silos).items():
        if count > 1:
            raise FeddagError(f"Site {name!r} stands {count} times. Give each site its own name.")
    first = silos[0]
    return tuple(_aligned(silo, first) for silo in silos)


def _aligned(silo: Silo, first: Silo) -> Silo:
    lacking = [name for name in first.columns if name not in silo.columns]
    besides = [name for name in silo.columns if name not in first.columns]
    if lacking or besides:
        differences = [
            f"{verb} {', '.join(map(repr, names))}"
            for verb, names in (("lacks", lacking), ("has besides", besides))
            if names
        ]
        raise FeddagError(
            f"Site {silo.name!r} {' and '.join(differences)}, compared with site {first.name!r}. "
            "Give every site the same columns."
        )
    order = [silo.columns.index(name) for name in first.columns]
    return Silo(silo.name, first.columns, silo.values[:, order])
