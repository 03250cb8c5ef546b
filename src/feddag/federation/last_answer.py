"""What a site remembers of the last task that it has answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.checkpoint import load_checkpoint
from feddag.federation.protocol import Arrays
from feddag.federation.rosters import Split
from feddag.silos import Silo

STATE = "site.npz"
"""The file of it, in what a site remembers of a study."""


@dataclass
class LastAnswer:
    """What a site remembers of the last task, and what it must have been before."""

    round: int = -1
    name: str = ""
    question: str = ""
    """The digest of what was asked and of all sums before it, in hexadecimal."""
    answered: int = 0
    split: Split | None = None
    """The groups of sites, if the answer is about one of them alone."""
    before: Arrays = field(default_factory=dict)
    after: Arrays = field(default_factory=dict)
    answer: bytes = b""

    def document(self) -> dict[str, Any]:
        """Return what is no array."""
        return {
            "round": self.round,
            "name": self.name,
            "question": self.question,
            "answered": self.answered,
            "split": self.split,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the rest, with the answer as bytes."""
        answer = np.frombuffer(self.answer, dtype=np.uint8)
        return {"answer": answer, **prefixed("before", self.before), **prefixed("after", self.after)}

    @classmethod
    def of(cls, document: Mapping[str, Any], arrays: Arrays) -> LastAnswer:
        """Take up what `document` and `arrays` returned."""
        split = document.get("split")
        return cls(
            **{**document, "split": split and Split(split[0], (split[1][0], split[1][1]))},
            answer=arrays["answer"].tobytes(),
            before=under("before", arrays),
            after=under("after", arrays),
        )


def read_last_answer(folder: Path, silo: Silo, study: str) -> LastAnswer | None:
    """Return what a site remembers of a study that has begun; refuse another table than that which it began with."""
    path = folder / STATE
    if not path.exists():
        return None
    document, arrays = load_checkpoint(path)
    if document.pop("data") != silo.digest():
        raise FeddagError(
            f"Site {silo.name!r}: the data have changed since the study began. Restore them; or, if they changed on "
            f'purpose, have all agree on a study with the line: follows = "{study}"'
        )
    return LastAnswer.of(document, arrays)
