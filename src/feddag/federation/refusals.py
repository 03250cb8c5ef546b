"""Why a site does not do what it is asked, in the few words that leave it.

What a server hears of a refusal is one of these reasons and nothing else: no number, no name of a column, nothing that
depends on the site's rows. The site's own terminal and log have the whole message.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path

from feddag.errors import FeddagError
from feddag.files import atomic_write


class Refusal(Enum):
    """A reason, and what it means to whoever runs the server."""

    STUDY = (
        "study",
        "it has not agreed to this study. Give all participants the same study file, or have it accept this one there: "
        "feddag kit accept",
    )
    COURSE = "course", "the sums that it was shown are not those of the sites. Look into the server"
    QUESTION = (
        "question",
        "the study's method would not ask this now. Use one version of feddag everywhere, and look into the server",
    )
    ROSTER = (
        "roster",
        "the sum would be of other sites than is allowed. Wait until all sites of earlier sums are there",
    )
    PROTOCOL = "protocol", "a message was not as it must be, or not signed by the one it names. Look into the network"
    DECLINED = "declined", "its own log says why"

    def __init__(self, word: str, meaning: str) -> None:
        self.word = word
        self.meaning = meaning

    @classmethod
    def of(cls, word: object) -> Refusal:
        """Return the reason of that word; one that is not known says nothing."""
        return next((each for each in cls if each.word == word), cls.DECLINED)


class RefusedError(FeddagError):
    """A refusal: its message stays at the site, its reason may leave."""

    def __init__(self, reason: Refusal, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class RefusalCount:
    """How often a site has refused in a study: who asks again and again is not answered any more."""

    def __init__(self, path: Path) -> None:
        """Read the count from a file, or begin."""
        self._path = path
        try:
            self.count = int(json.loads(path.read_bytes())) if path.exists() else 0
        except (TypeError, ValueError):
            raise FeddagError(f"{path} does not say how often this site has refused. Restore it from a copy.") from None

    def check(self, site: str, most: int) -> None:
        """Refuse everything once there were so many refusals."""
        if self.count >= most:
            raise FeddagError(
                f"Site {site!r} has refused {self.count} requests in this study and answers nothing more. See its log "
                "for the reasons; then begin a new study."
            )

    def add(self) -> None:
        """Count one more, on the disk."""
        self.count += 1
        with atomic_write(self._path) as stream:
            json.dump(self.count, stream)
