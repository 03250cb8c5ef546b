"""Experiments as data: a file in `tables/` names settings, rows and seeds; this module reads it and makes the cells."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Literal, cast

from feddag.errors import FeddagError, suggestion
from feddag.experiments import published, settings
from feddag.experiments.cell import Cell
from feddag.experiments.seeds import REPORTED, parse_seeds
from feddag.experiments.settings import Data, Setting
from feddag.learners.registry import METHODS, REGIMES, Regime

Kind = Literal["table", "curve", "history"]
BEYOND = "Beyond the paper"
_PLAIN = ("title", "place", "about", "published", "reference", "kind", "axis", "metrics")
"""What a file says of an experiment in the words of `Experiment`."""
_KEYS = frozenset((*_PLAIN, "seeds", "settings", "rows", "vary", "parameters"))


@dataclass(frozen=True)
class Row:
    """A row of a table: a method in a regime, with parameters."""

    label: str
    method: str
    regime: Regime
    parameters: Mapping[str, Any] = field(default_factory=dict)
    varied: str | None = None
    """The one parameter that is varied along the axis of a curve."""
    published_as: str | None = None
    sanity: bool = False

    @property
    def name(self) -> str:
        """Return the label with the varied parameter: unique in a regime."""
        varied = "" if self.varied is None else f", {self.varied}={self.parameters[self.varied]}"
        return f"{self.label}{varied}"

    @property
    def in_regime(self) -> str:
        """Return name and regime: unique in a table whose methods run in several regimes."""
        return f"{self.name}, {self.regime}"

    def cell(self, setting: Setting, seed: int) -> Cell:
        """Make the cell of this row in a setting."""
        return Cell(setting, self.method, self.regime, seed, self.parameters)


@dataclass(frozen=True)
class Experiment:
    """A table or a figure."""

    name: str
    title: str
    place: str
    """In the paper."""
    settings: tuple[Setting, ...]
    rows: tuple[Row, ...]
    reference: str
    """The row that others are tested against."""
    about: str = ""
    published: tuple[str, ...] = ()
    """The tables of `published.csv` that hold its figures."""
    kind: Kind = "table"
    axis: str | None = None
    metrics: tuple[str, ...] = ("SHD", "TPR")
    seeds: tuple[int, ...] = REPORTED
    open: bool = True
    """Whether it also shows further methods that have results; False once its rows were chosen."""
    beside: tuple[Row, ...] = ()
    """Rows that are not shown, but that the chosen ones are tested against."""

    @property
    def heading(self) -> str:
        """Return the title and its place in the paper."""
        return f"{self.title} ({self.place})"

    def restrict(
        self,
        *,
        methods: Sequence[str] | None = None,
        nodes: Sequence[int] | None = None,
        data: Data | None = None,
    ) -> Experiment:
        """Return a part of the experiment, or the same on other data.

        Args:
            methods: Labels of rows, or names of registered methods; None for all rows.
            nodes: Numbers of variables; None for all.
            data: The kind of data; None for the experiment's own.
        """
        if data is not None:
            return self._on(data).restrict(methods=methods, nodes=nodes)
        chosen, rows = self.settings, self.rows
        if nodes is not None:
            known = {setting.nodes for setting in chosen}
            if not nodes or not known.issuperset(nodes):
                sizes = ", ".join(map(str, sorted(known)))
                raise FeddagError(f"{self.name} has settings with {sizes} nodes. Got {[*nodes]} instead.")
            chosen = tuple(setting for setting in chosen if setting.nodes in nodes)
        if methods is not None:
            named = [row for name in methods for row in self._named(name)]
            rows = tuple(row for k, row in enumerate(named) if row not in named[:k])
            if not rows:
                known = ", ".join(dict.fromkeys(row.label for row in self.rows))
                raise FeddagError(f"No method is named. {self.name} has {known}.")
        beside = tuple(row for row in (*self.rows, *self.beside) if row.label == self.reference and row not in rows)
        return replace(self, settings=chosen, rows=rows, beside=beside, open=self.open and methods is None)

    def _on(self, data: Data) -> Experiment:
        """Return the same on other data, for which the paper has no figures."""
        changed = tuple(dict.fromkeys(settings.with_data(setting, data) for setting in self.settings))
        if changed == self.settings:
            return self
        about = f"{self.about} Here on {data} data, which the paper has not.".lstrip()
        return replace(self, settings=changed, title=f"{self.title}, {data}", place=BEYOND, about=about)

    def has(self, name: str) -> bool:
        """Whether a row or a registered method has this name."""
        return name in METHODS or any(name in (row.label, row.method) for row in self.rows)

    def _named(self, name: str) -> list[Row]:
        if not self.has(name):
            meant = suggestion(name, dict.fromkeys([*(row.label for row in self.rows), *METHODS]))
            raise FeddagError(f"{name!r} is neither a row of {self.name} nor a method.{meant} See: feddag methods")
        return [row for row in self.rows if name in (row.label, row.method)] or [further_row(name)]

    def further_rows(self) -> list[Row]:
        """Return rows for the registered methods without a row here: each in its own regime, with its defaults."""
        if not self.open or self.kind != "table":
            return []
        here = {row.method for row in self.rows}
        return [further_row(name) for name in METHODS if name not in here]

    def cells(self, seeds: Iterable[int] | None = None) -> Iterator[Cell]:
        """Make the cells, by setting and seed, so that the methods share each draw of the data."""
        seeds = tuple(self.seeds if seeds is None else seeds)
        for setting in self.settings:
            for position, seed in enumerate(seeds):
                for row in self.rows:
                    cell = row.cell(setting, seed)
                    if position == 0 or cell.seed_matters:
                        yield cell

    def figure(self, setting: Setting, row: Row, metric: str) -> published.Figure | None:
        """Find the published figure; None where the paper has none."""
        if setting.published is None or row.published_as is None:
            return None
        participation = float(row.parameters.get("participation", 1.0))
        return published.find(self.published, setting.published, participation, row.regime, row.published_as, metric)


def further_row(name: str) -> Row:
    """Make a row of a registered method, in its own regime, with its defaults."""
    return Row(name, name, METHODS[name].regimes[0])


@cache
def experiments() -> dict[str, Experiment]:
    """Read all experiments, by name, in the order of the paper."""
    found = [
        _read(entry.name.removesuffix(".toml"), entry.read_text(encoding="utf-8"))
        for entry in (files("feddag.experiments") / "tables").iterdir()
        if entry.name.endswith(".toml")
    ]
    return {each.name: each for each in sorted(found, key=_order)}


def find_experiment(name: str) -> Experiment:
    """Find an experiment by its name."""
    if name in experiments():
        return experiments()[name]
    meant = suggestion(name, experiments())
    raise FeddagError(f"There is no experiment {name!r}.{meant} See: feddag experiment list")


def _order(experiment: Experiment) -> tuple[int, str, str]:
    parts = ("Table", "Figure", "Appendix", BEYOND)
    return [experiment.place.startswith(part) for part in parts].index(True), experiment.place, experiment.name


@cache
def _known_rows() -> dict[str, Any]:
    return tomllib.loads((files("feddag.experiments") / "rows.toml").read_text(encoding="utf-8"))


def _read(name: str, text: str) -> Experiment:
    where = f"The experiment {name!r}"
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FeddagError(f"{where} is not TOML ({error}).") from None
    for key in content:
        if key not in _KEYS:
            raise FeddagError(f"{where} has {key!r}, which is none of {', '.join(sorted(_KEYS))}.")
    rows = _rows(where, content)
    reference = content["reference"]
    if reference not in {row.label for row in rows}:
        raise FeddagError(f"{where}: the reference {reference!r} is none of its rows.")
    plain: dict[str, Any] = {key: content[key] for key in _PLAIN if key in content}
    plain |= {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
    return Experiment(
        name=name,
        settings=tuple(each for described in content["settings"] for each in _cross(described)),
        rows=rows,
        seeds=parse_seeds(content["seeds"]) if "seeds" in content else REPORTED,
        **plain,
    )


def _cross(described: Mapping[str, Any]) -> Iterator[Setting]:
    """Make a setting for each combination of the values that are lists."""
    lists = [value if isinstance(value, list) else [value] for value in described.values()]
    for values in product(*lists):
        each = dict(zip(described, values, strict=True))
        if "total_rows" in each:
            each["rows"] = each.pop("total_rows") // each["sites"]
        yield settings.setting_from(each)


def _rows(where: str, content: Mapping[str, Any]) -> tuple[Row, ...]:
    known = _known_rows()
    given = content.get("parameters", {})
    rows = []
    for regime, labels in content["rows"].items():
        if regime not in REGIMES:
            raise FeddagError(f"{where}: rows must be by regime, one of {', '.join(REGIMES)}. Got {regime!r} instead.")
        rows += [_row(where, label, cast(Regime, regime), given) for label in labels]
    rows = [varied for row in rows for varied in _vary(row, content.get("vary", {}))]
    sanity = [_row(where, label, "federated", {}) for label in known["sanity"]]
    return (*rows, *(replace(row, sanity=True, published_as=None) for row in sanity))


def _row(where: str, label: str, regime: Regime, given: Mapping[str, Any]) -> Row:
    known = _known_rows()["row"]
    if label not in known:
        raise FeddagError(f"{where}: {label!r} is not a row of rows.toml.")
    described = known[label]
    method = described["method"]
    parameters = {**described.get("parameters", {}), **given.get(method, {})}
    return Row(label, method, regime, parameters, published_as=described.get("published", label))


def _vary(row: Row, vary: Mapping[str, Sequence[Any]]) -> Iterator[Row]:
    if not vary:
        yield row
    for name, values in vary.items():
        for value in values:
            yield replace(row, parameters={**row.parameters, name: value}, varied=name)
