from __future__ import annotations

import pytest

from feddag.reports import write_report
from feddag.reports.markdown import plain


def test_tables_stay_tables_whatever_the_names(hostile_run):
    text = write_report(hostile_run, format="md").read_text(encoding="utf-8")
    assert "<script" not in text.replace("\\<script", "")
    assert "a \\& b \\< c \\| d \\* e\\_f" in text
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("| "):
            widths = {line.replace("\\|", "").count("|") for line in lines}
            assert len(widths) == 1


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("# no heading", "\\# no heading"),
        ("- no item", "\\- no item"),
        ("12) no item", "12\\) no item"),
        ("sort-and-regress (0.5)", "sort-and-regress (0.5)"),
        ("a\n\nb", "a b"),
    ],
)
def test_only_what_markdown_would_not_show_is_escaped(text, escaped):
    assert plain(text) == escaped
