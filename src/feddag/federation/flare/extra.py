"""Finds FLARE, which is an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from feddag.errors import FeddagError


def flare(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise FeddagError(
            f"A federation on a network needs NVIDIA FLARE ({error.name} is not installed). "
            "Install it with: pip install 'feddag[flare]'"
        ) from None
