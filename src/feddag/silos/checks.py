"""Check the sites' tables before anything is learned from them. Each refusal names site, column, value and remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from feddag.errors import FeddagError, check_unique
from feddag.silos.coding import code_column, infer_kind
from feddag.silos.interventions import check_scored_rows
from feddag.silos.preparation import Missing, without_missing
from feddag.silos.silo import Silo
from feddag.silos.variable_types import Kind, Variable

MINIMUM_ROWS = 10
"""Fewer rows than this say nothing about a mechanism, and little enough to identify a person."""

Given = TypeVar("Given")
Made = TypeVar("Made")


class CheckedSilos(tuple[Silo, ...]):
    """Tables that have passed all checks, columns in the first site's order. Only `feddag.read_silos` makes them.

    They are not checked again: whoever takes tables calls `read_silos`, which returns these as they are.
    """

    __slots__ = ()

    def subset(self, positions: Iterable[int]) -> CheckedSilos:
        """Return some sites' tables; refuse them if a discrete column is constant without the others."""
        chosen = CheckedSilos(self[position] for position in positions)
        _check_levels(chosen)
        check_scored_rows(chosen)
        return chosen

    def pooled(self, name: str) -> CheckedSilos:
        """Return all rows as the table of one site."""
        values = np.concatenate([silo.values for silo in self])
        masks = [mask for silo in self if (mask := silo.unlike_others) is not None]
        targets = np.concatenate(masks) if masks else None
        return CheckedSilos((Silo(name, self[0].columns, values, self[0].kinds, targets=targets),))


def collect_or_refuse(make: Callable[[Given], Made], things: Iterable[Given]) -> list[Made]:
    """Call `make` for every thing. If some are refused, raise one error with every refusal."""
    made: list[Made] = []
    refusals: list[str] = []
    for thing in things:
        try:
            made.append(make(thing))
        except FeddagError as error:
            refusals.append(str(error))
    if refusals:
        raise FeddagError(" ".join(_without_repeated_remedies(refusals)))
    return made


def _without_repeated_remedies(refusals: Sequence[str]) -> Iterator[str]:
    """Yield refusals; of several in a row that name the same remedy after what was found, the last one names it."""
    for refusal, following in zip(refusals, [*refusals[1:], ""], strict=True):
        found, _, remedy = refusal.partition(". ")
        repeated = bool(remedy) and following.partition(". ")[2] == remedy
        yield f"{found}." if repeated else refusal


def check_names(site: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with column names as text; refuse names that are empty or occur twice."""
    columns = ["" if pd.isna(name) is True else str(name) for name in frame.columns]
    if "" in columns:
        raise FeddagError(f"Site {site!r}: column {columns.index('') + 1} has no name. Name every column.")
    check_unique(columns, f"Site {site!r}: column", "Give each column its own name.")
    return frame.set_axis(columns, axis=1)


def infer_variables(
    frames: Sequence[pd.DataFrame], declared: Mapping[str, Kind] = MappingProxyType({})
) -> dict[str, Variable]:
    """Infer the type of each column that any site has, unless it is declared."""
    names = dict.fromkeys(name for frame in frames for name in frame.columns)
    return {
        name: Variable(name, declared.get(name) or infer_kind([frame[name] for frame in frames if name in frame]))
        for name in names
    }


def make_silo(
    site: str,
    frame: pd.DataFrame,
    variables: Mapping[str, Variable] | None = None,
    missing: Missing = "error",
    targets: Bool[np.ndarray, "row column"] | None = None,
) -> Silo:
    """Turn a frame into a silo of finite, varying numbers, or refuse it."""
    frame = check_names(site, frame)
    variables = variables or infer_variables([frame])
    columns = tuple(frame.columns)
    _check_size(site, columns, len(frame))
    numbers = collect_or_refuse(
        lambda name: code_column(f"Site {site!r}, column {name!r}", frame[name], variables[name]), columns
    )
    kinds = tuple(variables[name].kind for name in columns)
    return check_silo(Silo(site, columns, np.column_stack(numbers), kinds, targets=targets), missing)


def check_silo(silo: Silo, missing: Missing = "error") -> Silo:
    """Return the silo without missing values; refuse values that are not finite, and columns that do not vary."""
    _check_size(silo.name, silo.columns, silo.rows)
    _check_columns(silo, lambda where, numbers, kind: _check_numbers(where, numbers, kind, missing))
    if np.isnan(silo.values).any():
        values, account = without_missing(silo.values, silo.columns, silo.kinds, missing)
        if len(values) < MINIMUM_ROWS:
            worst = max(account.missing, key=lambda name: account.missing[name])
            raise FeddagError(
                f"Site {silo.name!r}: {len(values)} of {silo.rows} rows have no missing value, which are too few. Give "
                f"at least {MINIMUM_ROWS}: impute, or leave out {worst!r}, which {account.missing[worst]} rows lack."
            )
        if silo.targets is not None and missing == "drop":
            silo = silo.with_rows(np.flatnonzero(~np.isnan(silo.values).any(axis=1)))
        silo = replace(silo, values=values, account=account)
    check_variation(silo)
    return silo


def check_variation(silo: Silo) -> None:
    """Refuse constant columns. A discrete one may be constant at a site: others may have seen more levels.

    So may one that an experiment set in every row.
    """
    free = range(len(silo.columns)) if silo.targets is None else np.flatnonzero(~silo.targets.all(axis=0)).tolist()
    _check_columns(silo, _check_column_variation, free)


def _check_size(site: str, columns: Sequence[str], rows: int) -> None:
    if len(columns) < 2:
        found = (
            f"{columns[0]!r} alone: in a text file, commas, semicolons or tabs separate columns" if columns else "none"
        )
        raise FeddagError(f"Site {site!r}: a graph needs at least 2 columns. Got {found}.")
    if rows < MINIMUM_ROWS:
        found = "1 row is" if rows == 1 else f"{rows} rows are"
        raise FeddagError(f"Site {site!r}: {found} too few. Give at least {MINIMUM_ROWS}, or leave the site out.")


def _check_columns(
    silo: Silo, check: Callable[[str, np.ndarray, Kind], None], chosen: Iterable[int] | None = None
) -> None:
    collect_or_refuse(
        lambda k: check(f"Site {silo.name!r}, column {silo.columns[k]!r}", silo.values[:, k], silo.kinds[k]),
        range(len(silo.columns)) if chosen is None else chosen,
    )


def _check_numbers(where: str, numbers: Float[np.ndarray, "row"], kind: Kind, missing: Missing) -> None:
    absent = np.isnan(numbers)
    if absent.all():
        raise FeddagError(f"{where}: all {len(numbers)} values are missing. Leave out the variable, or the site.")
    if absent.any() and missing == "error":
        count = int(absent.sum())
        raise FeddagError(
            f"{where}: {count} missing value{'s' * (count > 1)}, the first in row {absent.argmax() + 1}. "
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


def _check_column_variation(where: str, numbers: Float[np.ndarray, "row"], kind: Kind) -> None:
    single = numbers.astype(np.float32)
    if not kind.discrete and (single == single[0]).all():  # what single precision cannot see is none to the learners
        raise FeddagError(
            f"{where}: the value is {single[0]:g} in every row. "
            "A constant has no causes to learn: leave out the column, or the site."
        )


def check_agreement(silos: Sequence[Silo]) -> CheckedSilos:
    """Bring checked silos to the first one's column order, or say where they disagree: every site, every column."""
    if not silos:
        raise FeddagError("There is no silo. Give at least one site's table.")
    check_unique((silo.name for silo in silos), "Site", "Give each site its own name.")
    first = silos[0]
    if any(silo.targets is not None or silo.changed for silo in silos):  # then all answer as sites with experiments
        silos = [silo if silo.targets is not None else _without_targets(silo) for silo in silos]
    aligned = CheckedSilos(collect_or_refuse(lambda silo: _align(silo, first), silos))
    _check_levels(aligned)
    check_scored_rows(aligned)
    return aligned


def _without_targets(silo: Silo) -> Silo:
    return replace(silo, targets=np.zeros(silo.values.shape, dtype=bool))


def _check_levels(silos: Sequence[Silo]) -> None:
    for k, (name, kind) in enumerate(zip(silos[0].columns, silos[0].kinds, strict=True)):
        if kind.discrete and len(np.unique(np.concatenate([silo.values[:, k] for silo in silos]))) == 1:
            level = kind.levels[int(silos[0].values[0, k])]
            raise FeddagError(
                f"Column {name!r}: the value is {level} in every row of every site. A constant has no causes to learn: "
                "drop the column."
            )


def _align(silo: Silo, first: Silo) -> Silo:
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
    targets = None if silo.targets is None else silo.targets[:, order]
    return replace(silo, columns=first.columns, values=silo.values[:, order], kinds=first.kinds, targets=targets)
