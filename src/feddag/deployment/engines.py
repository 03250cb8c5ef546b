"""Which engine carries the studies of this installation."""

from __future__ import annotations

from feddag.deployment.engine import Engine
from feddag.deployment.flare.engine import FlareEngine


def engine() -> Engine:
    """Return NVIDIA FLARE's engine; without `feddag[flare]`, what needs FLARE says so."""
    return FlareEngine()
