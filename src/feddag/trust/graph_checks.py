"""All that a study finds out about its graph besides the graph, as one document that an engine can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from feddag.trust.assessment import Assessment
from feddag.trust.stability import Stability


@dataclass(frozen=True)
class GraphChecks:
    """What is known about a graph besides; `None` where the study does not ask, or sites did not answer."""

    assessment: Assessment | None = None
    stability: Stability | None = None

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "assessment": None if self.assessment is None else self.assessment.to_json(),
            "stability": None if self.stability is None else self.stability.document(),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Take up what `document` returned."""
        assessment, stability = document["assessment"], document["stability"]
        return cls(
            None if assessment is None else Assessment.from_json(assessment),
            None if stability is None else Stability.of(stability),
        )
