"""The pages that are made of the store say what it holds, and name commands that exist."""

from __future__ import annotations

import importlib
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from feddag.cli.commands import SUMMARIES
from feddag.experiments import Store, find_experiment
from feddag.experiments.settings import Simulated

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("pages")


@pytest.fixture
def kept(tmp_path) -> Store:
    """A copy, since even a reader leaves files beside a store."""
    return Store(shutil.copy(BENCHMARKS / "results.sqlite", tmp_path))


@pytest.mark.parametrize("name", ["README.md", "docs/search-figures.md", "docs/methods.md", "docs/federation.md"])
def test_a_page_shows_what_the_store_holds(pages, kept, name):
    page = ROOT / name
    assert pages.make_page(page, kept) == page.read_text(encoding="utf-8"), "run: python benchmarks/pages.py"


PROVENANCE = ("graph", "data_digest", "peak_memory", "bytes_sent", "feddag", "python", "machine", "started", "finished")


@pytest.mark.parametrize("column", PROVENANCE)
def test_every_result_tells_what_was_found_and_where_it_comes_from(kept, column):
    with closing(sqlite3.connect(kept.path)) as connection:
        (lacking,) = connection.execute(f"SELECT count(*) FROM results WHERE {column} IS NULL").fetchone()
    assert lacking == 0


def test_the_security_page_lists_every_attack_and_none_brings_anything(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    attacks = importlib.import_module("attacks")
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    for attack in attacks.KNOWN:
        assert attack.attempts(), attack.title
        (row,) = re.findall(rf"^\| {attack.title} \|.*$", page, re.MULTILINE)
        assert "**nothing**" in row, "run: python benchmarks/pages.py --measure attacks"


def test_a_table_is_measured_by_the_command_above_it(pages, monkeypatch, tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "tiny.py").write_text("import sys\nprint('| ' + ' | '.join(sys.argv[1:]) + ' |')\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    command = "```console\n$ python benchmarks/tiny.py --seeds 1 \\\n    --quick\n```\n\n<!-- measured -->\n"
    page = f"Before.\n\n{command}\n| old |\n\n<!-- end -->\n\nAfter.\n"
    assert pages.measure(page, ["tiny"]) == page.replace("| old |", "| --seeds | 1 | --quick |")
    assert pages.measure(page, ["another"]) == page


@pytest.mark.parametrize("program", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_a_benchmark_imports_what_there_is(monkeypatch, program):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    assert importlib.import_module(program).__doc__


def test_pages_name_programs_and_experiments_that_exist():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for program in re.findall(r"benchmarks/\w+\.\w+", text):
            assert (ROOT / program).exists(), f"{page}: {program}"
        for command in re.findall(r"feddag experiment ([a-z]+)", text):
            assert f"experiment {command}" in SUMMARIES, f"{page}: {command}"
        for name in re.findall(r"feddag experiment (?:run|show|plot|tune) ([a-z][a-z0-9-]*)", text):
            assert name == "all" or find_experiment(name), page


def test_a_setting_of_a_benchmark_goes_by_its_short_name(pages):
    assert pages.settings.named("gp-add-ER2-20") == Simulated("gp-add", "ER2", 20)
    assert len(set(pages.settings.SETTINGS)) == len(pages.settings.SETTINGS) == 33


def test_the_bound_is_by_the_best_published_figures(pages):
    mixed, gp = Simulated("mixed"), Simulated("gp")
    assert pages.best_published(mixed, "federated", "FedDAG") == 1.9
    assert pages.best_published(gp, "federated", "FedDAG") == 1.8
    assert pages.best_published(gp, "all") == 1.9


def test_raw_and_standardised_data_are_compared_on_the_seeds_that_both_have(pages, kept):
    some = kept.results()[0]
    raw, standardised = (
        [replace(some, seed=seed, shd=shd) for seed, shd in by_seed.items()]
        for by_seed in ({2021: 1.0, 2022: 3.0, 2023: 50.0}, {2021: 2.0, 2022: 6.0})
    )
    assert pages.rise(raw, standardised) == [2.0]
    assert pages.rise(raw, []) == []


def test_the_search_and_feddag_are_those_of_the_experiments(pages):
    rows = {row.in_regime: row for row in find_experiment("linear").rows}
    setting = Simulated("linear")
    assert pages.settings.feddag(setting, 1).key == rows["linear AS-FedDAG, federated"].cell(setting, 1).key
    for noise, name in {"free": "(shared mechanisms)", "equal": "(equal noise)"}.items():
        row = rows[f"evidence search {name}, federated"]
        assert pages.settings.search(setting, 1, noise).key == row.cell(setting, 1).key
    mixed = {row.label: row for row in find_experiment("heterogeneous").rows}
    setting = Simulated("mixed", "SF2", 40)
    assert pages.settings.feddag(setting, 1).key == mixed["GS-FedDAG"].cell(setting, 1).key
    assert pages.settings.search(setting, 1).key == mixed["evidence search"].cell(setting, 1).key
