"""Experiments: variables that somebody set, at a site or in some of its rows, so that their causes did not act.

A row says nothing about the causes of a variable that was set in it. The variable still acts as a cause there.
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
    """The column of the table that names each row's targets. It is no variable."""


NO_INTERVENTIONS = Interventions()


def given_interventions(given: Mapping[str, Any], sites: Sequence[str]) -> dict[str, Interventions]:
    """Return the interventions of all sites, from those that `fit` or `read_silos` was given by site.

    A list of names are variables that were set in every row; a text is the column that names each row's targets.
    """
    unknown = [site for site in given if site not in sites]
    if unknown:
        raise FeddagError(
            f"interventions has {unknown[0]!r}, which is no site. The sites are {', '.join(map(repr, sites))}."
        )
    return {site: _of_site(site, given.get(site, ())) for site in sites}


def _of_site(site: str, given: Any) -> Interventions:
    if isinstance(given, str):
        return Interventions(column=given)
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise FeddagError(
            f"interventions of site {site!r} must be a list of variables, or the name of the column that names each "
            f"row's targets. Got {given!r} instead."
        )
    return Interventions(tuple(given))


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
            f"{where}: the target {name!r} is no variable. Name some of {', '.join(map(repr, columns))}, separated by "
            f"{SEPARATOR!r}, or leave the cell empty where nothing was set."
        )
    return list(columns).index(name)


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
