"""One attempt at one round: what every secret and every message of it is tied to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feddag.errors import FeddagError
from feddag.federation.secure.messages import Message


@dataclass(frozen=True)
class Attempt:
    """A session, a round in it, and how often it has been tried."""

    session: bytes
    round: int
    attempt: int

    @staticmethod
    def of(message: Message) -> Attempt:
        return Attempt(message["session"], message["round"], message["attempt"])

    def message(self, kind: str, **content: Any) -> Message:
        return {"kind": kind, "session": self.session, "round": self.round, "attempt": self.attempt, **content}

    def expect(self, message: Message, sender: str) -> None:
        """Refuse a message of another attempt, such as an old one sent again."""
        if (found := Attempt.of(message)) != self:
            where = "another session" if found.session != self.session else f"{found}"
            raise FeddagError(f"{sender} sent a message '{message['kind']}' of {where}, but {self} is under way.")

    def __str__(self) -> str:
        return f"round {self.round}, attempt {self.attempt}"
