"""What a participant's terminal shows: lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Literal

from feddag.files import NO_ROOM

LogFormat = Literal["text", "json"]


class _Silent(logging.Handler):
    """Drops what cannot be written: Python would print a traceback for every line that a full disk refuses."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of its base
        """Drop the record."""


class Terminal(_Silent, logging.StreamHandler):
    """Prints records."""


class LogFile(_Silent, RotatingFileHandler):
    """Writes records into a file, and begins a new one when it is large."""


class JsonFormatter(logging.Formatter):
    """Formats a record of Python's logging as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        failure = {"traceback": self.formatException(record.exc_info)} if record.exc_info else {}
        when = datetime.fromtimestamp(record.created, UTC)
        return _line(record.levelname.lower(), record.getMessage(), when, **failure)


def speaker(log_format: LogFormat) -> Callable[[str], None]:
    """Return a function that prints a message, in the chosen format, if there is room for it."""

    def say(message: str) -> None:
        text = message if log_format == "text" else _line("info", message, datetime.now(UTC))
        try:
            print(text, flush=True)
        except OSError as error:
            if error.errno not in NO_ROOM:  # a participant does not end because nobody can read it
                raise

    return say


def _line(level: str, message: str, when: datetime, **more: str) -> str:
    document = {"time": when.isoformat(timespec="milliseconds"), "level": level, "message": message, **more}
    return json.dumps(document, ensure_ascii=False)
