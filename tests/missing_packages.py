"""Python processes that find some packages not installed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_BLOCK = """\
import importlib.metadata as metadata
import sys

PACKAGES = {packages!r}


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in PACKAGES:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])


def distribution(name, find=metadata.distribution):
    if name in PACKAGES:
        raise metadata.PackageNotFoundError(name)
    return find(name)


sys.meta_path.insert(0, Missing())
metadata.distribution = distribution
"""


def paths_without(folder: Path, packages: Iterable[str]) -> str:
    """Return a `PYTHONPATH` with which a process finds none of the packages; `folder` gets what does so."""
    (folder / "sitecustomize.py").write_text(_BLOCK.format(packages=tuple(packages)))
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
