"""HTML and SVG in which every string is escaped, unless it was made here."""

from __future__ import annotations

import json
from html import escape
from typing import Any


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: Any) -> Markup:
    """An element. `class_` and `data_x` stand for class and data-x; an attribute that is None is left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{shown}>{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def json_script(identity: str, data: Any) -> Markup:
    """Data for the page's program. No string in it can end the element, or begin another."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{identity}">{text}</script>')


def _attribute(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value))
