"""Parameters on the command line by name and value, where they belong to no command in particular."""

from __future__ import annotations

from typing import Any

from feddag.cli.options import number
from feddag.errors import FeddagError

_WORDS = {"none": None, "true": True, "false": False}


def grid(texts: list[str], *, example: str = "l1=0.01,0.1") -> dict[str, list[Any]]:
    """Parse texts such as the example; each value once."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name.strip() and equals and values.strip()):
            raise FeddagError(f"{text!r} is no parameter with its values. Write it such as {example}.")
        name = name.strip().replace("-", "_")
        if name in found:
            raise FeddagError(f"{name!r} is given twice. Put all its values in one place, such as {example}.")
        read = [value(each) for each in values.split(",")]
        found[name] = [*{(type(each), each): each for each in read}.values()]  # 1 site is not 1.0, the share of all
    return found


def assignments(texts: list[str]) -> dict[str, Any]:
    """Parse texts such as l1=0.01."""
    found = grid(texts, example="l1=0.01")
    for name, values in found.items():
        if len(values) > 1:
            raise FeddagError(f"{name!r} has {len(values)} values here. Give one.")
    return {name: values[0] for name, values in found.items()}


def value(text: str) -> Any:
    """Parse a number, None, True or False; return any other text as it is."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return number(text)
    except ValueError:
        return text
