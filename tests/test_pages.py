"""What the pages of the documentation show works as it stands."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
from pathlib import Path
from unittest import mock

import pytest

from feddag.deployment.site import check_site
from feddag.deployment.study_tasks import known_tasks, study_tasks
from feddag.federation.policy import Policy
from feddag.learners.registry import METHODS
from feddag.study import Study
from snippets import ROOT, blocks, run_console, run_python

OF_A_NETWORK = ("feddag federation", "feddag site", "feddag audit")
SOURCES = (ROOT, ROOT / "src" / "feddag")
TAKES_LONG = ("--bootstraps 50",)


def _commands(page: str) -> str:
    shown = blocks(page, "console")
    return "".join(each for each in shown if not any(words in each for words in OF_A_NETWORK + TAKES_LONG))


@pytest.mark.slow
def test_the_tutorial_finds_the_graph_it_says(tmp_path):
    shown = run_console(_commands("docs/tutorial.md"), tmp_path)
    assert "SHD 0  TPR 1" in shown
    assert (tmp_path / "run" / "report.html").exists()
    assert "0.8 ± 0.05 nats per row" in " ".join(shown.split())
    assert "x1,x0," in (tmp_path / "agreed" / "graph.edges.csv").read_text(encoding="utf-8")
    assert "GraphMetrics(shd=0," in run_python("\n".join(blocks("docs/tutorial.md", "python")), tmp_path)


@pytest.mark.slow
def test_the_analyst_comes_from_a_table_to_an_effect(tmp_path):
    shutil.copytree(ROOT / "examples" / "heart_disease", tmp_path, dirs_exist_ok=True)
    assert "Change of oldpeak for a unit of thalach" in run_console(_commands("docs/analyst.md"), tmp_path)
    assert (tmp_path / "draft.toml").exists()


def test_the_data_manager_can_check_a_table(tmp_path):
    shutil.copytree(ROOT / "examples" / "heart_disease", tmp_path, dirs_exist_ok=True)
    assert "140 to learn from" in run_console(_commands("docs/data-manager.md"), tmp_path)


def test_the_data_managers_policy_is_one(tmp_path):
    (policy,) = blocks("docs/data-manager.md", "toml")
    path = tmp_path / "policy.toml"
    path.write_text(policy, encoding="utf-8")
    path.chmod(0o600)
    rules, folder = Policy.load(path), ROOT / "examples" / "heart_disease"
    study = Study.load(folder / "network.toml")
    check_site(study, study.silo("va", str(folder / "va.csv")), rules)
    assert rules.forbidden(study_tasks(study)) == []


def test_codes_that_are_declared_ordinal_are_levels(tmp_path):
    (example,) = blocks("docs/data.md", "python")
    shown = run_python(example, tmp_path).splitlines()
    assert shown[0] == "CausalGraph(2 nodes, 1 edges)"
    assert shown[-1] == "ordinal (1, 2, 3, 4)"


def test_the_researchers_method_of_ones_own_learns(tmp_path):
    with mock.patch.dict(METHODS):  # in which the page enters its own
        shown = run_python("\n".join(blocks("docs/researcher.md", "python")), tmp_path)
    assert shown.rstrip().splitlines()[-1].startswith("GraphMetrics(")
    assert "{'l1': 0.02} CausalGraph(5 nodes," in shown


PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def _exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or what a module has."""
    parts = dotted.split(".")
    for split in range(len(parts), 0, -1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        if spec is None:
            continue
        found = importlib.import_module(spec.name)
        return all((found := getattr(found, name, None)) is not None for name in parts[split:])
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_modules_and_files_that_there_are(page):
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"(?:`|^::: )(feddag(?:\.\w+)+)", text, re.MULTILINE))
    assert [name for name in sorted(names - known_tasks().keys()) if not _exists(name)] == []
    files = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    assert [file for file in sorted(files) if not any((top / file).exists() for top in SOURCES)] == []


def _anchors(page: Path) -> set[str]:
    """The names by which links reach a page's headings, on GitHub and on the site alike."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "examples").rglob("*.md"))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_links_to_files_and_headings_that_there_are(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for link in links:
        name, _, anchor = link.partition("#")
        if "://" in link or name == "cli.md":  # which the site alone has
            continue
        target = page.parent / name if name else page
        assert target.is_file() or (page.parent == ROOT and target.exists()), link  # the site has no folders
        assert not anchor or anchor in _anchors(target), link
