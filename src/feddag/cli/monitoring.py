"""Options by which operators and monitors follow a server or a site."""

from __future__ import annotations

from pathlib import Path
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
Systemd = Annotated[
    bool, typer.Option("--systemd", help="Print a unit file for systemd with these options, and do nothing else.")
]


def service_options(kit: Path, health: str | None, log_format: LogFormat) -> list[str]:
    """Return the options that servers and sites have in common, for a unit file."""
    given = ["--kit", str(kit.absolute()), *([] if health is None else ["--health", health])]
    return [*given, *([] if log_format == "text" else ["--log-format", log_format])]


def watching(health: str | None, log_format: LogFormat) -> Watching:
    """Return what the two options say."""
    return Watching(log_format, None if health is None else parse_address(health))
