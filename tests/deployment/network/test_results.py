"""Mechanisms and effects over a network: the figures of one process, from sums alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from endpoints_by_call import NAMES, SIMULATION, Net, study_of

from feddag.deployment.site import OWN_MECHANISMS
from feddag.runs import Run
from feddag.selection import select
from feddag.trust import mechanisms_by_site, total_effect
from feddag.trust.graph_checks import GraphChecks

COLUMNS = SIMULATION.silos[0].columns
EFFECTS = f'[trust]\neffects = [["{COLUMNS[0]}", "{COLUMNS[2]}"], ["{COLUMNS[1]}", "{COLUMNS[3]}"]]\n'


def silos_of(study):
    return study.silos({silo.name: silo.to_frame() for silo in SIMULATION.silos})


@pytest.mark.parametrize("secure", [True, False])
def test_effects_are_those_of_one_process_but_for_single_sites(tmp_path, secure):
    net = Net(tmp_path, study_of('name = "notears"', secure=secure, more=EFFECTS))
    result = net.run(net.server())
    for found in result.checks.effects:
        here = total_effect(result.learner, silos_of(net.study), found.cause, found.effect)
        together = [each for each in here.estimates if each.site == "all sites"]
        assert (found.reachable, len(found.estimates)) == (here.reachable, len(together))
        for ours, theirs in zip(found.estimates, together, strict=True):
            assert ours.adjusted_for == theirs.adjusted_for
            names = ("slope", "error", "tau2", "pooled", "low", "high")
            figures = ([getattr(each, name) for name in names] for each in (ours, theirs))
            np.testing.assert_allclose(*figures, rtol=1e-6, atol=1e-9)


def test_mechanisms_are_those_of_one_process_but_for_single_sites(tmp_path):
    net = Net(tmp_path, study_of('name = "notears"', more="[trust]\nmechanisms = true\n"))
    result = net.run(net.server())
    here = mechanisms_by_site(result.learner.guessed_graph, silos_of(net.study))
    there, first = result.checks.mechanisms, here[here["site"] == NAMES[0]]
    assert there["effect"].tolist() == first["effect"].tolist()
    for name in ("mean_own_gain", "error", "differs"):
        np.testing.assert_allclose(there[name], first[name], rtol=1e-6, atol=1e-9)
    shown = [np.nan if 0 < count < 3 else count for count in first["sites_differing"]]
    np.testing.assert_array_equal(there["sites_differing"], shown)
    own = pd.read_csv(net.memory(NAMES[0]) / OWN_MECHANISMS)
    np.testing.assert_allclose(own["own_gain"], first["own_gain"], rtol=1e-6)
    np.testing.assert_allclose(own["r2"], first["r2"], rtol=1e-6)
    assert any(each.startswith(f"{NAMES[0]}: mechanisms ") for each in net.told)


def test_all_results_reach_the_run_s_folder_as_those_of_one_process_do(tmp_path):
    more = EFFECTS + "mechanisms = true\nassess = true\nbootstraps = 2\n"
    net = Net(tmp_path, study_of('name = "notears"', more=more))
    result = net.run(net.server())
    run = Run.start_federated(tmp_path / "run", net.study)
    run.learn_by(lambda progress: result.learner)
    run.keep_checks(GraphChecks.of(result.checks.document()))
    assert run.assessment().verdict == result.checks.assessment.verdict
    assert len(run.stability_table()) == len(result.checks.stability.table())
    assert run.mechanisms_table()["site"].unique().tolist() == ["all sites"]
    assert len(run.effects_kept()) == 2


def test_parameters_are_compared_as_in_one_process(tmp_path):
    net = Net(tmp_path, study_of('name = "notears"', more="[trust]\ngrid = { l1 = [0.5, 0.02, 0.1] }\n"))
    there = net.run(net.server()).checks.tuning
    here = select(silos_of(net.study), "notears", {"l1": [0.5, 0.02, 0.1]}).to_frame()
    assert there["l1"].tolist() == here["l1"].tolist()
    assert there["edges"].tolist() == here["edges"].tolist()
    np.testing.assert_allclose(there["score"], here["score"], rtol=1e-6)
    assert there["chosen"].tolist() == [True, False, False]
