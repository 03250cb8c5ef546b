"""Ctrl-C, or SIGTERM, during a run: stop after the current round, so that nothing learned is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console

EXIT_CODE = 130
"""What a shell reports for a program that Ctrl-C ended."""


@contextmanager
def interrupted_at_once() -> Iterator[Callable[[], None]]:
    """While it lasts, Ctrl-C raises at once, as ever; and, should a library swallow that, when what it yields is called
    next."""
    requested = False

    def note(signum: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        raise KeyboardInterrupt

    def raise_if_requested() -> None:
        if requested:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield raise_if_requested
    finally:
        signal.signal(signal.SIGINT, before)


class Interruption:
    """While the context lasts, a first signal is kept for `raise_if_requested`; a second ends the process."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        for each in (signal.SIGINT, signal.SIGTERM):
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
