"""SVG elements in which every string is escaped."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape


def element(name: str, *children: str, **attributes: Any) -> Markup:
    """Make an element. `class_` and `data_x` stand for class and data-x; an attribute that is None is left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{shown}>{Markup().join(children)}</{name}>")


def _attribute(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value))
