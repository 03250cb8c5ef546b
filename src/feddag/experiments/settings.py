"""The data of a cell: simulated sites of one of the paper's settings, or a real data set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from feddag.errors import FeddagError

if TYPE_CHECKING:
    from feddag.graphs import CausalGraph
    from feddag.silos import Silo

Data = Literal["raw", "standardised", "unequal-noise"]
"""As in the paper; each column of each site at mean 0 and variance 1; each variable with noise of its own size."""
DATA: tuple[Data, ...] = get_args(Data)
UNEQUAL_NOISE = (0.5, 2.0)
"""A variable's noise has a standard deviation of its own between these."""
REAL = ("sachs", "fmri9", "hippocampus")
REAL_DATA_VERSION = 1
_BEYOND = {"hidden", "shifted", "varying", "interventions"}
"""Parameters that make simulated data unlike any of the paper's."""


@dataclass(frozen=True)
class Drawn:
    """The sites' tables, and what is known about the graph behind them."""

    silos: tuple[Silo, ...]
    truth: CausalGraph | None
    exogenous: tuple[str, ...] = ()
    read: tuple[Silo, ...] = ()
    """Real tables as they were read, before they were logged or standardised."""

    def digest(self) -> str:
        """Hash every number, so that two machines can tell whether they had the same data.

        Real tables are hashed as they were read: the last digits of a logarithm depend on the processor.
        """
        digest = hashlib.sha256()
        for silo in self.read or self.silos:
            digest.update(f"{silo.name} {silo.columns}".encode())
            digest.update(silo.values.astype("<f8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Simulated:
    """A random graph, one kind of mechanism, and how the rows lie with the sites."""

    functions: str = "gp"
    """A mechanism of `feddag.simulate`, or "mixed": every site draws its own."""
    graph: str = "ER2"
    """ER or SF, and the number of edges per node."""
    nodes: int = 10
    rows: int = 600
    """Per site."""
    sites: int = 10
    uneven: bool = False
    data: Data = "raw"
    hidden: int = 0
    """Variables that no table has; the truth then has an edge <-> for each pair that one of them joins."""
    shifted: int = 0
    """Variables that each site makes in its own way, all others as the rest."""
    varying: int = 0
    """Sites with one edge more than the truth."""
    interventions: int = 0
    """Variables that an experiment sets at each site, in turn. Methods that take no experiments are not told."""

    @property
    def title(self) -> str:
        """Name the setting for people."""
        return self.titled()

    def titled(self, along: str | None = None) -> str:
        """Name the setting, with the quantity that varies along an axis even where it has its usual value."""
        parts = [f"{self.functions} {self.graph}", f"{self.nodes} nodes"]
        if self.sites != 10 or along == "sites":
            parts.append(f"{self.sites} sites")
        if self.rows != 600 or along == "rows":
            parts.append(f"{self.rows} rows per site")
        if self.uneven:
            parts.append("uneven rows")
        if self.hidden:
            parts.append(f"{self.hidden} hidden")
        if self.shifted:
            parts.append(f"{self.shifted} of each site's own")
        if self.varying:
            parts.append(f"a further edge at {self.varying}")
        if self.interventions:
            parts.append(f"{self.interventions} set at each")
        return ", ".join(parts + ([] if self.data == "raw" else [self.data]))

    @property
    def published(self) -> tuple[str, str, int, int] | None:
        """Return functions, graph, nodes and rows, as in the paper's tables; None for data that the paper lacks."""
        as_published = (self.sites, self.uneven, self.data) == (10, False, "raw") and not self._beyond
        return (self.functions, self.graph, self.nodes, self.rows) if as_published else None

    @property
    def _beyond(self) -> dict[str, int]:
        """What makes the data unlike any of the paper's."""
        return {name: count for name in _BEYOND if (count := getattr(self, name))}

    @property
    def version(self) -> int:
        """Return the version of the data: results of another are not comparable."""
        from feddag.silos.simulation import SIMULATOR_VERSION  # noqa: PLC0415 - not for a list of experiments

        return SIMULATOR_VERSION

    def identity(self) -> dict[str, Any]:
        """Return all that identifies the setting, in the types of JSON; one of the paper's is as it ever was."""
        left_out = _BEYOND - self._beyond.keys()
        return {name: each for name, each in _fields(self).items() if name not in left_out}

    def draw(self, seed: int, folder: Path | None = None, *, shared_draws: bool = False) -> Drawn:
        """Simulate the sites; with `shared_draws`, mixed sites share their random numbers, as published data did."""
        from feddag.silos import simulate  # noqa: PLC0415

        del folder
        mixed = {"heterogeneous": True, "shared_draws": shared_draws}
        options: dict[str, Any] = mixed if self.functions == "mixed" else {"mechanism": self.functions}
        if self.data == "unequal-noise":
            options["noise_deviation_range"] = UNEQUAL_NOISE
        simulation = simulate(
            self.nodes,
            graph=self.graph[:2],  # pyright: ignore[reportArgumentType]
            edges_per_node=int(self.graph[2:]),
            rows=self.rows,
            sites=self.sites,
            uneven=self.uneven,
            seed=seed,
            **self._beyond,
            **options,
        )
        silos = standardise(simulation.silos) if self.data == "standardised" else simulation.silos
        return Drawn(silos, simulation.admg if self.hidden else simulation.truth)


@dataclass(frozen=True)
class Real:
    """A data set of `feddag.silos.real`; the seed is the learner's alone."""

    real: str
    logged: bool = False
    data: Data = "raw"

    @property
    def needs_folder(self) -> bool:
        """Whether the user supplies the data."""
        return self.real == "hippocampus"

    @property
    def nodes(self) -> int:
        """Return the number of variables."""
        return {"sachs": 11, "fmri9": 9, "hippocampus": 6}[self.real]

    @property
    def title(self) -> str:
        """Name the setting for people."""
        parts = [self.real, *(["logged"] if self.logged else []), *([] if self.data == "raw" else [self.data])]
        return ", ".join(parts)

    def titled(self, along: str | None = None) -> str:
        """Return the title: nothing about a real data set varies along an axis."""
        del along
        return self.title

    @property
    def published(self) -> tuple[str, str, int, int] | None:
        """Return what the paper's tables name it by; None for data that the paper lacks."""
        return ("fmri", "hippocampus", 6, 500) if (self.real, self.data) == ("hippocampus", "raw") else None

    @property
    def version(self) -> int:
        """Return the version of the data: results of another are not comparable."""
        return REAL_DATA_VERSION

    def identity(self) -> dict[str, Any]:
        """Return all that identifies the setting, in the types of JSON."""
        return _fields(self)

    def draw(self, seed: int, folder: Path | None = None) -> Drawn:
        """Read the data set; the seed changes nothing."""
        import numpy as np  # noqa: PLC0415

        from feddag.silos import Silo, real  # noqa: PLC0415

        del seed
        if self.needs_folder and folder is None:
            raise FeddagError(
                "The hippocampus recording is not bundled. Name the folder that holds it: --folder FOLDER."
            )
        known = real.hippocampus(folder) if folder and self.needs_folder else getattr(real, self.real)()
        silos = known.silos
        if self.logged:
            silos = tuple(Silo(silo.name, silo.columns, np.log(silo.values)) for silo in silos)
        if self.data == "standardised":
            silos = standardise(silos)
        return Drawn(silos, known.truth, known.exogenous, known.silos)


Setting = Simulated | Real


def _fields(setting: Setting) -> dict[str, Any]:
    """List a setting's fields, which are texts and numbers: `asdict` would copy each, for every seed of a report."""
    return {each.name: getattr(setting, each.name) for each in fields(setting)}


def standardise(silos: tuple[Silo, ...]) -> tuple[Silo, ...]:
    """Bring each column of each site to mean 0 and variance 1, to show what depends on units."""
    from feddag.silos import Silo  # noqa: PLC0415

    return tuple(
        Silo(silo.name, silo.columns, (silo.values - silo.values.mean(axis=0)) / silo.values.std(axis=0))
        for silo in silos
    )


def setting_from(described: Mapping[str, Any]) -> Setting:
    """Make the setting that a file or the store describes."""
    kind = Real if "real" in described else Simulated
    try:
        setting = kind(**described)
    except TypeError as error:
        raise FeddagError(f"A setting has {described}, which is none ({error}).") from None
    if isinstance(setting, Real) and setting.real not in REAL:
        raise FeddagError(f"real must be one of {', '.join(REAL)}. Got {setting.real!r} instead.")
    return setting


def with_data(setting: Setting, data: Data) -> Setting:
    """Return the setting with another kind of data."""
    if isinstance(setting, Real) and data == "unequal-noise":
        raise FeddagError("Real data have the noise they have. Choose --data raw or --data standardised.")
    return replace(setting, data=data)


@lru_cache(2)
def draw(setting: Setting, seed: int, folder: Path | None = None) -> Drawn:
    """Draw the data, and keep them for the next cells: a draw from a Gaussian process takes longer than many a fit."""
    return setting.draw(seed, folder)
