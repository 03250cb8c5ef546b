from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from feddag.cli.interruption import EXIT_CODE
from feddag.cli.progress import shown_progress
from feddag.cli.tables import show_edges, stdout
from feddag.errors import FeddagError
from feddag.runs import Run, follow, load, resume_command

STOPPED = 3
"""The exit code for a run that nobody is at work on, though it has not finished."""


def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)],
    *,
    web: Annotated[bool, typer.Option("--web", help="In the browser instead, at an address of this machine.")] = False,
    port: Annotated[int | None, typer.Option(help="For --web.", show_default="any that is free")] = None,
) -> None:
    """Shows what feddag learn, in another window, is doing; ends with the run, and then shows its edges. A run that has
    stopped before its end gives exit code 3. The page of --web becomes the report when the run has finished; Ctrl-C
    ends it. Only programs on this machine can see it.

    Example: feddag watch run

    Example: feddag watch run --web
    """
    if port is not None and not web:
        raise FeddagError("--port is for --web. Add --web, or leave it out.")
    try:
        if web:
            _serve(run, port or 0)
        else:
            _show(run)
    except KeyboardInterrupt:  # whoever watches may go; the run goes on
        raise typer.Exit(0 if web else EXIT_CODE) from None


def _show(run: Path) -> None:
    with shown_progress(Console(stderr=True, highlight=False), quiet=False, notice=lambda: "") as show:
        for status in follow(run):
            show(status)
    if not Run.open(run).finished:
        typer.echo(f"The run has stopped before its end. Go on with: {resume_command(run)}", err=True)
        raise typer.Exit(STOPPED)
    learned, console = load(run), stdout()
    edges, variables = learned.graph_.edge_count, len(learned.graph_.names)
    console.print(f"Finished: {edges} edges among {variables} variables:")
    show_edges(console, learned)


def _serve(run: Path, port: int) -> None:
    from feddag.reports.web import live_server  # noqa: PLC0415 - only --web needs it

    with live_server(run, port) as server:
        host, its_port = server.server_address[:2]
        typer.echo(f"Watch it at http://{host}:{its_port}/ (Ctrl-C ends this)")
        server.serve_forever()
