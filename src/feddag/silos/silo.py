"""One site's table."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from feddag.silos.preparation import AS_IT_IS, Account
from feddag.silos.variable_types import CONTINUOUS, Kind


@dataclass(frozen=True, eq=False, repr=False)
class Silo:
    """The rows that one site holds: numbers only, one column per variable."""

    name: str
    columns: tuple[str, ...]
    values: Float[np.ndarray, "row column"]
    kinds: tuple[Kind, ...] = ()
    """What each column's numbers stand for; all continuous unless given."""
    account: Account = AS_IT_IS
    """What was done to the table before; of a table that came as it is, nothing."""
    minimum_cell: int = 1
    """Learners tell levels of several columns apart only where each combination that occurs has so many rows."""
    experiments_together: tuple[str, ...] = ()
    """Variables of which no sum may part sites with experiments from others, as either are few (`deployment.cells`)."""
    targets: Bool[np.ndarray, "row column"] | None = None
    """The variables that an experiment set, row by row; None where no site of the study has experiments."""
    changed: tuple[str, ...] = ()
    """Variables whose mechanism an experiment changed here: their causes still act, but as at no other site."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", self.kinds or (CONTINUOUS,) * len(self.columns))
        object.__setattr__(self, "account", self.account if self.account is not AS_IT_IS else Account(len(self.values)))

    def __repr__(self) -> str:
        return f"Silo({self.name!r}, {self.rows} rows, {len(self.columns)} columns)"

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    def with_rows(self, rows: Int[np.ndarray, " chosen"] | Bool[np.ndarray, " row"]) -> Silo:
        """Return the table of some rows."""
        targets = None if self.targets is None else self.targets[rows]
        return replace(self, values=self.values[rows], targets=targets)

    @property
    def is_target(self) -> Bool[np.ndarray, " column"]:
        """The variables that an experiment set in some row."""
        if self.targets is None:
            return np.zeros(len(self.columns), dtype=bool)
        return np.asarray(self.targets.any(axis=0))

    @property
    def is_experimental(self) -> Bool[np.ndarray, " column"]:
        """The variables that an experiment set in some row, or whose mechanism it changed."""
        return self.is_target | np.array([name in self.changed for name in self.columns], dtype=bool)

    @property
    def unlike_others(self) -> Bool[np.ndarray, "row column"] | None:
        """What tells nothing of mechanisms that all sites have in common: variables that were set, or changed here."""
        if self.targets is None:
            return None
        return self.targets | np.isin(self.columns, self.changed)

    def digest(self) -> str:
        """Return the SHA-256 of the table's content; its name does not matter."""
        digest = hashlib.sha256(json.dumps(self.columns).encode())
        if any(kind.discrete for kind in self.kinds):
            digest.update(json.dumps([[kind.name, kind.levels] for kind in self.kinds]).encode())
        digest.update(np.ascontiguousarray(self.values, dtype="<f8").tobytes())
        if self.targets is not None and self.targets.any():
            digest.update(np.packbits(self.targets).tobytes())
        if self.changed:
            digest.update(json.dumps(self.changed).encode())
        return digest.hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """Return the table for people: discrete columns are categories of pandas, with their levels again."""
        frame = pd.DataFrame(self.values, columns=list(self.columns))
        for name, kind in zip(self.columns, self.kinds, strict=True):
            if kind.discrete:
                codes = frame[name].to_numpy().astype(int)
                levels = pd.CategoricalDtype(pd.Index(kind.levels), ordered=kind.name == "ordinal")
                frame[name] = pd.Categorical.from_codes(codes, dtype=levels)
        return frame
