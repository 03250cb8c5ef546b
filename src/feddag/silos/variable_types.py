"""What a column's numbers stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

KindName = Literal["continuous", "binary", "ordinal", "categorical"]
KINDS: tuple[KindName, ...] = get_args(KindName)

Level = str | int | float


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
