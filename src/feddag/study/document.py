"""The file of a study as tables and keys: every refusal names file, key, value and remedy."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feddag import constraints
from feddag.errors import FeddagError, suggestion
from feddag.learners.knowledge import CONSTRAINTS as KNOWLEDGE
from feddag.silos.preparation import CONSTRAINTS as PREPARATION

NAME = constraints.Constraint(
    "a name of lower-case letters, digits and hyphens",
    lambda value: isinstance(value, str) and re.fullmatch(r"[a-z0-9-]+", value) is not None,
)
TEXT = constraints.Constraint("a text", lambda value: isinstance(value, str) and value != "")
TABLE = constraints.Constraint("a table", lambda value: isinstance(value, dict))
GRID = constraints.Constraint(
    "a table of parameters, each with a list of values to try, such as { l1 = [0.01, 0.1] }",
    lambda value: isinstance(value, dict) and all(isinstance(each, list) and each for each in value.values()),
)
DIGEST = constraints.Constraint(
    "the digest of a study, 64 hexadecimal digits as of: feddag study check",
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None,
)
IDENTITY = constraints.Constraint(
    "an Ed25519 public key of 64 hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None,
)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file, or JSON in a file of that ending."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FeddagError(f"{path} does not exist. Check the path, or write one with: feddag study init") from None
    except UnicodeDecodeError as error:
        raise FeddagError(f"{path} is not in UTF-8 ({error.reason} at byte {error.start}). Convert it.") from None
    return parse_text(text, str(path))


def parse_text(text: str, source: str) -> dict[str, Any]:
    """Parse the text of a file; `source` names it in errors."""
    try:
        return json.loads(text) if source.endswith(".json") else tomllib.loads(text)
    except json.JSONDecodeError as error:
        raise FeddagError(f"{source} is no JSON: {error}. Restore it from a copy.") from None
    except tomllib.TOMLDecodeError as error:
        raise FeddagError(f"{source} is not TOML: {error}. Mend that place.") from None


_REQUIRED = object()
TABLES = {
    "study": (
        *("name", "attempt", "variables", "method", "data", "knowledge", "sites", "federation", "privacy", "trust"),
        "follows",
    ),
    "variable": ("type", "levels", "merge", "unit", "missing", "label", "range", "transform"),
    "method": ("name", "regime", "parameters"),
    "data": tuple(PREPARATION),
    "knowledge": tuple(KNOWLEDGE),
    "site": ("columns", "identity", "intervened", "targets", "changed"),
    "federation": ("quorum", "timeout", "minimum_sites", "maximum_rows"),
    "privacy": ("secure_sum", "differential", "rows"),
    "trust": ("assess", "bootstraps", "leave_one_out", "mechanisms", "effects", "grid", "tables"),
    "differential": ("epsilon", "delta", "clip", "rounds"),
    "rows": ("epsilon", "delta", "rows_per_person", "expected_rows"),
}
"""The keys of each table whose keys are not names that the user gives."""


class Table:
    """A table of the file. Unless its keys are names that the user chooses, unknown keys are refused."""

    def __init__(self, source: str, path: str, content: Mapping[str, Any], known: Sequence[str] | None = None) -> None:
        self.source = source
        self.path = path
        self._content = content
        for key in content:
            if known is not None and key not in known:
                raise FeddagError(
                    f"{self.where(key)} is not known. There are {', '.join(known)}.{suggestion(key, known)}"
                )

    def where(self, key: str) -> str:
        """Name a key in errors."""
        return f"{self.source}: {self.path}{key}"

    def take(self, key: str, constraint: constraints.Constraint, default: Any = _REQUIRED) -> Any:
        """Return the value of a key once it is checked, or the default."""
        if key not in self._content:
            if default is _REQUIRED:
                raise FeddagError(f"{self.where(key)} is missing. Give {constraint.wording}.")
            return default
        value = self._content[key]
        if not constraint.accepts(value):
            raise constraints.refusal(self.where(key), constraint.wording, value)
        return value

    def table(self, key: str, known: str | None = None, *, required: bool = False) -> Table:
        """Return the table of that name; its keys are those of its own name in `TABLES`, or of `known`."""
        content = self.take(key, TABLE, _REQUIRED if required else {})
        return Table(self.source, f"{self.path}{key}.", content, TABLES.get(known or key))

    def all(self, constraints: Mapping[str, constraints.Constraint]) -> dict[str, Any]:
        """Return the values of those keys that the table has."""
        values = {key: self.take(key, constraint, None) for key, constraint in constraints.items()}
        return {key: value for key, value in values.items() if value is not None}

    def names(self) -> list[str]:
        """Return the keys of a table whose keys are names, sorted."""
        names = sorted(self._content)
        if "" in names:
            raise FeddagError(f"{self.source}: {self.path} has a key without a name. Name it.")
        return names


def without_none(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content without keys whose value is `None`."""
    return {key: value for key, value in content.items() if value is not None}
