"""Import packages that come with an extra of feddag, so that the core stays light."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from feddag.errors import FeddagError


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'feddag[{extra}]'"


def imported(module: str, extra: str, needs: str) -> Any:
    """Import a module of an extra.

    Args:
        module: The module's name.
        extra: The extra that brings it.
        needs: What needs it, for the error where it is missing.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise FeddagError(
            f"{needs} ({error.name or module} is not installed). Install it with: {install_command(extra)}"
        ) from None
