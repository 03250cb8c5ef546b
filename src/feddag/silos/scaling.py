"""Bringing continuous columns to mean 0 and deviation 1, by a site's own moments or by those of all sites together.

Here all tables are in one process. `regression.moments` finds the common moments of sites that only send sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from feddag.silos.preparation import Scale
from feddag.silos.silo import Silo


class ColumnScale(NamedTuple):
    """The mean and deviation of the continuous columns, in their order."""

    mean: Float[np.ndarray, "column"]
    deviation: Float[np.ndarray, "column"]


def own_scale(silo: Silo) -> ColumnScale:
    """Return the moments of one site's rows."""
    values = continuous_values(silo)
    return ColumnScale(values.mean(axis=0), values.std(axis=0))


def pooled_scale(silos: Sequence[Silo]) -> ColumnScale:
    """Return the moments of all sites' rows, with the arithmetic of a federation: the same bits."""
    tables = [continuous_values(silo) for silo in silos]
    rows = sum(map(len, tables)) / len(tables)
    mean = _mean_over_sites([table.sum(axis=0) for table in tables]) / rows
    squares = _mean_over_sites([((table - mean) ** 2).sum(axis=0) for table in tables])
    return ColumnScale(mean, np.sqrt(squares / rows))


def _mean_over_sites(of_sites: list[Float[np.ndarray, " column"]]) -> Float[np.ndarray, " column"]:
    """Sum in the order of sites, as `federation.protocol.weighted_mean` does."""
    return sum(of_sites, start=np.zeros(of_sites[0].shape)) / len(of_sites)


def scaled(silo: Silo, by: ColumnScale, scale: Scale) -> Silo:
    """Return the silo in new units, and note them in its account."""
    values = silo.values.copy(order="K")  # sums over rows round by their layout: the same as without scaling
    values[:, _continuous(silo)] = (continuous_values(silo) - by.mean) / by.deviation
    return replace(silo, values=values, account=replace(silo.account, scale=scale))


def scaled_silos(silos: Sequence[Silo], scale: Literal["site", "federated"]) -> tuple[Silo, ...]:
    """Return all sites of this process in new units."""
    if scale == "site":
        return tuple(scaled(silo, own_scale(silo), scale) for silo in silos)
    common = pooled_scale(silos)
    return tuple(scaled(silo, common, scale) for silo in silos)


def continuous_values(silo: Silo) -> Float[np.ndarray, "row column"]:
    """Return the continuous columns of a table."""
    return silo.values[:, _continuous(silo)]


def _continuous(silo: Silo) -> list[int]:
    return [k for k, kind in enumerate(silo.kinds) if not kind.discrete]
