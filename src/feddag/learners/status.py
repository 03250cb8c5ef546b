"""What a learner tells while it learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """Where a fit stands after a round."""

    site: str | None
    """The site that learns alone; None in a federation."""
    figures: dict[str, str]
    """What there is to show, by its heading."""
    seconds: float
    """Spent so far, by this site if it learns alone."""
    seconds_left: float | None = None
    """As far as the learner can tell."""


Progress = Callable[[Status], None]
"""Called after every round. What it raises ends the fit."""
