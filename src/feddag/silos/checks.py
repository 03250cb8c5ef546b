"""What a table must be before anything is learned from it. Each refusal names site, column, value and remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float

from feddag.errors import FeddagError
from feddag.silos.coding import coded, inferred
from feddag.silos.preparation import Missing, without_missing
from feddag.silos.silo import Silo
from feddag.silos.variable_types import Kind, Variable

MINIMUM_ROWS = 10
"""Fewer rows than this say nothing about a mechanism, and little enough to identify a person."""

Given = TypeVar("Given")
Made = TypeVar("Made")


def each(make: Callable[[Given], Made], things: Iterable[Given]) -> list[Made]:
    """What is made of every thing; if some are refused, one refusal that tells all."""
    made: list[Made] = []
    refusals: list[str] = []
    for thing in things:
        try:
            made.append(make(thing))
        except FeddagError as error:
            refusals.append(str(error))
    if refusals:
        raise FeddagError(" ".join(refusals))
    return made


def checked_names(site: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, its columns named by different texts."""
    columns = ["" if pd.isna(name) is True else str(name) for name in frame.columns]
    for name, count in Counter(columns).items():
        if not name:
            raise FeddagError(f"Site {site!r}: column {columns.index(name) + 1} has no name. Name every column.")
        if count > 1:
            raise FeddagError(f"Site {site!r}: column {name!r} stands {count} times. Give each column its own name.")
    return frame.set_axis(columns, axis=1)


def inferred_variables(frames: Sequence[pd.DataFrame]) -> dict[str, Variable]:
    """Of all columns that any site has, where no study declares them."""
    names = dict.fromkeys(name for frame in frames for name in frame.columns)
    return {name: Variable(name, inferred([frame[name] for frame in frames if name in frame])) for name in names}


def checked_silo(
    site: str,
    frame: pd.DataFrame,
    variables: Mapping[str, Variable] | None = None,
    missing: Missing = "error",
) -> Silo:
    """Turn a frame into a silo of finite, varying numbers, or say why not."""
    frame = checked_names(site, frame)
    variables = variables or inferred_variables([frame])
    columns = tuple(frame.columns)
    _check_size(site, len(columns), len(frame))
    numbers = each(lambda name: coded(f"Site {site!r}, column {name!r}", frame[name], variables[name]), columns)
    kinds = tuple(variables[name].kind for name in columns)
    return rechecked_silo(Silo(site, columns, np.column_stack(numbers), kinds), missing)


def rechecked_silo(silo: Silo, missing: Missing = "error") -> Silo:
    """A silo without missing values, if its numbers are what they must be."""
    _check_size(silo.name, len(silo.columns), silo.rows)
    _check_columns(silo, lambda where, numbers, kind: _check_numbers(where, numbers, kind, missing))
    if np.isnan(silo.values).any():
        values, account = without_missing(silo.values, silo.columns, silo.kinds, missing)
        if len(values) < MINIMUM_ROWS:
            worst = max(account.missing, key=lambda name: account.missing[name])
            raise FeddagError(
                f"Site {silo.name!r}: {len(values)} of {silo.rows} rows have no missing value, which are too few. Give "
                f"at least {MINIMUM_ROWS}: impute, or leave out {worst!r}, which {account.missing[worst]} rows lack."
            )
        silo = replace(silo, values=values, account=account)
    _check_columns(silo, _check_variation)
    return silo


def _check_size(site: str, columns: int, rows: int) -> None:
    if columns < 2:
        raise FeddagError(f"Site {site!r}: a graph needs at least 2 columns. Got {columns} instead.")
    if rows < MINIMUM_ROWS:
        raise FeddagError(
            f"Site {site!r}: {rows} rows are too few. Give at least {MINIMUM_ROWS}, or leave the site out."
        )


def _check_columns(silo: Silo, check: Callable[[str, np.ndarray, Kind], None]) -> None:
    each(
        lambda k: check(f"Site {silo.name!r}, column {silo.columns[k]!r}", silo.values[:, k], silo.kinds[k]),
        range(len(silo.columns)),
    )


def _check_numbers(where: str, numbers: Float[np.ndarray, "row"], kind: Kind, missing: Missing) -> None:
    absent = np.isnan(numbers)
    if absent.all():
        raise FeddagError(f"{where}: all {len(numbers)} values are missing. Leave out the variable, or the site.")
    if absent.any() and missing == "error":
        raise FeddagError(
            f"{where}: {absent.sum()} missing values, the first in row {absent.argmax() + 1}. "
            "Drop or impute them: missing='drop' or 'impute' of feddag.read_silos, --missing of a command that has it, "
            "[data] missing of a study; or do so beforehand."
        )
    with np.errstate(over="ignore"):
        infinite = np.isinf(numbers.astype(np.float32))
    if infinite.any():
        row = int(infinite.argmax())
        raise FeddagError(
            f"{where}: {numbers[row]} in row {row + 1} is not finite in single precision. "
            "Remove the row, or choose a larger unit."
        )
    if kind.discrete and not np.isin(numbers[~absent], range(len(kind.levels))).all():
        raise FeddagError(
            f"{where}: a {kind.name} column holds the numbers of its {len(kind.levels)} levels, from 0. Code it so."
        )


def _check_variation(where: str, numbers: Float[np.ndarray, "row"], kind: Kind) -> None:
    """A site may have seen one level of a discrete variable only: others have seen more."""
    single = numbers.astype(np.float32)
    if not kind.discrete and (single == single[0]).all():  # what single precision cannot see is none to the learners
        raise FeddagError(
            f"{where}: the value is {single[0]:g} in every row. A constant has no causes to learn: drop the column."
        )


def checked_silos(silos: Sequence[Silo]) -> tuple[Silo, ...]:
    """Bring all sites to the first one's column order, or say where they disagree: every site, every column."""
    if not silos:
        raise FeddagError("There is no silo. Give at least one site's table.")
    for name, count in Counter(silo.name for silo in silos).items():
        if count > 1:
            raise FeddagError(f"Site {name!r} stands {count} times. Give each site its own name.")
    first = silos[0]
    aligned = tuple(each(lambda silo: _aligned(silo, first), silos))
    _check_levels(aligned)
    return aligned


def _check_levels(silos: Sequence[Silo]) -> None:
    for k, (name, kind) in enumerate(zip(silos[0].columns, silos[0].kinds, strict=True)):
        if kind.discrete and len(np.unique(np.concatenate([silo.values[:, k] for silo in silos]))) == 1:
            level = kind.levels[int(silos[0].values[0, k])]
            raise FeddagError(
                f"Column {name!r}: the value is {level} in every row of every site. A constant has no causes to learn: "
                "drop the column."
            )


def _aligned(silo: Silo, first: Silo) -> Silo:
    lacking = [name for name in first.columns if name not in silo.columns]
    besides = [name for name in silo.columns if name not in first.columns]
    kinds, first_kinds = (dict(zip(table.columns, table.kinds, strict=True)) for table in (silo, first))
    others = [
        f"{name!r} ({kinds[name]}, not {kind})"
        for name, kind in first_kinds.items()
        if name in kinds and kinds[name] != kind
    ]
    differences = [
        f"{verb} {', '.join(names)}"
        for verb, names in (
            ("lacks", [*map(repr, lacking)]),
            ("has besides", [*map(repr, besides)]),
            ("has of another kind", others),
        )
        if names
    ]
    if differences:
        raise FeddagError(
            f"Site {silo.name!r} {' and '.join(differences)}, compared with site {first.name!r}. "
            "Give every site the same columns."
        )
    order = [silo.columns.index(name) for name in first.columns]
    return replace(silo, columns=first.columns, values=silo.values[:, order], kinds=first.kinds)
