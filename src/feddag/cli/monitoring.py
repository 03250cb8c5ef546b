"""Options by which operators and monitors follow a server or a site."""

from __future__ import annotations

from typing import Annotated

import typer

from feddag.deployment.engine import Watching
from feddag.deployment.health import parse_address
from feddag.deployment.logs import LogFormat

Health = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Answer /health and /metrics (Prometheus) here: a port on loopback, or HOST:PORT.",
        show_default=False,
    ),
]
LogFormatOption = Annotated[LogFormat, typer.Option(help="Lines for people, or a JSON object per line.")]


def watching(health: str | None, log_format: LogFormat) -> Watching:
    """Return what the two options say."""
    return Watching(log_format, None if health is None else parse_address(health))
