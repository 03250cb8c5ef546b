"""The examples in docstrings run as they stand, and every public function has one."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import feddag
from snippets import ROOT

SOURCE = ROOT / "src"
PUBLIC = {name: getattr(feddag, name) for name in feddag.__all__}
SHOWN = {"feddag": feddag, **{name: each for name, each in PUBLIC.items() if inspect.isfunction(each)}}
SHOWN |= {name: PUBLIC[name] for name in ("CausalGraph", "EvidenceSearch", "FedDAG")}
WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
ALONE = {getattr(each, "__module__", name) for name, each in SHOWN.items()}


@pytest.mark.parametrize("name", SHOWN)
def test_the_example_works_by_itself(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(SHOWN[name], name, globs={})
    assert example.examples
    report = []
    assert doctest.DocTestRunner().run(example, out=report.append).failed == 0, "".join(report)


@pytest.mark.parametrize("name", [name for name in WITH_EXAMPLES if name not in ALONE])
def test_every_example_of_a_module_works(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
