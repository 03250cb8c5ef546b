"""A method of another package over a network: policies can name its tasks, and logs explain them."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from endpoints_by_call import IDENTITIES, NAMES, SIMULATION, Net, in_process, study_of
from typer.testing import CliRunner

from feddag import FeddagError
from feddag.cli import app
from feddag.deployment.site import build_site
from feddag.deployment.study_tasks import federated_learner
from feddag.federation.policy import Policy
from feddag.federation.site_endpoint import audit_log
from feddag.learners.registry import METHODS
from snippets import ROOT

STUDY = 'name = "partial-correlations"'


@pytest.fixture
def own_method(monkeypatch):
    """The example, as if it were installed."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "own_method")
    module = importlib.import_module("own_method")
    monkeypatch.setitem(METHODS, module.METHOD.name, module.METHOD)
    return module


def test_it_learns_over_a_network_what_it_learns_in_one_process(own_method, tmp_path):
    study = study_of(STUDY)
    there, server = Net(tmp_path, study).learn()
    here = in_process(study)
    assert server.rounds == 1
    assert here.adjacency_.any()
    np.testing.assert_array_equal(there.adjacency_, here.adjacency_)
    np.testing.assert_allclose(there.edge_scores_, here.edge_scores_, rtol=1e-9)


def test_an_audit_tells_in_its_words_what_left(own_method, tmp_path):
    net = Net(tmp_path, study_of(STUDY))
    net.learn()
    printed = CliRunner().invoke(app, ["audit", str(audit_log(net.memory(NAMES[0])))], catch_exceptions=False).stdout
    text = " ".join(printed.split())
    assert "How the variables of a site correlate, and how widely each is spread: once," in text
    assert "inside a secure sum of 4 sites" in text
    assert "correlations: a 4×4 matrix, for each pair of variables their correlation" in text
    assert "variances: a list of 4, for each variable its variance" in text


def test_a_policy_can_name_its_task_and_a_slip_is_told(own_method, tmp_path):
    study, silo = study_of(STUDY), SIMULATION.silos[0]

    def site(task):
        folder = tmp_path / task
        return build_site(study, silo, folder, tmp_path / "tables", IDENTITIES[silo.name], Policy(tasks=(task,)), print)

    site(own_method.CORRELATIONS.name).close()
    with pytest.raises(FeddagError, match=r"Did you mean 'partial-correlations\.correlations'\?"):
        site("partial-correlations.corelations")


def test_a_policy_that_does_not_allow_its_task_has_the_last_word(own_method, tmp_path):
    net = Net(tmp_path, study_of(STUDY))
    net.sites[NAMES[0]]._policy = Policy(tasks=("search.*",))
    with pytest.raises(FeddagError, match="its own log says why"):
        net.learn()
    assert any("the study asks for 'partial-correlations.correlations'" in each for each in net.told)


def test_a_method_without_declared_tasks_is_refused_when_the_study_is_built(own_method, monkeypatch):
    monkeypatch.setattr(own_method.PartialCorrelations, "task_specs", ())
    with pytest.raises(FeddagError) as caught:
        federated_learner(study_of(STUDY))
    assert str(caught.value) == (
        "The study: the method 'partial-correlations' declares no tasks, so that no site on a network would answer it. "
        "Declare `task_specs` in its class PartialCorrelations."
    )
