"""Small cells: rows that share a level, or levels of several columns, and are so few that sums over them tell of one.

A number that leaves a site inside a sum of all sites is still about few rows if only these enter it: the products of a
level's indicator with all columns are the rows of that level. A cell without any row says nothing about a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from feddag.silos.coding import canonical
from feddag.silos.silo import Silo
from feddag.silos.variable_types import Kind, Level, Variable

Merge = Mapping[str, tuple[Level, ...]]
"""Levels that count as one, by its name; `Variable.merge`."""


def count_levels(silo: Silo) -> dict[str, dict[Level, int]]:
    """Count the rows of each level of each discrete column."""
    return {
        name: level_rows(codes, kind)
        for name, kind, codes in zip(silo.columns, silo.kinds, silo.values.T, strict=True)
        if kind.discrete
    }


def level_rows(codes: Float[np.ndarray, " row"], kind: Kind) -> dict[Level, int]:
    """Count the rows of each level of a coded column; rows where it is missing do not count."""
    present = codes[~np.isnan(codes)].astype(int)
    return dict(zip(kind.levels, np.bincount(present, minlength=len(kind.levels)).tolist(), strict=True))


def rare_levels(counts: Mapping[Level, int], minimum: int) -> dict[Level, int]:
    """Return the levels that some rows have, but fewer than `minimum`."""
    return {level: count for level, count in counts.items() if 0 < count < minimum}


def unlike_the_others(silo: Silo) -> dict[str, int]:
    """Count, for each continuous column, the rows whose value is not the commonest: of a flag, those that have it."""
    return {
        name: silo.rows - _commonest(values)
        for name, kind, values in zip(silo.columns, silo.kinds, silo.values.T, strict=True)
        if not kind.discrete
    }


def _commonest(values: Float[np.ndarray, " row"]) -> int:
    return int(np.unique(values, return_counts=True)[1].max())


def fewest_rows(columns: Sequence[Int[np.ndarray, " row"]]) -> int:
    """Return the fewest rows that share levels of all these columns, among the combinations that occur."""
    return int(np.unique(np.column_stack(columns), axis=0, return_counts=True)[1].min())


def propose_merge(variable: Variable, counts: Mapping[Level, int], minimum: int) -> Merge | None:
    """Merge a variable's levels so that none is rare; `None` if that would leave nothing to tell apart.

    Args:
        variable: A discrete variable; levels that it merges already stay merged.
        counts: The rows of each of its levels.
        minimum: The fewest rows of a level that any row has.
    """
    groups = _neighbours(counts, minimum) if variable.kind.name == "ordinal" else _rarest(counts, minimum)
    if groups is None or variable.kind.name == "binary":
        return None if rare_levels(counts, minimum) else {}
    kept = {canonical(level) for level in counts} - {canonical(level) for group in groups for level in group}
    new = {
        _name(group, kept, variable): tuple(value for each in group for value in variable.merge.get(str(each), (each,)))
        for group in groups
    }
    return {name: values for name, values in variable.merge.items() if canonical(name) in kept} | new


def _rarest(counts: Mapping[Level, int], minimum: int) -> list[list[Level]] | None:
    """Merge the rare levels and, if these are too few rows together, the next smallest ones."""
    present = sorted((level for level in counts if counts[level]), key=counts.__getitem__)
    size = len(rare_levels(counts, minimum))
    while size and sum(counts[level] for level in present[:size]) < minimum and size < len(present):
        size += 1
    if size == len(present):
        return None
    return [[level for level in counts if level in present[:size]]] if size else []


def _neighbours(counts: Mapping[Level, int], minimum: int) -> list[list[Level]] | None:
    """Merge the rarest level with its smaller neighbour until none is rare; with one that has no rows only at last."""
    groups, rows = [[level] for level in counts], list(counts.values())
    while any(0 < each < minimum for each in rows):
        if sum(each > 0 for each in rows) < 3:
            return None
        rarest = min((k for k, each in enumerate(rows) if each), key=rows.__getitem__)
        beside = [k for k in (rarest - 1, rarest + 1) if 0 <= k < len(rows)]
        one, other = sorted((rarest, min(beside, key=lambda k: (not rows[k], rows[k]))))
        groups[one] += groups.pop(other)
        rows[one] += rows.pop(other)
    return [group for group in groups if len(group) > 1]


def _name(group: Sequence[Level], kept: set[Level | None], variable: Variable) -> str:
    if variable.kind.name == "ordinal":
        return f"{group[0]} to {group[-1]}"
    return "other" if "other" not in kept else "all others"


def merge_text(merge: Merge) -> str:
    """Write a merge as a study has it."""
    parts = [f"{toml_key(name)} = {json.dumps(list(values), ensure_ascii=False)}" for name, values in merge.items()]
    return f"merge = {{ {', '.join(parts)} }}"


def toml_key(name: str) -> str:
    """Write a name as a key of TOML."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
