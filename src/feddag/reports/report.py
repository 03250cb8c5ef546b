"""Write the report of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, get_args

from feddag.errors import FeddagError
from feddag.files import atomic_write
from feddag.reports.html import render_html
from feddag.reports.markdown import render_markdown
from feddag.reports.model import build_report
from feddag.reports.pdf import print_pdf
from feddag.runs import Run

ReportFormat = Literal["html", "md", "pdf"]


def write_report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    format: ReportFormat | None = None,  # noqa: A002
) -> Path:
    """Write the report of a finished run, and return its path.

    Args:
        run: The run's folder.
        out: The file; report.html (.md, .pdf) in the run's folder unless given.
        format: By the ending of `out` unless given, else HTML.
    """
    format = format or _format_of(out)  # noqa: A001
    path = Path(run) / f"report.{format}" if out is None else Path(out)
    if path.is_dir():
        raise FeddagError(f"{path} is a folder. Name a file for the report.")
    report = build_report(Run.open(run))
    if format == "pdf":
        content = print_pdf(render_html(report))
    else:
        content = (render_html(report) if format == "html" else render_markdown(report)).encode()
    with atomic_write(path, "wb") as stream:
        stream.write(content)
    return path


def _format_of(out: str | os.PathLike[str] | None) -> ReportFormat:
    if out is None:
        return "html"
    ending = Path(out).suffix.removeprefix(".").lower()
    if ending == "htm":
        return "html"
    for known in get_args(ReportFormat):
        if ending == known:
            return known
    raise FeddagError(f"{out}: no format has this ending. Choose one with --format html, md or pdf.")
