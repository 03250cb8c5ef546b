"""Ctrl-C, or SIGTERM, during a run: stop after the current round, so that nothing learned is lost."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any, ClassVar, Self

from rich.console import Console

EXIT_CODE = 130
"""What a shell reports for a program that Ctrl-C ended."""


class Interruption:
    """While the context lasts, a first signal is kept for `raise_if_requested`; a second ends the process."""

    signals: ClassVar = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, console: Console) -> None:
        self._console = console
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for each in self.signals:
            self._before[each] = signal.signal(each, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    @property
    def notice(self) -> str:
        """For the progress display: a signal handler itself must not write to a stream that may be in use."""
        return "Stopping after this round (Ctrl-C: now)." if self._requested else ""

    def raise_if_requested(self) -> None:
        """Raise `KeyboardInterrupt` if the user asked to stop."""
        if self._requested:
            raise KeyboardInterrupt

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._requested:
            self._console.show_cursor()
            os._exit(EXIT_CODE)
        self._requested = True


class InterruptionAtOnce(Interruption):
    """Ctrl-C raises at once, as ever; and, should a library swallow that, at the next `raise_if_requested`."""

    signals: ClassVar = (signal.SIGINT,)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._requested = True
        raise KeyboardInterrupt


class TerminationAtOnce(InterruptionAtOnce):
    """As `InterruptionAtOnce`, for SIGTERM as well."""

    signals: ClassVar = (signal.SIGINT, signal.SIGTERM)
