"""Experiments: variables that somebody set, at a site or in some of its rows, so that their causes did not act.

A row says nothing about the causes of a variable that was set in it. The variable still acts as a cause there. Other
experiments change a mechanism and do not replace it: causes still act on such a variable, but as at no other site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from feddag.errors import FeddagError
from feddag.silos.silo import Silo

FEWEST_ROWS = 5
"""A site says nothing about a variable that was set in all rows but fewer than these."""
SEPARATOR = ";"
"""Between the targets of one row."""


@dataclass(frozen=True)
class Interventions:
    """What the experiments of one site set."""

    intervened: tuple[str, ...] = ()
    """Variables that were set in every row."""
    column: str | None = None
    """The column of the table that names each row's targets. It is not a variable."""
    changed: tuple[str, ...] = ()
    """Variables whose mechanism was changed in every row."""

    @property
    def experimental(self) -> tuple[str, ...]:
        """Variables that were set or changed in every row."""
        return (*self.intervened, *self.changed)


NO_INTERVENTIONS = Interventions()
_KEYS = ("intervened", "targets", "changed")
"""What a mapping says of a site, in the words of a study."""


def given_interventions(given: Mapping[str, Any], sites: Sequence[str]) -> dict[str, Interventions]:
    """Return the interventions of all sites, from those that `fit` or `read_silos` was given by site.

    A list of names are variables that were set in every row; a text is the column that names each row's targets; a
    mapping has the keys of a study.
    """
    unknown = [site for site in given if site not in sites]
    if unknown:
        raise FeddagError(
            f"interventions has {unknown[0]!r}, which is not a site. The sites are {', '.join(map(repr, sites))}."
        )
    return {site: _of_site(site, given.get(site, ())) for site in sites}


def _of_site(site: str, given: Any) -> Interventions:
    if isinstance(given, str):
        return Interventions(column=given)
    if isinstance(given, Mapping):
        return _of_keys(site, given)
    others = f", the name of the column that names each row's targets, or a mapping with {', '.join(_KEYS)}"
    return Interventions(_names(f"interventions of site {site!r}", given, others))


def _of_keys(site: str, given: Mapping[Any, Any]) -> Interventions:
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise FeddagError(f"interventions of site {site!r} has {unknown[0]!r}. The keys are {', '.join(_KEYS)}.")
    column = given.get("targets")
    if not isinstance(column, str | None):
        raise FeddagError(
            f"targets of site {site!r} must be the name of the column that names each row's targets. "
            f"Got {column!r} instead."
        )
    intervened, changed = (_names(f"{key} of site {site!r}", given.get(key, ())) for key in ("intervened", "changed"))
    return refuse_both(f"Site {site!r}", Interventions(intervened, column, changed))


def _names(where: str, given: Any, others: str = "") -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise FeddagError(f"{where} must be a list of variables{others}. Got {given!r} instead.")
    return tuple(given)


def refuse_both(where: str, interventions: Interventions) -> Interventions:
    """Refuse a variable that was set and whose mechanism was changed, both in every row."""
    for name in interventions.changed:
        if name in interventions.intervened:
            raise FeddagError(
                f"{where}: {name!r} is in intervened and in changed. Leave it in intervened if its causes did not act, "
                "and in changed if they did, in another way."
            )
    return interventions


def split_off(
    site: str, frame: pd.DataFrame, interventions: Interventions | None
) -> tuple[pd.DataFrame, pd.Series | None]:
    """Part the column that names targets from the variables."""
    if interventions is None or interventions.column is None:
        return frame, None
    if interventions.column not in frame.columns:
        raise FeddagError(
            f"Site {site!r} has no column {interventions.column!r}, which is to name each row's targets. "
            f"It has {', '.join(map(repr, frame.columns))}."
        )
    return frame.drop(columns=interventions.column), frame[interventions.column]


def target_mask(
    site: str, columns: Sequence[str], rows: int, interventions: Interventions | None, cells: pd.Series | None
) -> Bool[np.ndarray, "row column"] | None:
    """Return which variables were set in which rows; None where the study has no experiments."""
    if interventions is None:
        return None
    mask = np.zeros((rows, len(columns)), dtype=bool)
    mask[:, [_position(f"Site {site!r}", name, columns) for name in interventions.intervened]] = True
    if cells is not None:
        texts = cells.astype(object).where(cells.notna(), "").astype(str).to_numpy()
        for text in np.unique(texts):
            found = texts == text
            where = f"Site {site!r}, column {cells.name!r}, row {int(found.argmax()) + 1}"
            names = [name.strip() for name in text.split(SEPARATOR) if name.strip()]
            mask[np.ix_(found, [_position(where, name, columns) for name in names])] = True
    return mask


def _position(where: str, name: str, columns: Sequence[str]) -> int:
    if name not in columns:
        raise FeddagError(
            f"{where}: the target {name!r} is not a variable. Name some of {', '.join(map(repr, columns))}, separated "
            f"by {SEPARATOR!r}, or leave the cell empty where nothing was set."
        )
    return list(columns).index(name)


def changed_variables(site: str, columns: Sequence[str], interventions: Interventions | None) -> tuple[str, ...]:
    """Return the variables whose mechanism an experiment changed, or refuse names that are none."""
    names = () if interventions is None else interventions.changed
    for name in names:
        if name not in columns:
            raise FeddagError(
                f"Site {site!r}: {name!r}, whose mechanism an experiment is to have changed, is not a variable. Name "
                f"some of {', '.join(map(repr, columns))}."
            )
    return tuple(sorted(names))


def scored_rows(targets: Bool[np.ndarray, "row column"]) -> Bool[np.ndarray, "row column"]:
    """Return which rows say something about which variables: those in which nobody set it, if they are not too few."""
    return ~targets & ((~targets).sum(axis=0) >= FEWEST_ROWS)


def check_scored_rows(silos: Sequence[Silo]) -> None:
    """Refuse a variable that was set in every row of every site: nothing tells its causes."""
    if silos[0].targets is None:
        return
    left = [(~silo.targets).sum(axis=0) for silo in silos if silo.targets is not None]
    for name, most in zip(silos[0].columns, np.max(left, axis=0).tolist(), strict=True):
        if most < FEWEST_ROWS:
            where = ", ".join(repr(silo.name) for silo in silos)
            raise never_observed(name, f"at {'site' if len(silos) == 1 else 'each of the sites'} {where}")


def never_observed(name: str, where: str) -> FeddagError:
    """Return the error of a variable that no site has observed."""
    return FeddagError(
        f"Column {name!r}: experiments set it in all rows {where}, or in all but fewer than {FEWEST_ROWS}, so that "
        f"nothing tells its causes. Add a site or rows in which {name!r} was not set, or drop the column."
    )
