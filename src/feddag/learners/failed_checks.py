"""An assumption that the data do not meet, in words."""

from __future__ import annotations

from typing import NamedTuple


class FailedCheck(NamedTuple):
    """What a learner found after a fit that speaks against its assumptions."""

    found: str
    """The finding, as a part of a sentence."""
    remedy: str

    def __str__(self) -> str:
        return f"{self.found}. {self.remedy}"
