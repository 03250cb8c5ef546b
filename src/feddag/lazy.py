"""Packages whose names are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_from(homes: Mapping[str, tuple[str, ...]], package: str) -> Callable[[str], Any]:
    """A package's `__getattr__`: each name comes from the module that is its home."""

    def attribute(name: str) -> Any:
        for home, names in homes.items():
            if name in names:
                return getattr(import_module(home), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
