"""The variables of a study: read from its file, and described for it."""

from __future__ import annotations

from typing import Any

from feddag import constraints
from feddag.errors import FeddagError
from feddag.silos.coding import canonical
from feddag.silos.declarations import LEVELS, RANGE, are_levels, levels_of
from feddag.silos.variable_types import KINDS, TRANSFORMS, Kind, Level, Variable
from feddag.study.document import TABLES, TEXT, Table, without_none


def read_variables(table: Table) -> tuple[Variable, ...]:
    """Read all variables, in the order of their names."""
    names = table.names()
    if len(names) < 2:
        raise FeddagError(f"{table.source}: variables must be at least 2. Got {len(names)} instead.")
    kinds = constraints.one_of(KINDS)
    either = constraints.Constraint(
        f"{kinds.wording}, or a table with a type", lambda value: kinds.accepts(value) or isinstance(value, dict)
    )
    found = []
    for name in names:
        value = table.take(name, either)
        content = value if isinstance(value, dict) else {"type": value}
        found.append(_variable(name, Table(table.source, f"{table.path}{name}.", content, TABLES["variable"])))
    return tuple(found)


def _variable(name: str, table: Table) -> Variable:
    kind = table.take("type", constraints.one_of(KINDS))
    levels = table.take("levels", LEVELS, [0, 1] if kind == "binary" else [])
    fitting = levels_of(kind)
    if not fitting.accepts(levels):
        raise constraints.refusal(table.where("levels"), fitting.wording, levels)
    kept, merge = _merged(table.table("merge"), kind, levels)
    unit = table.take("unit", TEXT, None)
    missing = table.take("missing", LEVELS, [])
    label = table.take("label", TEXT, None)
    bounds = table.take("range", RANGE, None)
    transform = table.take("transform", constraints.one_of(TRANSFORMS), None)
    for key, value in (("range", bounds), ("transform", transform)):
        if value is not None and kind != "continuous":
            raise FeddagError(
                f"{table.where(key)}: a {kind} variable has levels, and no numbers. Remove it, or make the variable "
                "continuous."
            )
    if transform == "log" and bounds is not None and bounds[1] <= 0:
        raise FeddagError(f"{table.where('range')} has no value with a logarithm. Change it, or leave out transform.")
    low_high = None if bounds is None else (float(bounds[0]), float(bounds[1]))
    return Variable(name, Kind(kind, kept), unit, tuple(missing), merge, label, low_high, transform)


def _merged(table: Table, kind: str, levels: list[Level]) -> tuple[tuple[Level, ...], dict[str, tuple[Level, ...]]]:
    """Return the levels that are left once some are merged, and which values each merged one stands for."""
    order = {canonical(level): level for level in levels}
    places = {key: place for place, key in enumerate(order)}
    taken: dict[Level | None, str] = {}
    merge: dict[str, tuple[Level, ...]] = {}
    several = constraints.Constraint(
        "a list of two or more of its levels, each merged once",
        lambda value: are_levels(value) and len(value) > 1 and {*map(canonical, value)} <= order.keys() - taken.keys(),
    )
    for name in table.names():
        if kind not in ("categorical", "ordinal"):
            raise FeddagError(
                f"{table.where(name)}: a {kind} variable has no levels to merge. Remove it, or leave the variable out."
            )
        keys = sorted(map(canonical, table.take(name, several)), key=places.__getitem__)
        if kind == "ordinal" and places[keys[-1]] - places[keys[0]] != len(keys) - 1:
            raise FeddagError(f"{table.where(name)}: levels of an ordinal variable must be neighbours to be merged.")
        taken |= dict.fromkeys(keys, name)
        merge[name] = tuple(order[key] for key in keys)
    for name in merge:
        if canonical(name) in places.keys() - taken.keys() or taken.get(canonical(name), name) != name:
            raise FeddagError(f"{table.where(name)}: another level has that name. Choose a new one.")
    kept = tuple(dict.fromkeys(taken.get(key, level) for key, level in order.items()))
    if merge and len(kept) < 2:
        raise FeddagError(f"{table.source}: {table.path} leaves one level. Merge fewer, or leave the variable out.")
    return kept, merge


def describe_variable(variable: Variable) -> dict[str, Any]:
    """Return a variable as a study's file has it."""
    lists = {"levels": list(variable.declared_levels), "missing": list(variable.missing)}
    merge = {name: list(values) for name, values in variable.merge.items()}
    optional = {**lists, "merge": merge, "range": list(variable.range or ())}
    described = {
        "type": variable.kind.name,
        "unit": variable.unit,
        "label": variable.label,
        "transform": variable.transform,
    }
    return without_none({**described, **{key: value or None for key, value in optional.items()}})
