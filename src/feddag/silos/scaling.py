"""Bringing continuous columns to mean 0 and deviation 1, by a site's own moments or by those of all sites together.

The common moments take two rounds of sums: the mean comes first, since squares about it lose no digits. What leaves a
site is its number of rows, and of each continuous column the sum, then the sum of squares; all summed over sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from feddag.federation import Answer, Federation, InProcess, Stateless, Task, unknown_task
from feddag.federation.tasks import LARGEST_VALUE, Bounds, Output, TaskSpec, by_name
from feddag.silos.preparation import Scale
from feddag.silos.silo import Silo

SUMS = TaskSpec(
    "scale.sums",
    "The number of rows, and the sum of each continuous variable",
    {
        "rows": Output("the number of rows"),
        "sum": Output("for each continuous variable its sum over all rows", ("variable",)),
    },
)
SQUARES = TaskSpec(
    "scale.squares",
    "How much each continuous variable varies",
    {"squares": Output("for each continuous variable the sum of its squares about the common mean", ("variable",))},
)


class Moments(NamedTuple):
    """Of the continuous columns, in their order."""

    mean: Float[np.ndarray, "column"]
    deviation: Float[np.ndarray, "column"]


def own_scale(silo: Silo) -> Moments:
    values = _continuous(silo)
    return Moments(values.mean(axis=0), values.std(axis=0))


def common_scale(federation: Federation) -> Moments:
    """The server's side: of all rows of all sites."""
    first = SUMS.ask(federation, 1)
    mean = first["sum"] / first["rows"]
    second = SQUARES.ask(federation, 2, {"mean": mean})
    return Moments(mean, np.sqrt(second["squares"] / first["rows"]))


def scale_tasks(columns: int) -> dict[str, TaskSpec]:
    """Return the tasks of `common_scale`, with bounds for so many continuous columns."""
    mean = Bounds(-LARGEST_VALUE, LARGEST_VALUE, shape=(columns,))
    return by_name((SUMS, SQUARES.with_bounds(arrays={"mean": mean})))


class ScaleSite(Stateless):
    """A site's side."""

    def __init__(self, silo: Silo) -> None:
        self.name = silo.name
        self._values = _continuous(silo)

    def answer(self, task: Task) -> Answer:
        if task.name == SUMS.name:
            return Answer(1.0, {"rows": np.array(float(len(self._values))), "sum": self._values.sum(axis=0)})
        if task.name != SQUARES.name:
            raise unknown_task(self.name, task, (SUMS.name, SQUARES.name))
        return Answer(1.0, {"squares": ((self._values - task.arrays["mean"]) ** 2).sum(axis=0)})


def scaled(silo: Silo, moments: Moments, scale: Scale) -> Silo:
    """The silo in the new units, which its account tells."""
    values = silo.values.copy()
    values[:, _positions(silo)] = (_continuous(silo) - moments.mean) / moments.deviation
    return replace(silo, values=values, account=replace(silo.account, scale=scale))


def scaled_silos(silos: Sequence[Silo], scale: Scale) -> tuple[Silo, ...]:
    """All sites of this process."""
    if scale == "none":
        return tuple(silos)
    if scale == "site":
        return tuple(scaled(silo, own_scale(silo), scale) for silo in silos)
    with InProcess([ScaleSite(silo) for silo in silos], workers=1) as federation:
        moments = common_scale(federation)
    return tuple(scaled(silo, moments, scale) for silo in silos)


def _positions(silo: Silo) -> list[int]:
    return [k for k, kind in enumerate(silo.kinds) if not kind.discrete]


def _continuous(silo: Silo) -> Float[np.ndarray, "row column"]:
    return silo.values[:, _positions(silo)]
