"""The checks of a graph over a network."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from endpoints_by_call import NAMES, SIMULATION, Net, lose, study_of

from feddag.deployment.study_tasks import known_tasks, study_tasks
from feddag.federation.audit import verify
from feddag.federation.policy import Policy
from feddag.federation.protocol import Task
from feddag.federation.site_endpoint import audit_log
from feddag.federation.wire import encode_task
from feddag.trust import assess as assess_here

ON = "[trust]\nassess = true\n"
CHECKS = {"moments.sums", "moments.products", "trust.rows", "trust.held-out"}


def learned_and_assessed(net):
    result = net.run(net.server())
    return result.learner, result.checks.assessment


@pytest.mark.parametrize(
    ("method", "secure", "scale"),
    [("notears", True, "none"), ("notears", False, "federated"), ("search", True, "federated")],
)
def test_the_assessment_is_that_of_one_process(tmp_path, method, secure, scale):
    parameters = "parameters = { restarts = 0 }" if method == "search" else ""
    data = f'[data]\nscale = "{scale}"\n'
    study = study_of(f'name = "{method}"\n{parameters}', secure=secure, more=data + ON)
    learner, there = learned_and_assessed(Net(tmp_path, study))
    here = assess_here(learner, study.silos({silo.name: silo.to_frame() for silo in SIMULATION.silos}))

    assert len(there.held_out) >= 3
    assert (there.verdict, there.warnings) == (here.verdict, here.warnings)
    assert asdict(there.sortability) == pytest.approx(asdict(here.sortability))
    for ours, theirs in zip(there.held_out, here.held_out, strict=True):
        assert ours.graph == theirs.graph
        found, expected = ([each.score, each.difference, each.error] for each in (ours, theirs))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_all_that_the_checks_take_stands_in_a_site_s_log_in_plain_words(tmp_path):
    net = Net(tmp_path, study_of(more=ON))
    learned_and_assessed(net)
    flows = verify(audit_log(net.memory(NAMES[0]))).flows
    sent = {flow.task: flow for flow in flows if flow.direction == "out"}
    assert set(sent) >= CHECKS
    for task in CHECKS:
        assert (sent[task].protection, sent[task].sites) == ("secure sum", 4)
        assert all(known_tasks()[task].describe(array) for array in sent[task].arrays)


def test_without_the_study_s_word_nothing_is_asked_and_nothing_answered(tmp_path):
    net = Net(tmp_path, study_of())
    assert learned_and_assessed(net)[1] is None
    flows = verify(audit_log(net.memory(NAMES[0]))).flows
    assert not CHECKS & {flow.task for flow in flows}
    task = encode_task(Task("trust.rows", 0, {}, {}, (0, 1, 2, 3)))
    rounds = net.sites[NAMES[0]]._course.rounds
    content = {"round": rounds, "task": task, "decisions": {}, "course": {"from": rounds, "steps": []}}
    assert "refusal" in net.sites[NAMES[0]].reply("work", content)


def test_other_questions_of_trust_stay_unanswered():
    known = set(study_tasks(study_of(more=ON)))
    assert {name for name in known_tasks() if name.startswith("trust.")} & known == {"trust.rows", "trust.held-out"}


def test_a_policy_that_does_not_allow_the_checks_costs_the_checks_and_not_the_graph(tmp_path):
    net = Net(tmp_path, study_of(more=ON))
    net.sites[NAMES[2]]._policy = Policy(tasks=("feddag.*", "moments.*"))
    learner, assessment = learned_and_assessed(net)
    assert learner.graph_.names == SIMULATION.silos[0].columns
    assert assessment is None
    assert any("The graph is not assessed" in each for each in net.told)
    again = net.run(net.server())
    assert "The graph is not assessed" in again.record["federation"]["not_assessed"]
    assert any("the study asks for 'trust.held-out'" in each for each in net.told)


def test_after_a_site_was_lost_in_the_checks_the_same_study_makes_up_for_them(tmp_path):
    net = Net(tmp_path, study_of(more=ON))
    net.before = lose("work", NAMES[1], when=lambda content: b"trust.held-out" in content["task"])
    learner, assessment = learned_and_assessed(net)
    assert assessment is None
    net.let_through()
    rounds = net.server().rounds
    again, assessment = learned_and_assessed(net)
    np.testing.assert_array_equal(again.edge_scores_, learner.edge_scores_)
    assert assessment is not None
    assert net.server().rounds == rounds + 2
