"""Headings, chart titles and number formats of the figures that learners report, by identifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from feddag.drawing.formats import format_size, format_value, heading


@dataclass(frozen=True)
class Figure:
    """How one figure is shown."""

    heading: str
    """Above a column, or before the number."""
    title: str
    """Above a chart of its course."""
    format: Callable[[float], str] = format_value

    @property
    def in_bytes(self) -> bool:
        """Whether the figure counts bytes."""
        return self.format is format_size


def _four_digits(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


FIGURES = {
    "h": Figure("h", "h, the distance from a DAG"),
    "rho": Figure("ρ", "ρ, the weight of acyclicity"),
    "alpha": Figure("α", "α, the multiplier"),
    "loss": Figure("loss", "Loss of each site"),
    "fit": Figure("misfit", "Misfit of each site"),
    "edges": Figure("edges", "Edges"),
    "score": Figure("score", "Score of the best graph (lower is better)", _four_digits),
    "families": Figure("families scored", "Families scored"),
    "sub_problem": Figure("sub-problem", "Sub-problem"),
    "replicates": Figure("of", "Replicates"),
    "combinations": Figure("of", "Combinations"),
    "l1_distance": Figure("ℓ1 between sites", "Distance between the sites' graphs (ℓ1)"),
    "shd_distance": Figure("SHD between sites", "Distance between the sites' graphs (SHD)"),
    "bytes_sent": Figure("sent", "Sent by all sites so far", format_size),
    "bytes_received": Figure("received", "Received by all sites so far", format_size),
}


def find_figure(identifier: str) -> Figure:
    """Return how a figure is shown; one without an entry, such as a plug-in's own, is shown by its identifier."""
    words = heading(identifier)
    return FIGURES.get(identifier) or Figure(words, words)


def format_figure(identifier: str, value: float | str) -> str:
    """Format a figure's value. Words, such as the stage of a search, stay as they are."""
    return value if isinstance(value, str) else find_figure(identifier).format(value)
