"""All that a study finds out about its graph besides the graph, as one document that an engine can carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from feddag.trust.assessment import Assessment
from feddag.trust.effects import TotalEffect
from feddag.trust.stability import Stability


@dataclass(frozen=True)
class GraphChecks:
    """What is known about a graph besides; `None` where the study does not ask, or sites did not answer."""

    assessment: Assessment | None = None
    stability: Stability | None = None
    mechanisms: pd.DataFrame | None = None
    """As `mechanisms_of_sums` returns them."""
    effects: tuple[TotalEffect, ...] = ()
    tuning: pd.DataFrame | None = None
    """A row for each combination of parameters, the best first."""

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "assessment": None if self.assessment is None else self.assessment.to_json(),
            "stability": None if self.stability is None else self.stability.document(),
            "mechanisms": _records(self.mechanisms),
            "effects": [each.as_dict() for each in self.effects],
            "tuning": _records(self.tuning),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Take up what `document` returned."""
        assessment, stability, mechanisms = (document[name] for name in ("assessment", "stability", "mechanisms"))
        return cls(
            None if assessment is None else Assessment.from_json(assessment),
            None if stability is None else Stability.of(stability),
            _table(mechanisms),
            tuple(TotalEffect.from_dict(each) for each in document["effects"]),
            _table(document["tuning"]),
        )


def _records(table: pd.DataFrame | None) -> str | None:
    return None if table is None else table.to_json(orient="records", double_precision=15)


def _table(records: str | None) -> pd.DataFrame | None:
    return None if records is None else pd.DataFrame(json.loads(records))
