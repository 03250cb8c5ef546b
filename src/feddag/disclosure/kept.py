"""Figures that a site keeps beside its study: they hold as long as the study and the table are the same."""

from __future__ import annotations

from pathlib import Path

from feddag.disclosure.figures import Disclosure
from feddag.errors import FeddagError
from feddag.files import atomic_write
from feddag.silos import Silo
from feddag.study import Study

FILE = "disclosure.json"
"""In a site's memory of a study, and in the folder of a run."""


def keep(folder: Path, found: Disclosure) -> None:
    """Keep figures in a folder."""
    with atomic_write(folder / FILE) as stream:
        stream.write(found.to_json())


def kept(folder: Path) -> Disclosure | None:
    """Return the figures that a folder keeps; `None` where it keeps none."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return Disclosure.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FeddagError(f"{path}: {error}") from None


def kept_for(folder: Path, study: Study, silo: Silo) -> Disclosure | None:
    """Return the figures that a folder keeps of this study and this table; `None` where it keeps none."""
    found = kept(folder)
    same = found is not None and (found.study, found.table) == (study.digest, silo.digest())
    return found if same else None
