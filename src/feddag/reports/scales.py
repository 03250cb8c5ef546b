"""From how much speaks for an edge to how wide it is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

_SPAN_OF_A_LINEAR_SCALE = 20.0


def strength(values: Sequence[float], *, shares: bool = False) -> list[float]:
    """From 0 to 1: shares as they are, others by the largest, or by order of magnitude where they span some."""
    if shares:
        return [min(max(value, 0.0), 1.0) for value in values]
    positive = [value for value in values if value > 0]
    if not positive:
        return [0.5] * len(values)
    least, most = min(positive), max(positive)
    if most == least == min(values):
        return [0.5] * len(values)
    if most / least <= _SPAN_OF_A_LINEAR_SCALE:
        return [max(value, 0.0) / most for value in values]
    span = math.log(most / least)
    return [0.1 + 0.9 * math.log(value / least) / span if value > 0 else 0.0 for value in values]


def line_width(strength: float) -> float:
    return 1.2 + 3.8 * strength
