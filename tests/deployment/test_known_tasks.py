"""Whatever a learner asks of the sites, it has declared what the answers disclose, and in which shape they come."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.deployment.study_tasks import known_tasks
from feddag.federation import InProcess
from feddag.federation.protection import PLAIN, SECURE_SUM, describe_protection
from feddag.learners.factory import make_learner
from feddag.learners.feddag.local_solver import SOLVE, shared_part
from feddag.models import DAGGNN, NOTEARSMLP, Linear, MaskedMLP
from feddag.silos import simulate


def test_every_task_says_in_words_what_it_discloses():
    tasks = known_tasks()
    assert {"feddag.solve", "moments.sums", "admm.fit", "regimes.vote", "search.pulls", "trust.rows", "scale.set"} <= (
        tasks.keys()
    )
    for spec in tasks.values():
        assert spec.discloses
        assert spec.answers
        assert all(output.discloses for output in spec.answers.values())


@pytest.mark.parametrize(
    ("method", "regime", "parameters"),
    [
        ("notears", None, {}),
        ("admg", None, {"it_inner": 4, "it_fl": 2, "it_max": 1}),
        ("notears-admm", None, {"it_max": 2}),
        ("notears-mlp-admm", None, {"it_max": 1, "hidden_units": 2}),
        ("search", None, {"restarts": 0}),
        ("search", None, {"restarts": 0, "sharing": "all"}),
        ("var-sortnregress", "voting", {}),
    ],
)
def test_every_answer_is_as_it_was_declared(monkeypatch, method, regime, parameters):
    asked = set()
    aggregate = InProcess.aggregate

    def watched(self, task):
        alone = len(self.local_sites) == 1  # a site that votes first learns alone, and sends nothing
        for site in () if alone else self.local_sites:
            before = site.snapshot()
            answer = site.answer(task)
            site.restore(before)
            declared[task.name].check_answer(site.name, task, answer.arrays)
        asked.update(() if alone else (task.name,))
        return aggregate(self, task)

    monkeypatch.setattr(InProcess, "aggregate", watched)
    learner = make_learner(method, regime, **parameters)
    declared = learner.tasks(("x0", "x1", "x2"), 3)
    learner.fit(simulate(3, mechanism="linear", sites=3, rows=75, seed=3))
    assert asked


@pytest.mark.parametrize("model", [Linear(), MaskedMLP(), NOTEARSMLP(), DAGGNN()])
def test_every_parameter_that_leaves_a_site_has_words(model):
    arrays = shared_part(model.init(np.random.default_rng(0), 3), "all")
    assert all(SOLVE.describe(array) for array in arrays), list(arrays)


def test_protections_have_words():
    assert describe_protection(SECURE_SUM, 4) == "inside a secure sum of 4 sites"
    assert "the server sees this site's own numbers" in describe_protection(PLAIN, 4)
    assert describe_protection(f"{SECURE_SUM} + dp(ε=3, δ=1e-05)", 4) == (
        "inside a secure sum of 4 sites, with noise, for differential privacy of ε=3, δ=1e-05"
    )
