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

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "assessment": None if self.assessment is None else self.assessment.to_json(),
            "stability": None if self.stability is None else self.stability.document(),
            "mechanisms": None
            if self.mechanisms is None
            else self.mechanisms.to_json(orient="records", double_precision=15),
            "effects": [each.as_dict() for each in self.effects],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Take up what `document` returned."""
        assessment, stability, mechanisms = (document[name] for name in ("assessment", "stability", "mechanisms"))
        return cls(
            None if assessment is None else Assessment.from_json(assessment),
            None if stability is None else Stability.of(stability),
            None if mechanisms is None else pd.DataFrame(json.loads(mechanisms)),
            tuple(TotalEffect.from_dict(each) for each in document["effects"]),
        )
