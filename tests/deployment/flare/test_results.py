"""Real processes: every result that one process gives, and further studies on the same kits."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

import feddag
from feddag.deployment.site import OWN_MECHANISMS
from feddag.runs import Run
from feddag.trust import assess, edge_stability, mechanisms_by_site, total_effect

pytestmark = pytest.mark.slow  # .ci/run runs it

STUDY = {
    "method": 'name = "search"\nparameters = { restarts = 0 }',
    "privacy": '[trust]\nassess = true\nbootstraps = 3\nmechanisms = true\neffects = [["x0", "x2"]]\n',
    "policy": "maximum_numbers_per_value = 1000.0",
}


def test_each_figure_is_that_of_one_process(finished):
    run = Run.open(finished.folder / "run")
    learner, tables = run.result(), finished.simulation
    assert run.assessment().verdict == assess(learner, tables).verdict
    stability = edge_stability(learner, tables, bootstraps=3)
    there, here = (table[table["learned"] != "not"] for table in (run.stability_table(), stability.table()))
    assert there[["cause", "effect"]].equals(here[["cause", "effect"]])  # each site draws rows by a secret of its own
    assert there["frequency"].isin(np.arange(4) / 3).all()
    mechanisms = mechanisms_by_site(learner.guessed_graph, tables)
    mine = mechanisms[mechanisms["site"] == finished.names[0]]
    np.testing.assert_allclose(run.mechanisms_table()["mean_own_gain"], mine["mean_own_gain"], rtol=1e-6, atol=1e-9)
    assert (finished.memory(finished.names[0]) / OWN_MECHANISMS).exists()
    effect = run.effects_kept()["x0", "x2"].estimates[0]
    expected = next(each for each in total_effect(learner, tables, "x0", "x2").estimates if each.site == "all sites")
    np.testing.assert_allclose([effect.slope, effect.tau2], [expected.slope, expected.tau2], rtol=1e-6, atol=1e-9)


def test_the_report_has_them_all(finished):
    out = finished.folder / "report.md"
    shown = finished.command("report", finished.folder / "run", "--out", out)
    assert shown.returncode == 0, shown.stderr
    report = out.read_text()
    for words in (
        "On rows held out",
        "How often each edge comes back",
        "whether sites differ",
        "changes another in all",
    ):
        assert words in report


def test_a_further_study_needs_no_new_kits_but_each_site_s_consent(finished):
    ask = ("federation", "effects", finished.folder / "run", "--kit", finished.kits["analyst"])
    pair = ("--cause", "x1", "--effect", "x3")
    refused = finished.command(*ask, *pair)
    assert refused.returncode != 0
    assert "feddag kit accept" in refused.stderr
    for name in finished.names:
        listed = finished.command("kit", "accept", "--kit", finished.kits[name])
        assert finished.study.digest[:12] in listed.stdout
        accepted = finished.command("kit", "accept", finished.study.name, "--kit", finished.kits[name])
        assert accepted.returncode == 0, accepted.stderr
    shown = finished.command(*ask, *pair)
    assert shown.returncode == 0, shown.stderr
    found = Run.open(finished.folder / "run").effects_kept()["x1", "x3"].estimates[0]
    here = total_effect(feddag.load(finished.folder / "run"), finished.simulation, "x1", "x3")
    expected = next(each for each in here.estimates if each.site == "all sites")
    np.testing.assert_allclose(found.slope, expected.slope, rtol=1e-6)
