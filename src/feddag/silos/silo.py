"""One site's table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Silo:
    """The rows that one site holds: numbers only, one column per variable."""

    name: str
    columns: tuple[str, ...]
    values: Float[np.ndarray, "row column"]

    @property
    def rows(self) -> int:
        return len(self.values)

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.values, columns=list(self.columns))
