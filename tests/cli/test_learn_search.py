"""`feddag learn --method search`."""

from __future__ import annotations

import pandas as pd

import feddag as package
from feddag.reports.blocks import Bullets
from feddag.reports.model import build_report
from feddag.runs import Run


def test_it_learns_with_knowledge_and_writes_what_it_knows(feddag, tmp_path):
    simulation = package.simulate(4, mechanism="gp", sites=3, rows=150, seed=2)
    paths = []
    for silo in simulation.silos:
        paths.append(tmp_path / f"{silo.name}.csv")
        silo.to_frame().to_csv(paths[-1], index=False)
    a, b, c, d = simulation.truth.names
    run = tmp_path / "run"
    knowledge = ("--required", f"{a}->{b}", "--forbidden", f"{c}->{d}, {d}->{c}", "--tiers", f"{a};{b},{c}")
    result = feddag(
        "learn", *paths, "--method", "search", "--sharing", "all", *knowledge, "--restarts", 1, "--out", run
    )
    assert result.exit_code == 0, result.output
    learned = package.load(run)
    assert learned.get_params()["required"] == ((a, b),)
    assert learned.get_params()["tiers"] == ((a,), (b, c))
    assert (a, b) in learned.dag_.edges
    assert not {(c, d), (d, c)} & set(learned.dag_.edges)
    assert "edge_evidence.csv" in result.output
    evidence = pd.read_csv(run / "edge_evidence.csv")
    assert list(zip(evidence.cause, evidence.effect, strict=True)) == list(learned.dag_.edges)
    assert feddag("learn", "--resume", run, "--required", f"{a}->{b}").exit_code == 0


def test_knowledge_that_is_no_edge_or_contradicts_itself_is_one_line(feddag, sites, tmp_path):
    asked = ("learn", *sites, "--method", "search", "--out", tmp_path / "run")
    result = feddag(*asked, "--required", "a")
    assert result.exit_code == 2
    assert "no edge such as A->B" in " ".join(result.stderr.replace("│", " ").split())
    result = feddag(*asked, "--required", "nowhere->x0")
    assert result.exit_code == 2
    assert "'nowhere', which is not a variable" in result.stderr
    assert not (tmp_path / "run").exists()


def test_failed_checks_are_printed_once_and_stand_in_the_report(feddag, tmp_path):
    paths = []
    for silo in package.simulate(3, mechanism="gp", sites=2, rows=200, seed=2).silos:
        paths.append(tmp_path / f"{silo.name}.csv")
        table = silo.to_frame()
        table.assign(twin=2 * table.x1 + 1).to_csv(paths[-1], index=False)
    run = tmp_path / "run"
    result = feddag("learn", *paths, "--method", "search", "--restarts", 0, "--out", run)
    assert result.exit_code == 0, result.output
    found = "x1 and twin look like copies of each other"
    assert f"Do not trust this graph as it is. {found}." in result.output.replace("\n", " ")
    assert result.output.count(f"Warning: {found}") == 1
    assert "AssumptionWarning" not in result.output
    checks = pd.read_csv(run / "checks.csv")
    assert "x1 and twin" in checks.variables[checks.failed].tolist()
    for told in (True, False):
        report = build_report(Run.open(run))
        assert any(item.startswith(found) for block in report.find(Bullets) for item in block.items)
        if told:
            (run / "trust.json").unlink()
