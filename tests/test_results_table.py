"""Every result that one process gives, and how a network gives it: the table of docs/federation.md, held by tests."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from feddag.cli.commands import SUMMARIES
from feddag.study.document import TABLES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "federation.md"
START, END = "<!-- results -->\n", "<!-- end results -->"


class Result(NamedTuple):
    """A result, by the command that gives it."""

    figure: str
    here: str
    """The command in one process."""
    keys: tuple[str, ...]
    """Keys of the study's `[trust]` that ask for it over a network."""
    there: str
    """The command over a network."""
    test: str
    """The test that holds both against each other: a file and a function."""
    note: str = ""


RESULTS = (
    Result(
        "the graph and its scores",
        "learn",
        (),
        "federation run",
        "deployment/network/test_learning.py::test_a_network_gives_what_one_process_gives",
    ),
    Result(
        "how sure each edge is, checks of assumptions",
        "learn",
        (),
        "federation run",
        "deployment/network/test_learning.py::test_a_network_checks_assumptions_as_one_process_does",
    ),
    Result(
        'what holds whoever is hidden (`latent = "allow"`)',
        "learn",
        (),
        "federation run",
        "deployment/flare/test_search.py::test_sites_find_what_one_process_finds",
    ),
    Result(
        "two groups of sites (`groups = 2`)",
        "learn",
        (),
        "federation run",
        "deployment/network/test_groups.py::test_a_network_finds_the_groups_and_graphs_that_one_process_finds",
        "which group a site is in, in its own terminal only",
    ),
    Result(
        "a graph from experiments",
        "learn",
        (),
        "federation run",
        "deployment/network/test_learning.py::test_experiments_count_over_a_network_as_in_one_process",
    ),
    Result(
        "pooled rows, or each site alone (regimes `all`, `separate`)",
        "learn",
        (),
        "",
        "deployment/network/test_preflight.py::test_a_regime_that_needs_all_tables_is_refused",
        "refused: it needs all tables in one place",
    ),
    Result(
        "verdict, warnings after the fit",
        "learn",
        ("assess",),
        "federation run",
        "deployment/network/test_trust.py::test_the_assessment_is_that_of_one_process",
    ),
    Result(
        "warnings before the fit",
        "learn",
        ("tables",),
        "federation run",
        "deployment/network/test_tables.py::test_a_column_in_another_unit_is_told_and_its_site_by_itself_alone",
        "which site, and outliers, in the site's own terminal only",
    ),
    Result(
        "stability: bootstraps",
        "stability",
        ("bootstraps",),
        "federation stability",
        "deployment/network/test_stability.py::test_the_replicates_are_those_of_one_process",
    ),
    Result(
        "stability: without each site",
        "stability",
        ("leave_one_out",),
        "federation stability",
        "deployment/network/test_stability.py::test_the_graph_without_each_site_is_that_of_one_process",
        "with `minimum_sites = 1` everywhere",
    ),
    Result(
        "mechanisms that differ",
        "stability",
        ("mechanisms",),
        "federation mechanisms",
        "deployment/network/test_results.py::test_mechanisms_are_those_of_one_process_but_for_single_sites",
        "continuous variables; figures of single sites at these sites only",
    ),
    Result(
        "total effects, their range, how sites differ",
        "effects",
        ("effects",),
        "federation effects",
        "deployment/network/test_results.py::test_effects_are_those_of_one_process_but_for_single_sites",
        "no figures of single sites, none by mechanisms",
    ),
    Result(
        "the report",
        "report",
        (),
        "report",
        "deployment/network/test_results.py::test_all_results_reach_the_run_s_folder_as_those_of_one_process_do",
    ),
    Result(
        "parameters compared by rows laid aside",
        "tune",
        ("grid",),
        "federation run",
        "deployment/network/test_results.py::test_parameters_are_compared_as_in_one_process",
        "the fit itself has the study's own parameters",
    ),
    Result("the run while it goes on", "watch", (), "watch", "", "also `feddag federation status`"),
    Result("comparison with a known graph", "evaluate", (), "evaluate", "", "the run's folder has all it needs"),
    Result("what the study releases", "disclosure", (), "disclosure", "", "at a site, by its own table or its log"),
)


LOOKS_AT_NO_TABLE = {"demo", "simulate", "methods", "experiment", "study"}
OF_A_NETWORK = {"federation", "kit", "server", "site", "audit"}


def table() -> str:
    """Return the table as Markdown."""
    lines = ["| result | in one process | over a network | remarks |", "|---|---|---|---|"]
    for each in RESULTS:
        asked = f"`[trust] {', '.join(each.keys)}`" if each.keys else ""
        there = [asked, f"`feddag {each.there}`" if each.there else ""]
        shown = ", ".join(filter(None, there)) or "–"
        lines.append(f"| {each.figure} | `feddag {each.here}` | {shown} | {each.note} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.figure)
def test_each_command_key_and_test_is_there(result):
    assert result.here in SUMMARIES
    assert not result.there or result.there in SUMMARIES
    assert set(result.keys) <= set(TABLES["trust"])
    if result.test:
        path, function = result.test.split("::")
        tree = ast.parse((ROOT / "tests" / path).read_text())
        assert function in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    else:
        assert result.note


def test_every_command_that_has_a_result_is_in_the_table():
    commands = {name for name in SUMMARIES if " " not in name}
    assert {each.here for each in RESULTS} == commands - LOOKS_AT_NO_TABLE - OF_A_NETWORK


def test_every_key_of_trust_is_in_the_table():
    assert {key for each in RESULTS for key in each.keys} == set(TABLES["trust"])


def test_the_page_has_this_table():
    """`FEDDAG_WRITE_DOCS=1 pytest tests/test_results_table.py` writes it."""
    text = PAGE.read_text()
    before, rest = text.split(START)
    found, after = rest.split(END, 1)
    if os.environ.get("FEDDAG_WRITE_DOCS"):
        PAGE.write_text(before + START + table() + END + after)
    else:
        assert found == table()
