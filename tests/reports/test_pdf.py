from __future__ import annotations

import pytest

from feddag import FeddagError
from feddag.reports import pdf, write_report


@pytest.mark.skipif(pdf.find_browser() is None, reason="there is no Chromium or Chrome on this machine")
def test_the_page_is_printed(notears_run, tmp_path):
    content = write_report(notears_run, tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert len(content) > 10_000


def test_without_a_browser_nothing_is_written(notears_run, tmp_path, monkeypatch):
    monkeypatch.setattr(pdf, "_BROWSERS", ())
    with pytest.raises(FeddagError, match="Chromium or Chrome"):
        write_report(notears_run, tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())
