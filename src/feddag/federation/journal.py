"""What a participant keeps of a study's course: every step and every decision, so that it can be killed and resumed.

A learner is a function of its parameters, of the sums, and of what it decided otherwise, such as by the clock. Resumed,
it begins anew and finds both here, until it asks for what was never answered: no site works on a round twice.

A site promises to enter one sum of a round and no other. So the server keeps the members of a sum before it asks them
for that promise: killed before it has the sum, it asks for the same one again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from feddag.errors import FeddagError
from feddag.federation.checkpoint import not_kept
from feddag.federation.secure.messages import from_text, to_text
from feddag.federation.steps import Step
from feddag.files import atomic_write

_DECISIONS, _MEMBERS = "decisions.json", "members.json"


@dataclass(frozen=True)
class Entry:
    """One round, and what its messages took."""

    step: Step
    sent: Mapping[str, int] = field(default_factory=dict)
    """Bytes, by site; likewise what each received."""
    received: Mapping[str, int] = field(default_factory=dict)


class Journal:
    """The rounds of one study, each a file in a folder, and its decisions."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        count = 0
        while self.path(count).exists():
            count += 1
        return count

    @property
    def seconds(self) -> float | None:
        """The time between the first and the last round that were written; `None` before the second."""
        rounds = len(self)
        if rounds < 2:
            return None
        first, last = (self.path(round_).stat().st_mtime for round_ in (0, rounds - 1))
        return last - first

    def read(self, round_: int) -> Entry | None:
        """Return a round, if it is there."""
        path = self.path(round_)
        if not path.exists():
            return None
        try:
            content = from_text(path.read_text())
            return Entry(Step.of(content["step"]), content["sent"], content["received"])
        except (KeyError, TypeError, ValueError, FeddagError):
            raise FeddagError(f"{path} is no round of a study. Restore it, or start the study anew.") from None

    def write(self, round_: int, entry: Entry) -> None:
        """Keep a round."""
        content = {"step": entry.step.message(), "sent": dict(entry.sent), "received": dict(entry.received)}
        try:
            with atomic_write(self.path(round_)) as stream:
                stream.write(to_text(content))
        except OSError as error:
            raise not_kept(self._folder, error) from None

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        """Return what was answered to a question, or answer it now and keep that before it is acted on."""
        path = self._folder / _DECISIONS
        decisions: dict[str, bool] = json.loads(path.read_text()) if path.exists() else {}
        if question not in decisions:
            decisions[question] = answer()
            try:
                with atomic_write(path) as stream:
                    json.dump(decisions, stream)
            except OSError as error:
                raise not_kept(self._folder, error) from None
        return decisions[question]

    def members(self, round_: int) -> tuple[str, ...]:
        """Return the sites that a round's sum must hold, since some of them may have promised it; empty if none has."""
        path = self._folder / _MEMBERS
        if not path.exists():
            return ()
        try:
            content = json.loads(path.read_text())
            return tuple(map(str, content["members"])) if content["round"] == round_ else ()
        except (KeyError, TypeError, ValueError):
            raise FeddagError(f"{path} names no sites of a sum. Restore it, or start the study anew.") from None

    def settle(self, round_: int, members: Sequence[str]) -> None:
        """Keep the sites that a round's sum must hold before any of them promises so; no sites take that back."""
        try:
            with atomic_write(self._folder / _MEMBERS) as stream:
                json.dump({"round": round_, "members": list(members)}, stream)
        except OSError as error:
            raise not_kept(self._folder, error) from None

    def path(self, round_: int) -> Path:
        """Return the file of a round."""
        return self._folder / f"{round_:06}.json"
