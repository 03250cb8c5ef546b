"""The command line. Each command has a file of its own name, which is imported when the command is called."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from feddag.cli.commands import Commands, overview

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Learn one causal graph from many private tables: only sums leave a site.",
    epilog="Start with: feddag demo",
)
overview(app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"feddag {version('feddag')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command that the arguments name."""
    for stream in (sys.stdout, sys.stderr):
        # an arrow that the terminal cannot show is no reason to fail
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    app()
