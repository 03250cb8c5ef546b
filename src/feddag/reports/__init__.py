"""The report of a finished run as HTML, Markdown or PDF, and the live page of a run that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feddag.lazy import names_from

if TYPE_CHECKING:
    from feddag.reports.report import ReportFormat, write_report

__all__ = ["ReportFormat", "write_report"]

__getattr__ = names_from({"feddag.reports.report": ("ReportFormat", "write_report")}, __name__)
