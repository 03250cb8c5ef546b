"""Read and check the sites' tables: frames, arrays, a simulation, files or databases."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from feddag.errors import FeddagError, check_unique
from feddag.silos.checks import (
    CheckedSilos,
    check_agreement,
    check_names,
    check_silo,
    check_variation,
    collect_or_refuse,
    infer_variables,
    make_silo,
)
from feddag.silos.declarations import declared_kinds
from feddag.silos.interventions import (
    NO_INTERVENTIONS,
    Interventions,
    changed_variables,
    given_interventions,
    split_off,
    target_mask,
)
from feddag.silos.preparation import Missing, Preparation, Scale
from feddag.silos.scaling import own_scale, scaled, scaled_silos
from feddag.silos.silo import Silo
from feddag.silos.simulation import Simulation
from feddag.silos.sources import GivenFrame, named_source, read_table, source_of
from feddag.silos.variable_types import Variable


class Schema(Protocol):
    """What sites have agreed on about their tables; a study is one."""

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Return the variables, in order."""
        ...

    def site_columns(self, site: str) -> Mapping[str, str]:
        """Return the column of each variable at a site."""
        ...

    def site_interventions(self, site: str) -> Interventions | None:
        """Return what a site's experiments set; None where no site has experiments."""
        ...


def read_silos(
    silos: Any,
    *,
    missing: Missing = "error",
    scale: Scale = "none",
    kinds: Mapping[str, Any] | None = None,
    interventions: Mapping[str, Any] | None = None,
    schema: Schema | None = None,
) -> CheckedSilos:
    """Read, check, name and prepare the sites' tables, columns in the first site's order.

    Tables that it has returned before are returned as they are, unless `scale` or `schema` is given; their kinds are
    known.

    Args:
        silos: A `Simulation`; or one table per site, as a mapping from site names or as a sequence. A table is a
            DataFrame, a two-dimensional array, a `Silo`, the path of a `.csv`, `.tsv`, `.parquet` or `.feather` file,
            or a table in a database (`feddag.silos.sources`). Sites of a sequence are named after their files, or
            `site-01`, `site-02`, ...
        missing: Refuse missing values (`"error"`), `"drop"` rows that have any, or `"impute"`: each site puts in
            values of its own that go with the rest of the row.
        scale: Leave values as they are (`"none"`), or bring continuous columns to mean 0 and deviation 1 by the
            moments of each `"site"`, or of all sites together (`"federated"`).
        kinds: By column what its values stand for, in the words of a study: `"continuous"`, `"binary"`, `"ordinal"` or
            `"categorical"`; or with levels in their order, `{"type": "ordinal", "levels": ["low", "high"]}`. Levels
            that are not given are those that occur. Of other columns, booleans, few different texts and categories of
            pandas (ordered ones are ordinal) are discrete, and all else are numbers.
        interventions: By site what experiments set there: a list of variables that were set in every row, such as
            `{"lab-2": ["PKC"]}`, or the name of the column that names each row's targets (`{"lab-2": "condition"}`):
            several are separated by ";", and a cell is empty where nothing was set. Such a column is not a variable.
            Or a mapping with a study's keys `intervened`, `targets` and `changed`: `{"lab-2": {"changed": ["PKC"]}}` is
            an experiment that changed how PKC comes about, and its causes still act.
        schema: The study that the tables must keep to, in place of `kinds` and `interventions`; only its columns are
            read.

    Examples:
        >>> import feddag, pandas
        >>> table = pandas.DataFrame({"rain": [0.0, 4.0] * 10, "flood": [False, True] * 10})
        >>> north, south = feddag.read_silos({"north": table, "south": table}, scale="site")
        >>> north.values[:2].tolist()
        [[-1.0, 0.0], [1.0, 1.0]]
        >>> ward = pandas.DataFrame({"stage": [1, 2, 4, 2] * 5, "age": range(20)})
        >>> print(feddag.read_silos([ward], kinds={"stage": "ordinal"})[0].kinds[0])
        ordinal (1, 2, 4)
    """
    preparation = Preparation(missing, scale)
    if schema is not None and (kinds or interventions):
        raise FeddagError(
            "A study declares what its variables are, and what experiments set. Leave out kinds and interventions, or "
            "the study."
        )
    if isinstance(silos, CheckedSilos) and schema is None and not kinds and not interventions:
        checked = silos
    else:
        tables = _named_tables(silos)
        checked = check_agreement(
            _read_undeclared(tables, missing, kinds or {}, interventions or {})
            if schema is None
            else collect_or_refuse(lambda table: _read_declared(schema, *table, missing), tables)
        )
    if preparation.scale == "none":
        return checked
    in_new_units = CheckedSilos(scaled_silos(checked, preparation.scale))
    collect_or_refuse(check_variation, in_new_units)  # small against another site's, it may vanish by rounding
    return in_new_units


def read_site(schema: Schema, site: str, table: Any, preparation: Preparation) -> Silo:
    """Read one site's table as the site prepares it alone: without the scaling by common moments."""
    silo = _read_declared(schema, site, table, preparation.missing)
    return scaled(silo, own_scale(silo), "site") if preparation.scale == "site" else silo


def site_names(sources: Sequence[str]) -> dict[str, str]:
    """Return the sources of a command line by site: `SITE=SOURCE`, or named after the file or database."""
    given = [named_source(text) for text in sources]
    defaults = _default_names([source for _, source in given])
    names = [site or default for (site, _), default in zip(given, defaults, strict=True)]
    check_unique(names, "Site", "Give each site its own name: SITE=SILO.")
    return dict(zip(names, [source for _, source in given], strict=True))


def _named_tables(silos: Any) -> list[tuple[str, Any]]:
    if isinstance(silos, Simulation):
        silos = silos.silos
    if isinstance(silos, str | os.PathLike):
        silos = [silos]
    if isinstance(silos, Mapping):
        return [(str(name), table) for name, table in silos.items()]
    if not isinstance(silos, Sequence):
        raise FeddagError(
            f"silos must be a list or dict of tables or paths, or a Simulation. Got {type(silos).__name__} "
            "instead; put a single table into a list."
        )
    return list(zip(_default_names(silos), silos, strict=True))


def _default_names(tables: Sequence[Any]) -> list[str]:
    """Name sites after their files or databases; if two have the same name, after the whole address."""
    sources = [source_of(table) if isinstance(table, str | os.PathLike) else None for table in tables]
    names = [source and source.name for source in sources]
    width = max(2, len(str(len(tables))))
    found = []
    for number, (table, source) in enumerate(zip(tables, sources, strict=True), start=1):
        if isinstance(table, Silo):
            found.append(table.name)
        elif source is None:
            found.append(f"site-{number:0{width}}")
        else:
            found.append(source.name if names.count(source.name) == 1 else source.shown)
    return found


def _read_declared(schema: Schema, site: str, table: Any, missing: Missing) -> Silo:
    """Read the study's columns of a table, under the study's names."""
    columns, interventions = schema.site_columns(site), schema.site_interventions(site)
    if isinstance(table, Silo):
        if table.is_experimental.any():
            raise FeddagError(
                f"Site {site!r} is a Silo with experiments, which a study declares itself. Give its table instead."
            )
        table = table.to_frame()
    named_targets = [] if interventions is None or interventions.column is None else [interventions.column]
    frame, cells = split_off(site, _frame(site, table, [*columns.values(), *named_targets]), interventions)
    frame = frame.set_axis(list(columns), axis=1)
    targets = target_mask(site, list(columns), len(frame), interventions, cells)
    silo = make_silo(site, frame, {variable.name: variable for variable in schema.variables}, missing, targets)
    return replace(silo, changed=changed_variables(site, silo.columns, interventions))


def _read_undeclared(
    tables: Sequence[tuple[str, Any]], missing: Missing, kinds: Mapping[str, Any], given: Mapping[str, Any]
) -> list[Silo]:
    """Read all columns of all sites' tables; infer the types that are not declared from all sites' values."""
    for name, table in tables if kinds else ():
        if isinstance(table, Silo):
            raise FeddagError(
                f"Site {name!r} is a Silo, whose kinds are known. Give kinds when its table is read: "
                "feddag.read_silos(tables, kinds=...), or Silo(..., kinds=...)."
            )
    interventions: Mapping[str, Interventions] = (
        given_interventions(given, [name for name, _ in tables]) if given else {}
    )

    def read(k: int) -> tuple[int, tuple[pd.DataFrame, pd.Series | None]]:
        name, table = tables[k]
        return k, split_off(name, check_names(name, _frame(name, table)), interventions.get(name))

    frames = dict(collect_or_refuse(read, [k for k, (_, table) in enumerate(tables) if not isinstance(table, Silo)]))
    every = [frame for frame, _ in frames.values()]
    variables = infer_variables(every, declared_kinds(kinds, every))

    def silo(k: int) -> Silo:
        name, table = tables[k]
        if k not in frames:
            return check_silo(_with_targets(replace(table, name=name), interventions.get(name)), missing)
        frame, cells = frames[k]
        targets = target_mask(name, list(frame.columns), len(frame), interventions.get(name), cells)
        found = make_silo(name, frame, variables, missing, targets)
        return replace(found, changed=changed_variables(name, found.columns, interventions.get(name)))

    return collect_or_refuse(silo, range(len(tables)))


def _with_targets(silo: Silo, interventions: Interventions | None) -> Silo:
    """Return a table that is a Silo already, with the variables that were set in every row."""
    if interventions is None or interventions == NO_INTERVENTIONS:
        return silo
    if interventions.column is not None:
        raise FeddagError(
            f"Site {silo.name!r} is a Silo, whose columns are variables. Give targets with its rows: "
            "Silo(..., targets=...)."
        )
    targets = target_mask(silo.name, silo.columns, silo.rows, interventions, None)
    changed = {*silo.changed, *changed_variables(silo.name, silo.columns, interventions)}
    targets = targets if silo.targets is None else silo.targets | targets
    return replace(silo, targets=targets, changed=tuple(sorted(changed)))


def _frame(site: str, table: Any, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a table as a frame, or some of its columns."""
    if isinstance(table, str | os.PathLike):
        return read_table(site, source_of(table), columns)
    if isinstance(table, np.ndarray):
        if table.ndim != 2:
            raise FeddagError(
                f"Site {site!r}: an array must have two dimensions (rows, columns). Got {table.ndim} instead."
            )
        width = len(str(max(table.shape[1] - 1, 0)))
        table = pd.DataFrame(table, columns=[f"x{column:0{width}}" for column in range(table.shape[1])])
    if not isinstance(table, pd.DataFrame):
        raise FeddagError(
            f"Site {site!r}: a table must be a DataFrame, a two-dimensional array or a path. "
            f"Got {type(table).__name__} instead."
        )
    return table if columns is None else read_table(site, GivenFrame(table), columns)
