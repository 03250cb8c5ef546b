"""What a learner reports while it learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """Where a fit stands after a round."""

    site: str | None
    """The site that learns alone; None in a federation."""
    figures: dict[str, float | str]
    """Numbers, or words such as the stage of a search, by identifier: `{"rho": 1e-3, "edges": 12}`.

    `feddag.drawing.figures` knows headings and number formats of identifiers.
    """
    seconds: float
    """Spent so far, by this site if it learns alone."""
    seconds_left: float | None = None
    """An estimate, from learners that have one."""


Progress = Callable[[Status], None]
"""Called after every round. What it raises ends the fit."""
