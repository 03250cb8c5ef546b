from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddag.cli.monitoring import Health, LogFormatOption, Systemd, service_options, watching
from feddag.deployment.engines import engine
from feddag.deployment.logs import speaker
from feddag.deployment.service import systemd_unit


def server(
    *,
    kit: Annotated[Path, typer.Option(metavar="KIT", help="The server's kit.", show_default=False)],
    health: Health = None,
    log_format: LogFormatOption = "text",
    systemd: Systemd = False,
) -> None:
    """Waits for sites and for the analyst, and carries their sums. It sees no row and, where sums are protected, no
    site's own numbers. Stop it with Ctrl-C; started again, it goes on with a study where it stood.

    Example: feddag server --kit kits/server
    """
    opened = engine().open_server(kit)
    if systemd:
        typer.echo(systemd_unit(opened, "server", service_options(kit, health, log_format)), nl=False)
        return
    study = opened.study()
    followed = watching(health, log_format)
    speaker(log_format)(
        f"Server of the study {study.name!r} ({study.digest[:12]}…) for {len(study.sites)} sites. Ctrl-C ends it."
    )
    raise typer.Exit(opened.run(followed))
