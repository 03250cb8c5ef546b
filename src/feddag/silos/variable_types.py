"""What a column's numbers stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

KindName = Literal["continuous", "binary", "ordinal", "categorical"]
KINDS: tuple[KindName, ...] = get_args(KindName)

Level = str | int | float

Transform = Literal["log"]
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)


@dataclass(frozen=True)
class Kind:
    """Numbers as they are, or the numbers 0, 1, ... of levels in their agreed order."""

    name: KindName = "continuous"
    levels: tuple[Level, ...] = ()

    @property
    def discrete(self) -> bool:
        """Whether it has levels."""
        return self.name != "continuous"

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(map(str, self.levels))})" if self.discrete else self.name


CONTINUOUS = Kind()


@dataclass(frozen=True)
class Variable:
    """What sites agree on about a column."""

    name: str
    kind: Kind = CONTINUOUS
    unit: str | None = None
    missing: tuple[Level, ...] = ()
    """Values that stand for one that was not recorded."""
    merge: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)
    """Values that count as one level of the kind, by the name of that level."""
    label: str | None = None
    """What people call it."""
    range: tuple[float, float] | None = None
    """The lowest and the highest value that a table may have, before any transformation."""
    transform: Transform | None = None
    """What to learn from instead of the value."""
    clamped: bool = False
    """Whether a value outside the range counts as the nearest within; if not, it is refused."""

    @property
    def coded_range(self) -> tuple[float, float] | None:
        """Return the range of the numbers to learn from."""
        if self.range is None or self.transform is None:
            return self.range
        return math.log(self.range[0]), math.log(self.range[1])

    def spellings(self) -> list[tuple[Level, ...]]:
        """Return for each level of the kind the values that stand for it."""
        return [(level, *self.merge.get(str(level), ())) for level in self.kind.levels]

    @property
    def declared_levels(self) -> tuple[Level, ...]:
        """Return the levels before any are merged."""
        return tuple(value for level in self.kind.levels for value in self.merge.get(str(level), (level,)))
