"""Import a package's names when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_from(homes: Mapping[str, tuple[str, ...]], package: str) -> Callable[[str], Any]:
    """Make a package's `__getattr__`, which imports each name from the module that is its home."""

    def attribute(name: str) -> Any:
        for home, names in homes.items():
            if name in names:
                return getattr(import_module(home), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
