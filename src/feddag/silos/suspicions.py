"""What a table has that is no mistake by itself, but seldom meant: it would pass every check, and spoil the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from feddag.silos.outliers import outlier_warnings
from feddag.silos.silo import Silo

_EXACT = 1e-10
"""How far the square of a correlation may be from 1 by rounding alone."""
MOST_ROWS_LOST = 0.5
"""The share of dropped rows from which on there is a warning."""
OTHER_UNIT = 50.0
"""So many times as large as elsewhere: no two populations differ like that, but units do."""
_FEW_ROWS = 20
"""Fewer different rows may repeat by chance."""


def table_warnings(silos: Sequence[Silo]) -> list[str]:
    """Warn of what is seldom meant, at one site or between those given. Show it to these sites only: it has values."""
    alone = [warning for silo in silos for find in (_multiples, _repeated_rows, _lost_rows) for warning in find(silo)]
    return outlier_warnings(silos) + alone + [*_same_tables(silos), *_other_units(silos)]


def straight_lines(silo: Silo) -> Iterator[tuple[int, int, float]]:
    """Find pairs of columns of which the second is a straight line of the first, row by row; yield its slope, too."""
    numbers = [k for k, kind in enumerate(silo.kinds) if not kind.discrete]
    centred = silo.values[:, numbers] - silo.values[:, numbers].mean(axis=0)
    spreads = np.sqrt((centred**2).sum(axis=0))
    varying = spreads > 0
    correlations = (centred / np.where(varying, spreads, 1)).T @ (centred / np.where(varying, spreads, 1))
    for j in range(len(numbers)):
        for i in range(j):
            if varying[i] and varying[j] and 1 - correlations[i, j] ** 2 < _EXACT:
                yield numbers[i], numbers[j], float(np.sign(correlations[i, j]) * spreads[j] / spreads[i])


def _multiples(silo: Silo) -> Iterator[str]:
    for i, j, slope in straight_lines(silo):
        yield (
            f"Site {silo.name!r}: column {silo.columns[j]!r} is {slope:.6g} times column {silo.columns[i]!r}, but for "
            "a constant, in every row. No method can tell their causes apart: leave one of them out."
        )


def repeats_rows(silo: Silo) -> bool:
    """Return whether every row stands at least twice, and so many rows differ that it is no chance."""
    if all(kind.discrete for kind in silo.kinds):
        return False
    rows = pd.DataFrame(silo.values)
    return bool(rows.duplicated(keep=False).all()) and int((~rows.duplicated()).sum()) > _FEW_ROWS


def _repeated_rows(silo: Silo) -> Iterator[str]:
    if repeats_rows(silo):
        different = int((~pd.DataFrame(silo.values).duplicated()).sum())
        yield (
            f"Site {silo.name!r}: every row stands at least twice ({different} different rows of {silo.rows}). The "
            "graph would look surer than it is: remove the copies."
        )


def _lost_rows(silo: Silo) -> Iterator[str]:
    account = silo.account
    if account.rows_dropped > MOST_ROWS_LOST * account.rows_read:
        worst = sorted(account.missing, key=lambda name: -account.missing[name])[:3]
        lacking = ", ".join(f"{name!r} {account.missing[name]}" for name in worst)
        yield (
            f"Site {silo.name!r}: {account.rows_dropped} of {account.rows_read} rows are dropped for missing values, "
            f"which leaves {silo.rows} to learn from. Most are missing in {lacking}: leave {worst[0]!r} out, or impute."
        )


def _same_tables(silos: Sequence[Silo]) -> Iterator[str]:
    by_digest: dict[str, list[str]] = {}
    for silo in silos:
        by_digest.setdefault(silo.digest(), []).append(silo.name)
    for names in by_digest.values():
        if len(names) > 1:
            yield (
                f"Sites {', '.join(map(repr, names))} have the same table, value by value. Their rows count "
                f"{len(names)} times: leave all but one out."
            )


def _other_units(silos: Sequence[Silo]) -> Iterator[str]:
    """Find columns of one site whose size and spread are many times those of all others."""
    if len(silos) < 2:
        return
    for k, (name, kind) in enumerate(zip(silos[0].columns, silos[0].kinds, strict=True)):
        if kind.discrete:
            continue
        spreads = np.array([silo.values[:, k].std() for silo in silos])
        sizes = np.array([np.median(np.abs(silo.values[:, k])) for silo in silos])
        for place, silo in enumerate(silos):
            factor = _common_factor(place, spreads, sizes)
            if factor is not None and (factor > 1 or len(silos) > 2):
                yield (
                    f"Site {silo.name!r}, column {name!r}: its spread is {factor:.3g} times that at the other sites. "
                    "Is it in another unit? Convert it, and agree on a range in the study."
                )


def _common_factor(place: int, spreads: np.ndarray, sizes: np.ndarray) -> float | None:
    """Return how many times as large one site's spread is, if both measures are far from those of all others."""
    far = []
    for measure in (spreads, sizes):
        own, others = float(measure[place]), np.delete(measure, place)
        if own <= 0 or others.min() <= 0:
            return None
        far.append(1 if own > OTHER_UNIT * others.max() else -1 if own * OTHER_UNIT < others.min() else 0)
    return float(spreads[place] / np.median(np.delete(spreads, place))) if abs(sum(far)) == 2 else None
