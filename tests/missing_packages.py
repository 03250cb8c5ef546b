"""Python processes that find some packages not installed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_BLOCK = """\
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])


sys.meta_path.insert(0, Missing())
"""


def paths_without(folder: Path, packages: Iterable[str]) -> str:
    """Return a `PYTHONPATH` with which a process finds none of the packages; `folder` gets what does so."""
    (folder / "sitecustomize.py").write_text(_BLOCK.format(packages=tuple(packages)))
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
