from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

from feddag.learners.factory import leaves_site
from feddag.learners.registry import METHODS


def test_every_method_is_listed_with_what_leaves_a_site(feddag):
    shown = feddag("methods").stdout
    for method in METHODS.values():
        texts = leaves_site(method)
        for text in (method.name, method.summary, method.assumptions, method.reference, *texts.values()):
            assert text in " ".join(shown.split())
        assert re.search(rf"regimes +{', '.join(method.regimes)}\n", shown)


def test_a_file_holds_each_text_on_one_line_without_blanks_at_its_end(feddag):
    lines = feddag("methods").stdout.splitlines()
    assert any(METHODS["search"].assumptions in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_what_a_name_stands_for_and_needs_is_shown(feddag, monkeypatch):
    special = replace(METHODS["feddag"], name="special", defaults={"sharing": "all"}, extra="parquet")
    monkeypatch.setitem(METHODS, "special", special)
    shown = feddag("methods").stdout
    assert "sharing='all'" in shown
    assert "pip install '.[parquet]'" in shown


def test_programs_get_the_whole_table(feddag):
    table = [
        {**asdict(method), "regimes": list(method.regimes), "leaves_site": leaves_site(method)}
        for method in METHODS.values()
    ]
    assert json.loads(feddag("methods", "--format", "json").stdout) == table
