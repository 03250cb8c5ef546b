"""Privacy of rows over real processes: one noisy release, charged once, and the graph that one process finds in it."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import PATIENCE

import feddag
from feddag.learners.private_search import FRAMED, ROUGH
from feddag.learners.search.released import frame_of
from feddag.regression.frames import FramedMap

pytestmark = pytest.mark.slow

EPSILON = 8.0
STUDY = {
    "method": 'name = "private-search"\nparameters = { mechanisms = "linear" }',
    "privacy": f"[privacy.rows]\nepsilon = {EPSILON}\ndelta = 1e-6\nexpected_rows = 480\n",
    "policy": 'studies = "any"',
    "variable": '{ type = "continuous", range = [-8, 8] }',
}


def charged(federation):
    """The number of releases in each ledger, those of tables and those of sites."""
    ledgers = (federation.folder / "state").rglob("row-privacy.json")
    return {ledger.parent: len(json.loads(ledger.read_text())["releases"]) for ledger in ledgers}


def once(federation):
    """That each site has a ledger of its own and one of its table, and each has the two releases of one study."""
    found = charged(federation)
    return len(found) >= 2 * len(federation.names) and set(found.values()) == {2}


def test_the_graph_is_what_one_process_finds_in_the_same_release(finished, monkeypatch):
    there = feddag.load(finished.folder / "run")
    learner, silos = finished.study.learner(), finished.simulation.silos
    columns = silos[0].columns
    features, left, drawn = learner.features(columns), there.release_, []
    for spec in (ROUGH, FRAMED):
        deviation = learner.plan(columns, len(silos), spec).share_deviation * np.sqrt(len(silos))
        entries, left = left[: features.entries], left[features.entries :]
        noise = entries - sum(features.products(silo.values) for silo in silos)
        assert (noise == np.rint(noise)).all()
        assert 0.5 < noise.std() / deviation < 1.7
        drawn += [noise.astype(int), *np.zeros((len(silos) - 1, len(noise)), int)]
        if spec is ROUGH:
            features = FramedMap.of(features, **frame_of(features, entries, deviation))
    shares = iter(drawn)
    monkeypatch.setattr("feddag.learners.private_search.system_noise", lambda size, deviation: next(shares))
    here = learner.fit(finished.simulation)
    np.testing.assert_array_equal(here.release_, there.release_)
    assert here.graph_ == there.graph_
    assert here.edge_evidence_.drop(columns=["cause", "effect"]).equals(
        there.edge_evidence_.drop(columns=["cause", "effect"])
    )


def test_processes_that_were_killed_release_nothing_again(finished):
    before = feddag.load(finished.folder / "run").release_
    assert once(finished)
    for name in ("server", finished.names[0]):
        finished.kill(name)
        finished.start(name)
    assert finished.run("again").wait(PATIENCE) == 0, finished.log("analyst")
    np.testing.assert_array_equal(feddag.load(finished.folder / "again").release_, before)
    assert once(finished)


def test_another_study_of_the_same_tables_finds_the_budget_spent(finished):
    other = finished.folder / "other.toml"
    other.write_text(finished.study_file.read_text().replace('name = "test"', 'name = "another"'))
    assert finished.run("other", study=other).wait(PATIENCE) == 2
    assert once(finished)
    for site in finished.names:
        assert "does not fit the privacy budget of the site" in finished.log(site)
    assert "Traceback" not in finished.log("analyst")
    assert not (finished.folder / "other" / "graph.json").exists()


def test_the_audit_log_and_the_report_name_the_guarantee(finished):
    log = finished.memory(finished.names[0]) / "audit.jsonl"
    shown = finished.command("audit", log)
    assert shown.returncode == 0, shown.stderr
    words = "noise that hides every row, for differential privacy of ε=8, δ=1e-06, charged to a ledger: 1 of this table"
    assert words in " ".join(shown.stdout.split())
    out = finished.folder / "report.md"
    report = finished.command("report", finished.folder / "run", "--out", out)
    assert report.returncode == 0, report.stderr
    assert "Differential privacy of each person: ε = 8" in out.read_text()
