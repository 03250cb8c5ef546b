"""What a report tells, whatever the format: read from a run's folder, in words and tables."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from feddag.drawing.charts import Chart, make_charts
from feddag.drawing.formats import heading
from feddag.drawing.scales import edge_value, strengths
from feddag.errors import FeddagError
from feddag.graphs import CausalGraph
from feddag.learners.base import Learner
from feddag.learners.registry import METHODS, Method
from feddag.runs import Run, load
from feddag.silos import Preparation
from feddag.trust.assessment import LEAVES_SITE as ASSESSMENT_LEAVES_SITE

Edge = tuple[str, str]

_NO_NUMBERS = ("cause", "effect", "learned")
_SITES_WITH_IT = "sites whose own graph has it"


@dataclass(frozen=True)
class Table:
    """Numbers are shown as such; all other cells are words."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, records: Iterable[Any]) -> Table:
        """Of a list of dicts, whose keys are the headings; of rows of method and score."""
        records = [
            each if isinstance(each, Mapping) else dict(zip(("method", "score"), each, strict=False))
            for each in records
        ]
        names = tuple(dict.fromkeys(name for record in records for name in record))
        return cls(tuple(map(heading, names)), tuple(tuple(each.get(name) for name in names) for each in records))


@dataclass(frozen=True)
class DrawnEdge:
    """An edge of the graph, with all that is known of it."""

    source: str
    target: str
    directed: bool
    strength: float
    """From 0 to 1, for its width."""
    numbers: dict[str, Any]
    """By heading; the first is the one that the width stands for."""

    def __str__(self) -> str:
        return f"{self.source} {'→' if self.directed else '—'} {self.target}"


@dataclass(frozen=True)
class Trust:
    """What was found out about how far the graph can be trusted; empty where nobody has looked."""

    verdict: str | None
    warnings: tuple[str, ...]
    tables: dict[str, Table]
    """By caption."""


@dataclass(frozen=True)
class Contents:
    """Of one finished run. There is nothing in it that speaks of a single row."""

    folder: Path
    record: dict[str, Any]
    learner: Learner
    stability: pd.DataFrame | None
    mechanisms: pd.DataFrame | None
    edge_evidence: pd.DataFrame | None
    trust: Trust

    @classmethod
    def of_run(cls, folder: str | os.PathLike[str]) -> Contents:
        learner, run = load(folder), Run.open(folder)
        tables = {name: _read(run.folder / f"{name}.csv") for name in ("stability", "mechanisms", "edge_evidence")}
        return cls(run.folder, run.record, learner, **tables, trust=_trust(run.folder / "trust.json"))

    @property
    def graph(self) -> CausalGraph:
        return self.learner.graph_

    @property
    def method(self) -> Method | None:
        return METHODS.get(self.record["method"])

    @property
    def rows(self) -> int | None:
        counts = [site.get("rows") for site in self.record["sites"]]
        return None if None in counts else sum(counts)

    @cached_property
    def confidence(self) -> tuple[str, dict[Edge, float]]:
        """What the width of an edge stands for, and its value for each pair that has one."""
        if self.stability is not None:
            columns = (self.stability[name].tolist() for name in ("cause", "effect", "frequency"))
            shares = {(cause, effect): float(share) for cause, effect, share in zip(*columns, strict=True)}
            return "share of redrawn tables with the edge", shares
        scores, names = self.learner.edge_scores_, self.graph.names
        values = {
            (names[i], names[j]): float(scores[i, j]) for i in range(len(names)) for j in range(len(names)) if i != j
        }
        if self.record.get("regime") == "voting":
            return "share of the sites' votes", values
        if self.edge_evidence is not None:
            return "log-evidence for the edge", values
        return "edge score", values

    @cached_property
    def edges(self) -> tuple[DrawnEdge, ...]:
        """The strongest first."""
        pairs = [(*edge, True) for edge in self.graph.edges] + [(*edge, False) for edge in self.graph.undirected_edges]
        meaning, _ = self.confidence
        found = {edge: self._value(*edge) for edge in pairs}
        found_strengths = strengths(list(found.values()), shares=self.stability is not None)
        known = [
            (self.edge_evidence, {"frequency": "share of searches with it"}),
            (self.stability, {"frequency": meaning}),
        ]
        drawn = []
        for (source, target, directed), its_strength in zip(found, found_strengths, strict=True):
            numbers: dict[str, Any] = {meaning: found[source, target, directed]}
            for table, headings in known:
                numbers |= _row(table, source, target, directed, headings)
            if self.learner.learned_alone:
                numbers[_SITES_WITH_IT] = self._sites_with(source, target)
            drawn.append(DrawnEdge(source, target, directed, its_strength, numbers))
        return tuple(sorted(drawn, key=lambda edge: -edge.strength))

    def _value(self, source: str, target: str, directed: bool) -> float:
        values = self.confidence[1]
        return edge_value(values.get((source, target), 0.0), values.get((target, source), 0.0), directed=directed)

    def _sites_with(self, source: str, target: str) -> int:
        graphs = self.learner.site_graphs_.values()
        return sum(bool(graph.adjacency[graph.names.index(source), graph.names.index(target)]) for graph in graphs)

    @cached_property
    def edge_table(self) -> Table:
        """What has no table of its own."""
        headings = [self.confidence[0]] + ([_SITES_WITH_IT] if self.learner.learned_alone else [])
        rows = tuple((str(edge), *(edge.numbers[name] for name in headings)) for edge in self.edges)
        return Table(("edge", *headings), rows)

    @cached_property
    def charts(self) -> list[Chart]:
        return make_charts(self.history)

    @cached_property
    def history(self) -> pd.DataFrame:
        return self.learner.history_frame()

    @cached_property
    def site_table(self) -> Table:
        """Of each site no more than counts and means over its rows."""
        sent, received = self.learner.communication_.sent, self.learner.communication_.received
        last = self.history.iloc[-1] if len(self.history) else {}
        columns: dict[str, list[Any]] = {"site": [site["name"] for site in self.record["sites"]]}
        if self.rows is not None:  # each site's own are known where all tables are
            columns["rows"] = [site["rows"] for site in self.record["sites"]]
        accounts = Run(self.folder, self.record).accounts()
        for words, counts in (
            ("rows left out", {site: account.rows_dropped for site, account in accounts.items()}),
            ("values put in", {site: sum(account.imputed.values()) for site, account in accounts.items()}),
        ):
            if any(counts.values()):
                columns[words] = [counts.get(site) for site in columns["site"]]
        for name, words in (("loss", "loss at the end"), ("fit", "of this, misfit")):
            if any(f"{name}[{site}]" in last for site in columns["site"]):
                columns[words] = [last.get(f"{name}[{site}]") for site in columns["site"]]
        columns["bytes sent"] = [sent.get(site, 0) for site in columns["site"]]
        columns["bytes received"] = [received.get(site, 0) for site in columns["site"]]
        return Table(tuple(columns), tuple(zip(*columns.values(), strict=True)))

    @property
    def parameters(self) -> dict[str, Any]:
        return self.record["parameters"]

    @property
    def versions(self) -> dict[str, str]:
        return {"feddag": self.record["feddag"], **self.record.get("versions", {})}

    @property
    def command(self) -> str | None:
        """What to type for the same graph again; None where the tables' places are not known here."""
        sources = [site.get("source") for site in self.record["sites"]]
        if self.method is None or None in sources:
            return None
        words = ["feddag", "learn", *map(_silo, self.record["sites"])]
        if self.study_digest is not None:
            return shlex.join([*words, "--study", "study.toml", "--out", "run"])
        words += ["--method", self.method.name]
        if self.record["regime"] != self.method.regimes[0]:
            words += ["--regime", self.record["regime"]]
        defaults = {name: each.default for name, each in self.method.parameters().items()}
        given = self.parameters | {name: self.record.get("data", {}).get(name) for name in ("missing", "scale")}
        for name, value in given.items():
            if not _equal(value, (defaults | asdict(Preparation())).get(name)):
                words += _option(name, value)
        return shlex.join([*words, "--out", "run"])

    @property
    def spent_privacy(self) -> str | None:
        """What a federated run with differential privacy has cost."""
        privacy = self.record.get("privacy")
        if privacy is None:
            return None
        return (
            f"Differential privacy of each site: ε = {privacy['epsilon']:.3g} was spent of {privacy['of']:g}, at δ = "
            f"{privacy['delta']:g}."
        )

    @property
    def left_a_site(self) -> str:
        """In plain words, as far as it is known."""
        parts = [self.learner.leaves_site()]
        if self.record.get("federated") and self._agreed.get("trust", {}).get("assess"):
            parts.append(ASSESSMENT_LEAVES_SITE)
        return " ".join(parts)

    @property
    def study_digest(self) -> str | None:
        """Of the study that the sites had agreed on, where they had."""
        return self._agreed.get("digest")

    @property
    def _agreed(self) -> dict[str, Any]:
        return self.record.get("study") or {}


def _row(
    table: pd.DataFrame | None, source: str, target: str, directed: bool, headings: dict[str, str]
) -> dict[str, Any]:
    """What a table knows of an edge in its direction; in either, where it has none."""
    if table is None:
        return {}
    for cause, effect in ((source, target), (target, source))[: 1 if directed else 2]:
        found = table[(table["cause"] == cause) & (table["effect"] == effect)]
        if len(found):
            record = {str(name): value for name, value in found.iloc[0].dropna().items() if name not in _NO_NUMBERS}
            return {headings.get(name, heading(name)): value for name, value in record.items()}
    return {}


def _read(path: Path) -> pd.DataFrame | None:
    """A table whose names stay as they are, even if they look like numbers or gaps."""
    if not path.exists():
        return None
    names = dict.fromkeys(("cause", "effect", "causes", "site", "driving_site"), str)
    return pd.read_csv(path, dtype=names, keep_default_na=False, na_values=[""])


def _trust(path: Path) -> Trust:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Trust(None, (), {})
    except ValueError as error:
        raise FeddagError(f"{path} is not JSON ({error}). Remove it, or write it again.") from None
    tables = {}
    if document.get("sortability"):
        tables["How far the data could be sorted without any causal reasoning"] = Table(
            ("measure", "value"), tuple((heading(name), value) for name, value in document["sortability"].items())
        )
    if document.get("held_out"):
        tables["On rows held out"] = Table.of(document["held_out"])
    return Trust(document.get("verdict"), tuple(document.get("warnings") or ()), tables)


def _equal(value: Any, default: Any) -> bool:
    """JSON has lists where Python's defaults are tuples."""
    return value == (list(default) if isinstance(default, tuple) else default)


def _silo(site: dict[str, Any]) -> str:
    return site["source"] if Path(site["source"]).stem == site["name"] else f"{site['name']}={site['source']}"


def _option(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if name == "tiers":
        value = ";".join(",".join(tier) for tier in value)
    elif isinstance(value, list):
        value = ",".join(each if isinstance(each, str) else "->".join(each) for each in value)
    return [f"--{flag}", str(value)]
