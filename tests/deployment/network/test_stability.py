"""The stability of a graph over a network: the figures of one process, from sums alone."""

from __future__ import annotations

import numpy as np
import pytest
from endpoints_by_call import ANY_SITES, LINEAR, NAMES, SIMULATION, Net, study_of

from feddag.federation.audit import verify
from feddag.federation.calls import OutOfReachError
from feddag.federation.policy import Policy
from feddag.federation.site_endpoint import audit_log
from feddag.trust import edge_stability

SEARCH = 'name = "search"\nparameters = { restarts = 0, sharing = "graph" }'
DEFAULT_SEARCH = 'name = "search"\nparameters = { restarts = 0 }'
BOOTSTRAPS = "[trust]\nbootstraps = 3\n"


def silos_of(study):
    return study.silos({silo.name: silo.to_frame() for silo in SIMULATION.silos})


@pytest.mark.parametrize(
    ("method", "secure", "data"),
    [
        pytest.param(DEFAULT_SEARCH, True, "", marks=pytest.mark.slow),
        (SEARCH, True, ""),
        ('name = "notears"', False, '[data]\nscale = "federated"\n'),
        (LINEAR, True, ""),
    ],
)
def test_the_replicates_are_those_of_one_process(tmp_path, monkeypatch, method, secure, data):
    monkeypatch.setattr("feddag.deployment.site.draws_secret", lambda folder: b"")
    study = study_of(method, secure=secure, more=data + BOOTSTRAPS)
    net = Net(tmp_path, study)
    result = net.run(net.server())
    here = edge_stability(result.learner, silos_of(study), bootstraps=3)
    assert len(result.checks.stability.bootstraps) == 3
    for ours, theirs in zip(result.checks.stability.bootstraps, here.bootstraps, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert result.checks.stability.without == {}


@pytest.mark.parametrize("method", ['name = "notears"', pytest.param(SEARCH, marks=pytest.mark.slow)])
def test_the_graph_without_each_site_is_that_of_one_process(tmp_path, monkeypatch, method):
    monkeypatch.setattr("feddag.deployment.site.draws_secret", lambda folder: b"")
    study = study_of(method, more=f"{ANY_SITES}[trust]\nbootstraps = 1\nleave_one_out = true\n")
    net = Net(tmp_path, study)
    result = net.run(net.server())
    here = edge_stability(result.learner, silos_of(study), bootstraps=1)
    assert result.checks.stability.table().equals(here.table())
    for site in NAMES:
        np.testing.assert_array_equal(result.checks.stability.without[site], here.without[site])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study whose replicates are there, and what it has found."""
    net = Net(tmp_path_factory.mktemp("sites"), study_of(SEARCH, more="[trust]\nbootstraps = 8\n"))
    return net, net.run(net.server())


def test_many_replicates_take_few_rounds(finished):
    _, result = finished
    rounds = result.record["federation"]
    assert rounds["rounds"] < 4 * rounds["rounds_of_fit"]


def test_after_a_site_was_lost_the_same_study_goes_on_where_it_was(tmp_path):
    net = Net(tmp_path, study_of(SEARCH, more=BOOTSTRAPS))
    asked = []

    def lost(site, request, content):
        if site == NAMES[1] and request == "work" and b"stability.replicates" in content["task"]:
            asked.append(site)
            if len(asked) > 2:
                raise OutOfReachError("gone")

    net.before = lost
    assert net.run(net.server()).checks.stability is None
    assert any("The graph's stability is not known" in each for each in net.told)
    net.let_through()
    rounds, requests = net.server().rounds, len(net.requests)
    again = net.run(net.server())
    assert len(again.checks.stability.bootstraps) == 3
    assert len(net.requests) - requests < 5 * len(NAMES) * (again.record["federation"]["rounds"] - rounds + 2)


def test_a_policy_that_does_not_allow_replicates_costs_these_and_not_the_graph(tmp_path):
    net = Net(tmp_path, study_of(SEARCH, more=f"{BOOTSTRAPS}assess = true\n"))
    net.sites[NAMES[2]]._policy = Policy(tasks=("search.*", "moments.*", "trust.*"))
    result = net.run(net.server())
    assert result.checks.assessment is not None
    assert result.checks.stability is None
    assert any("the study asks for 'stability.replicates'" in each for each in net.told)


def test_a_site_s_log_says_in_plain_words_what_replicates_take(finished):
    net, _ = finished
    log = verify(audit_log(net.memory(NAMES[0])))
    sent = {flow.task: flow for flow in log.flows if flow.direction == "out"}["stability.replicates"]
    words = log.disclosures["stability.replicates"]
    assert "half of the site's rows" in words.summary
    assert all(words.describe(array) for array in sent.arrays)
    assert (sent.protection, sent.sites) == ("secure sum", 4)
