"""The examples in docstrings run as they stand, and whoever asks for help on a public function finds one."""

from __future__ import annotations

import doctest
import inspect

import pytest

import feddag

PUBLIC = {name: getattr(feddag, name) for name in feddag.__all__}
SHOWN = {"feddag": feddag, **{name: each for name, each in PUBLIC.items() if inspect.isfunction(each)}}
SHOWN |= {name: PUBLIC[name] for name in ("CausalGraph", "EvidenceSearch", "FedDAG")}


@pytest.mark.parametrize("name", SHOWN)
def test_the_example_works_by_itself(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(SHOWN[name], name, globs={})
    report = []
    assert doctest.DocTestRunner().run(example, out=report.append).failed == 0, "".join(report)
