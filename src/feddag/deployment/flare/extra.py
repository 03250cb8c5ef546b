"""Finds FLARE, which is an extra."""

from __future__ import annotations

from typing import Any

from feddag.extras import imported


def flare(module: str) -> Any:
    """Import a module of FLARE, or say which extra installs it."""
    return imported(module, "flare", "A federation on a network needs NVIDIA FLARE")
