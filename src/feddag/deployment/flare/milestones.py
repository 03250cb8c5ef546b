"""Who has joined a server: FLARE logs it in a file, and the operator wants to see it in the terminal."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

from feddag.deployment.flare.environment import KIT
from feddag.deployment.flare.kits import MEMORY
from feddag.files import atomic_write

_JOINED = "joined.json"
_CAME = re.compile(r"Client: New client (\S+)@\S* joined")
_WENT = re.compile(r"Remove the dead Client\. Name: (\S+?)\.\s")

_log = logging.getLogger("feddag.federation")


class Milestones(logging.Handler):
    """Watches FLARE's messages in the server's daemon for sites that come and go."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of a site that has come or gone, and keep who is there in the kit."""
        if record.name.startswith("feddag"):
            return
        text = record.getMessage()
        for pattern, here in ((_CAME, True), (_WENT, False)):
            if match := pattern.search(text):
                self._keep(match[1], here)

    def _keep(self, site: str, here: bool) -> None:
        folder = Path(os.environ[KIT])
        joined = {**read_joined(folder), site: here}
        try:
            with atomic_write(folder / MEMORY / _JOINED) as stream:
                json.dump(joined, stream)
        except OSError as error:
            _log.error("%s cannot be written: %s", folder / MEMORY / _JOINED, error.strerror)
        there = sum(joined.values())
        _log.info("%s %s (%s connected)", site, "has joined" if here else "is not connected any more", there)


def read_joined(folder: Path) -> dict[str, bool]:
    """Return the sites that a server's kit has seen, and whether each is connected."""
    try:
        return json.loads((folder / MEMORY / _JOINED).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}


def forget_joined(folder: Path) -> None:
    """Forget who was connected: a server that starts has nobody yet."""
    (folder / MEMORY / _JOINED).unlink(missing_ok=True)
