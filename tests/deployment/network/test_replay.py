"""A site's audit log alone shows whether the server asked what the study's method asks."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
from endpoints_by_call import NAMES, Net, study_of
from typer.testing import CliRunner

from feddag import FeddagError
from feddag.cli import app
from feddag.deployment.site import follow_study
from feddag.deployment.terms import study_terms
from feddag.federation.audit import BrokenLogError, heads_seen, verify
from feddag.federation.replay import Deviation, replay
from feddag.federation.site_endpoint import audit_log
from feddag.federation.wire import decode_task, encode_task
from feddag.study import Study

SEARCH = 'name = "search"\nparameters = { restarts = 2, time_budget = 100.0, seed = 1 }'


def replayed(net, site=NAMES[0]):
    return replay(audit_log(net.memory(site)), study_terms(net.study), partial(follow_study, net.study))


@pytest.mark.parametrize(("secure", "more"), [(True, "[trust]\nassess = true\n"), (False, "")])
def test_an_honest_server_asked_what_the_method_asks(tmp_path, secure, more):
    net = Net(tmp_path, study_of(SEARCH, secure=secure, more=more))
    net.learn()
    found = replayed(net)
    assert not found.deviations
    assert found.questions == net.server().rounds
    assert found.sums == found.questions - 1  # nobody asks after the last one, so nobody shows its sum


def test_a_question_of_the_server_s_own_stands_out_with_its_line(net):
    def lie(site, request, content):
        task = decode_task(content["task"]) if request == "work" else None
        if site == NAMES[0] and task is not None and content["round"] == 1:
            content["task"] = encode_task(replace(task, numbers={**task.numbers, "rho": 1e5}))

    net.before = lie
    with pytest.raises(FeddagError):
        net.learn()
    (deviation,) = replayed(net).deviations
    assert deviation == Deviation(deviation.line, 1, "feddag.solve", "feddag.solve")


def test_sums_too_large_for_a_line_are_read_from_the_files_beside_the_log_and_none_can_be_changed(net, monkeypatch):
    monkeypatch.setattr("feddag.federation.audit.MOST_BYTES_IN_FULL", 100)
    net.learn()
    found = replayed(net)
    assert not found.deviations
    assert found.sums > 2
    step = net.memory(NAMES[0]) / "course" / "000001.json"
    content = json.loads(step.read_text())
    content["step"]["result"]["attempt"] = 7
    step.write_text(json.dumps(content))
    with pytest.raises(BrokenLogError, match="the sum of round 2 is not the one that was written"):
        replayed(net)
    step.unlink()
    with pytest.raises(FeddagError, match=r"000001\.json is not there: the log needs it"):
        replayed(net)


def test_a_question_too_large_for_a_line_is_compared_number_by_number_too(net, monkeypatch):
    """Its hash alone would differ wherever another processor rounds otherwise."""
    monkeypatch.setattr("feddag.federation.audit.MOST_BYTES_IN_FULL", 100)

    def round_otherwise(site, request, content):
        if request == "work":
            task = decode_task(content["task"])
            arrays = {
                name: array * (1 + 1e-9) if array.dtype == float else array for name, array in task.arrays.items()
            }
            numbers = {**task.numbers, **{name: task.numbers[name] * (1 + 1e-9) for name in {"rho"} & {*task.numbers}}}
            content["task"] = encode_task(replace(task, arrays=arrays, numbers=numbers))

    net.before = round_otherwise
    with pytest.raises(FeddagError):  # the server's own digest of the question is another
        net.learn()
    found = replayed(net)
    assert (found.questions > 0, found.deviations) == (True, ())
    question = next((net.memory(NAMES[0]) / "questions").iterdir())
    question.write_bytes(question.read_bytes() + b" ")
    with pytest.raises(BrokenLogError, match="the question of round 1 is not the one that was written"):
        replayed(net)


def test_a_log_is_held_against_the_study_that_the_site_agreed_to(net):
    net.learn()
    other = study_of(SEARCH)
    with pytest.raises(FeddagError, match="Name the study file that the site had agreed to"):
        replay(audit_log(net.memory(NAMES[0])), study_terms(other), partial(follow_study, other))


def test_the_other_sites_know_the_head_of_a_log_so_that_its_end_cannot_be_cut_off(net):
    net.learn()
    log, other = (audit_log(net.memory(site)) for site in NAMES[:2])
    seen = heads_seen(other, NAMES[0])
    assert len(seen) == net.server().rounds
    verify(log, seen)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    verify(log)  # the chain alone does not tell
    with pytest.raises(BrokenLogError, match="which it once had"):
        verify(log, seen)


def test_the_command_says_so_and_its_exit_code_too(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY_FILE)
    net = Net(tmp_path / "net", Study.load(study))
    net.learn()
    log, other = (str(audit_log(net.memory(site))) for site in NAMES[:2])
    done = CliRunner().invoke(app, ["audit", log, "--replay", str(study), "--witness", other], catch_exceptions=False)
    assert done.exit_code == 0
    assert "each of the server's" in done.output
    assert "and it has them all" in done.output


STUDY_FILE = """
name = "test"
[variables]
x0 = "continuous"
x1 = "continuous"
x2 = "continuous"
x3 = "continuous"
[method]
name = "notears"
[sites.site-01]
[sites.site-02]
[sites.site-03]
[sites.site-04]
"""
