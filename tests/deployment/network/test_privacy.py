"""What a site answers, what its policy and its budget refuse, and what stands in its log."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from endpoints_by_call import IDENTITIES, NAMES, SIMULATION, Net, study_of

from feddag import FeddagError
from feddag.deployment.server import spent_privacy
from feddag.deployment.site import build_site
from feddag.federation.audit import verify
from feddag.federation.course import same_question
from feddag.federation.policy import SHARING, Policy
from feddag.federation.protocol import Task
from feddag.federation.refusals import Refusal
from feddag.federation.site_endpoint import audit_log
from feddag.federation.wire import decode_task, encode_task


def asked_of(net, site=NAMES[0]):
    """All that the server asks a site in a study, round by round."""
    asked = []

    def watched(to, request, content):
        if request == "work" and to == site:
            asked.append(content)

    net.before = watched
    net.learn()
    return asked


def test_a_site_answers_no_task_but_the_study_s(net):
    site, first = net.sites[NAMES[0]], {"round": 0, "decisions": {}, "course": {"from": 0, "steps": []}}
    refused = {"refusal": "question"}
    assert site.reply("work", {**first, "task": encode_task(Task("os.system", 0, {}, {}, (0, 1, 2, 3)))}) == refused
    assert site.reply("eval", {"code": "1"}) == {"refusal": "protocol"}
    assert site.reply("work", {**first, "task": b"\x80\x04pickle"}) == {"refusal": "declined"}
    assert site.reply("work", {}) == {"refusal": "protocol"}


def test_a_site_refuses_all_but_the_question_that_the_study_s_method_asks_now(tmp_path):
    asked = asked_of(Net(tmp_path / "seen", study_of()))
    for place, honest in enumerate(asked[:4]):
        task = decode_task(honest["task"])
        for hostile in (
            replace(task, numbers={**task.numbers, "rho": task.numbers["rho"] * 1.001}),
            replace(task, participants=(0, 1, 2)),
            replace(task, round=task.round + 1),
            replace(task, arrays={name: array + 1e-3 for name, array in task.arrays.items()}),
        ):
            site = Net(tmp_path / f"{place}-{id(hostile)}", study_of()).sites[NAMES[0]]
            if place == 0:  # the later rounds are of a session that is over, and are not answered for that
                assert site.reply("work", {**honest, "task": encode_task(hostile)}) == {"refusal": "question"}
            assert site._memory.round == -1  # nothing was worked on


def test_numbers_that_another_processor_has_rounded_are_the_same_question(net):
    first = asked_of(net)[0]
    task = decode_task(first["task"])
    rounded = replace(task, numbers={name: value * (1 + 1e-12) for name, value in task.numbers.items()})
    assert encode_task(rounded) != first["task"]
    assert same_question(task, encode_task(rounded))
    assert not same_question(task, encode_task(replace(task, numbers={**task.numbers, "rho": 2 * task.numbers["rho"]})))


def test_a_site_s_own_policy_has_the_last_word(tmp_path):
    study = study_of(secure=False)
    with pytest.raises(FeddagError, match="unprotected_sums"):
        build_site(
            study,
            SIMULATION.silos[0],
            tmp_path / "a",
            tmp_path / "b",
            IDENTITIES[NAMES[0]],
            Policy(sharing=SHARING),
            print,
        )


def test_all_that_left_a_site_stands_in_its_log(net):
    net.learn()
    summary = verify(audit_log(net.memory(NAMES[0])))
    sent = [flow for flow in summary.flows if flow.direction == "out" and flow.task == "feddag.solve"]
    assert [(flow.protection, flow.sites) for flow in sent] == [("secure sum", 4)]
    assert sent[0].messages == net.server().rounds
    assert set(sent[0].arrays) == {"graph"}


def test_no_value_of_a_table_stands_in_what_the_server_ever_saw(net):
    seen = []

    def watched(site, request, reply):
        seen.append(repr(reply).encode() + b"".join(_bytes(reply)))
        return reply

    net.after = watched
    net.learn()
    kept = b"".join(path.read_bytes() for path in (net.folder / "journal").iterdir())
    transcript = b"".join(seen) + kept
    for silo in SIMULATION.silos:
        for value in silo.values.ravel():
            for written in (np.float64(value).tobytes(), f"{value:.6g}".encode()):
                assert written not in transcript
        # four bytes occur among random masks by chance, eight do not: neighbours in a row, and in a column
        single = silo.values.astype(np.float32)
        for first, second in ((single[:, :-1], single[:, 1:]), (single[:-1], single[1:])):
            for pair in np.stack([first.ravel(), second.ravel()], axis=1):
                assert pair.tobytes() not in transcript


def _bytes(message):
    if isinstance(message, bytes):
        yield message
    elif isinstance(message, dict):
        for each in message.values():
            yield from _bytes(each)


def test_a_study_s_privacy_budget_cannot_be_overrun(tmp_path):
    study = study_of(more="[privacy.differential]\nepsilon = 1.0\nrounds = 2\n")

    net = Net(tmp_path, study)
    with pytest.raises(FeddagError, match="its own log says why"):
        net.learn()
    assert any("The privacy budget" in message for message in net.told)
    spent = json.loads((net.memory(NAMES[0]) / "privacy.json").read_text())["noise_multipliers"]
    assert len(spent) == net.server().rounds == 2
    assert spent_privacy(study, 2)["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert spent_privacy(study, 1)["epsilon"] < 0.8
    flows = verify(audit_log(net.memory(NAMES[0]))).flows
    assert "secure sum + dp(ε=1, δ=1e-05)" in {flow.protection for flow in flows}


def test_a_journal_of_another_study_is_refused(net):
    net.learn()
    other = net.server()
    task = Task("feddag.solve", 0, {"steps": 1.0}, {}, (0, 1, 2, 3))
    with pytest.raises(FeddagError, match="answers another task than round 1"):
        other.aggregate(task)


def test_what_a_site_says_of_its_values_stays_there(net):
    def complaining(task):
        raise FeddagError("Site 'site-01': 123.456 in row 7 is odd")

    net.sites[NAMES[0]]._site.answer = complaining
    _, network = net.learn()
    assert network.refused == {NAMES[0]: Refusal.DECLINED.meaning}
    assert any("123.456" in message for message in net.told)
