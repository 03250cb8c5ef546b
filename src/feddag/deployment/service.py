"""A participant as a service of systemd: the unit file, with no more rights than the participant needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.resources import files

from feddag.deployment.engine import Kit
from feddag.deployment.site import tables_folder
from feddag.errors import FeddagError


def systemd_unit(kit: Kit, role: str, options: Sequence[str]) -> str:
    """Return the text of a unit that runs `feddag server` or `feddag site` with these options.

    Args:
        kit: The participant's kit; the unit runs as its owner.
        role: `server` or `site`.
        options: Those of the command, without `--systemd`. Paths must be absolute: a unit starts at the root.
    """
    state = tables_folder().parent
    unit = f"feddag-{role}" if role == "server" else f"feddag-{role}-{kit.name}"
    writes = [kit.folder.absolute(), *([] if role == "server" else [f"-{state}"])]  # "-": it need not be there yet
    settings = {"FEDDAG_STATE": state, "XDG_CACHE_HOME": f"/var/cache/{unit}", "PYTHONUNBUFFERED": 1}
    template = (files("feddag.deployment") / "units" / "feddag.service").read_text(encoding="utf-8")
    return template.format(
        unit=unit,
        description=f"feddag {role} {kit.name}",
        user=_owner(kit),
        command=" ".join(map(_quoted, (sys.executable, "-m", "feddag", role, *options))),
        environment=" ".join(_quoted(f"{name}={value}") for name, value in settings.items()),
        writes=" ".join(_quoted(str(path)) for path in writes),
    )


def absolute(source: str) -> str:
    """Return a table's place as it is known from everywhere; the address of a database stays."""
    if "://" not in source:
        return os.path.abspath(source)
    if "@" in source and ":" in source.split("://", 1)[1].split("@", 1)[0]:
        raise FeddagError(
            "The table's address has a password, and a unit file is no place for one: others can read it. Put it into "
            "the owner's ~/.pgpass, and leave it out of --data."
        )
    return source


def _owner(kit: Kit) -> str:
    try:
        return kit.folder.owner()
    except (KeyError, NotImplementedError):  # a user without a name, or a system without users
        return str(kit.folder.stat().st_uid)


def _quoted(word: str) -> str:
    """Quote a word as systemd reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if escaped and not any(mark in escaped for mark in " '\"\t;") else f'"{escaped}"'
