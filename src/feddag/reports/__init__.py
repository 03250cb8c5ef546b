"""What a finished run has to show: a page, a text, or plots; and the page of a run that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feddag.lazy import names_from

if TYPE_CHECKING:
    from feddag.reports.writing import ReportFormat, write_report

__all__ = ["ReportFormat", "write_report"]

__getattr__ = names_from({"feddag.reports.writing": ("ReportFormat", "write_report")}, __name__)
