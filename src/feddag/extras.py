"""Import packages that come with an extra of feddag, so that the core stays light."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from feddag.errors import FeddagError


def install_command(extra: str) -> str:
    """Return the command that installs an extra, from a clone and from a wheel: feddag is in no index."""
    wheel = f"feddag-{version('feddag')}-py3-none-any.whl"
    return f"pip install '.[{extra}]' in a clone of feddag, or pip install '{wheel}[{extra}]' beside its wheel"


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
