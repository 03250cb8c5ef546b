"""`feddag learn --method search`."""

from __future__ import annotations

import pandas as pd

import feddag as package


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
    assert "'nowhere', which is no variable" in result.stderr
    assert not (tmp_path / "run").exists()
