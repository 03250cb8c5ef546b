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
from feddag.federation.forms import LARGEST_VALUE, Between, Form
from feddag.silos.preparation import Scale
from feddag.silos.silo import Silo

SUMS = "scale.sums"
SQUARES = "scale.squares"


class Moments(NamedTuple):
    """Of the continuous columns, in their order."""

    mean: Float[np.ndarray, "column"]
    deviation: Float[np.ndarray, "column"]


def own_scale(silo: Silo) -> Moments:
    values = _continuous(silo)
    return Moments(values.mean(axis=0), values.std(axis=0))


def common_scale(federation: Federation) -> Moments:
    """The server's side: of all rows of all sites."""
    everyone = tuple(range(len(federation.sites)))
    first = federation.aggregate(Task(SUMS, 1, {}, {}, everyone, complete=True))
    mean = first["sum"] / first["rows"]
    second = federation.aggregate(Task(SQUARES, 2, {}, {"mean": mean}, everyone, complete=True))
    return Moments(mean, np.sqrt(second["squares"] / first["rows"]))


def scale_forms(columns: int) -> dict[str, Form]:
    """What the tasks may bring, with so many continuous columns."""
    mean = Between(-LARGEST_VALUE, LARGEST_VALUE, shape=(columns,))
    return {SUMS: Form(), SQUARES: Form(arrays={"mean": mean})}


class ScaleSite(Stateless):
    """A site's side."""

    def __init__(self, silo: Silo) -> None:
        self.name = silo.name
        self._values = _continuous(silo)

    def answer(self, task: Task) -> Answer:
        if task.name == SUMS:
            return Answer(1.0, {"rows": np.array(float(len(self._values))), "sum": self._values.sum(axis=0)})
        if task.name != SQUARES:
            raise unknown_task(self.name, task, (SUMS, SQUARES))
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
