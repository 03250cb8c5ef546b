"""Prepare a site's table between reading and learning, and keep an account of it: nothing happens in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from feddag import constraints
from feddag.silos.imputation import impute
from feddag.silos.variable_types import Kind

Missing = Literal["error", "drop", "impute"]
Scale = Literal["none", "site", "federated"]

CONSTRAINTS = {"missing": constraints.one_of(get_args(Missing)), "scale": constraints.one_of(get_args(Scale))}


@dataclass(frozen=True)
class Preparation:
    """How missing values and units are dealt with.

    `missing`: refuse them, drop rows that have any, or put in values of the site's own that go with the rest of the row
    (`imputation`). `scale`: leave values as they are, or bring each continuous column to mean 0 and deviation 1, by the
    site's own moments or by those of all sites together.
    """

    missing: Missing = "error"
    scale: Scale = "none"

    def __post_init__(self) -> None:
        constraints.check(vars(self), CONSTRAINTS)


@dataclass(frozen=True)
class Account:
    """What was done to one site's table."""

    rows_read: int
    rows_dropped: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    """Values, by column, that were not there when the table was read."""
    imputed: Mapping[str, int] = field(default_factory=dict)
    """How many of these were imputed, by column."""
    scale: Scale = "none"

    @property
    def untouched(self) -> bool:
        """Whether the table is as it was read."""
        return not (self.rows_dropped or self.imputed) and self.scale == "none"

    def __str__(self) -> str:
        done = [f"{self.rows_read} rows read"]
        if self.rows_dropped:
            done.append(f"{self.rows_dropped} with missing values dropped")
        if self.imputed:
            of_each = ", ".join(f"{column} {count}" for column, count in self.imputed.items())
            done.append(f"{sum(self.imputed.values())} values imputed ({of_each})")
        if self.scale != "none":
            done.append({"site": "scaled by its own moments", "federated": "scaled by those of all sites"}[self.scale])
        return ", ".join(done)


AS_IT_IS = Account(0)
"""The account of a table that is as it was read."""


def without_missing(
    values: Float[np.ndarray, "row column"], columns: Sequence[str], kinds: Sequence[Kind], missing: Missing
) -> tuple[Float[np.ndarray, "rest column"], Account]:
    """Return the rows to learn from. Columns without any value must have been refused before."""
    absent = np.isnan(values)
    counts = {name: int(count) for name, count in zip(columns, absent.sum(axis=0), strict=True) if count}
    rows = len(values)
    if missing == "drop":
        complete = ~absent.any(axis=1)
        return values[complete], Account(rows, rows - int(complete.sum()), counts)
    if not counts:
        return values, Account(rows)
    return impute(values, absent, kinds), Account(rows, 0, counts, counts)
