from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddag.reports import ReportFormat, write_report


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it.", show_default="report.html in RUN")
    ] = None,
    format: Annotated[  # noqa: A002 - the word every reader expects here
        ReportFormat | None,
        typer.Option(
            help="A page for browsers, Markdown, or PDF, for which Chromium or Chrome must be on this machine. By the "
            "ending of FILE unless given.",
            show_default="html",
        ),
    ] = None,
) -> None:
    """The page holds the drawn graph, how sure each edge is, how far to trust it and what it does not mean, the course
    of the fit, and how to learn it again. It is one file, works without a network, and holds nothing of single rows.

    Example: feddag report run --out report.html
    """
    typer.echo(f"Written: {write_report(run, out, format)}")
