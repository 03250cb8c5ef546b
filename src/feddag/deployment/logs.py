"""What a participant's terminal shows: lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

LogFormat = Literal["text", "json"]


class JsonFormatter(logging.Formatter):
    """Formats a record of Python's logging as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        failure = {"traceback": self.formatException(record.exc_info)} if record.exc_info else {}
        when = datetime.fromtimestamp(record.created, UTC)
        return _line(record.levelname.lower(), record.getMessage(), when, **failure)


def speaker(log_format: LogFormat) -> Callable[[str], None]:
    """Return a function that prints a message, in the chosen format."""
    if log_format == "text":
        return lambda message: print(message, flush=True)
    return lambda message: print(_line("info", message, datetime.now(UTC)), flush=True)


def _line(level: str, message: str, when: datetime, **more: str) -> str:
    document = {"time": when.isoformat(timespec="milliseconds"), "level": level, "message": message, **more}
    return json.dumps(document, ensure_ascii=False)
