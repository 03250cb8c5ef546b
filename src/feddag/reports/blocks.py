"""The parts that a report is made of. Each format renders every kind of part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from feddag.drawing.charts import Chart
from feddag.drawing.formats import heading
from feddag.drawing.layout import Layout
from feddag.graphs import CausalGraph
from feddag.reports.edges import DrawnEdge


@dataclass(frozen=True)
class Subheading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A text of one or more sentences."""

    text: str
    role: Literal["text", "note", "verdict", "names"] = "text"


@dataclass(frozen=True)
class Bullets:
    """A list of texts."""

    items: tuple[str, ...]
    role: Literal["meaning", "warnings"]


@dataclass(frozen=True)
class Code:
    """Something to type."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells are numbers, words or gaps; the format decides how they look."""

    name: str
    """For readers who do not see it."""
    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, name: str, records: Iterable[Mapping[Any, Any]]) -> Table:
        """Make a table of mappings, whose keys become headings."""
        records = list(records)
        names = tuple(dict.fromkeys(str(key) for record in records for key in record))
        return cls(name, tuple(map(heading, names)), tuple(tuple(each.get(key) for key in names) for each in records))

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Say of each column whether it holds numbers alone."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.headings)
        return tuple(
            any(map(is_number, column)) and all(value is None or is_number(value) for value in column)
            for column in columns
        )


@dataclass(frozen=True)
class GraphDrawing:
    """The graph itself, causes above their effects."""

    graph: CausalGraph
    edges: tuple[DrawnEdge, ...]
    """The strongest first."""
    meaning: str
    """What the width of an edge stands for."""
    layout: Layout


@dataclass(frozen=True)
class Picture:
    """A further graph, as a plain picture."""

    graph: CausalGraph


@dataclass(frozen=True)
class Matrix:
    """The graph as a matrix: causes in rows, effects in columns, both in the order of the drawing."""

    drawing: GraphDrawing


@dataclass(frozen=True)
class Courses:
    """How figures changed from round to round."""

    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Columns:
    """Parts side by side, where there is room."""

    parts: tuple[tuple[Block, ...], ...]


Block = Subheading | Paragraph | Bullets | Code | Table | GraphDrawing | Picture | Matrix | Courses | Columns
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading."""

    identifier: str
    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fact:
    """A number at the head of the report."""

    name: str
    value: str
    more: str = ""


@dataclass(frozen=True)
class Report:
    """A report, whatever its format. Nothing in it speaks of a single row."""

    title: str
    lead: str
    finished: str
    """When the run finished, in ISO 8601."""
    version: str
    """The version of feddag."""
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]

    def blocks(self) -> Iterator[Block]:
        """Go through all parts, in order."""
        for section in self.sections:
            for block in section.blocks:
                if isinstance(block, Columns):
                    for part in block.parts:
                        yield from part
                else:
                    yield block

    def find(self, kind: type[Kind]) -> list[Kind]:
        """Return all parts of a kind, in order."""
        return [block for block in self.blocks() if isinstance(block, kind)]


def is_number(value: Any) -> bool:
    """Whether a cell is a number. Truth values are words."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
