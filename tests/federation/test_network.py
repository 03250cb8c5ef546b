"""A study on a network whose calls are function calls: real stations, real sums, every mishap."""

from __future__ import annotations

import errno
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import feddag.federation.station as module
from feddag import FeddagError, simulate
from feddag.federation.audit import verify
from feddag.federation.disclosures import DISCLOSURES
from feddag.federation.journal import Entry, Journal
from feddag.federation.network import Network, OutOfReachError, PausedError, Terms
from feddag.federation.participation import (
    StudyTable,
    assess,
    learn,
    noise_in_words,
    pinned_identities,
    secure_server,
    spent_privacy,
    study_forms,
    with_noise,
)
from feddag.federation.policy import Policy
from feddag.federation.protocol import Answer, Task
from feddag.federation.station import Membership, Station
from feddag.federation.wire import decode_task, encode_answer, encode_task
from feddag.study import Study
from feddag.trust import assess as assess_here

SIMULATION = simulate(4, mechanism="linear", sites=4, rows=[60, 80, 70, 90], seed=1)
NAMES = tuple(silo.name for silo in SIMULATION.silos)
LINEAR = 'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 3, it_fl = 500, seed = 1 }'


def study_of(method=LINEAR, *, secure=True, more=""):
    variables = "\n".join(f'{name} = "continuous"' for name in SIMULATION.silos[0].columns)
    sites = "\n".join(f"[sites.{name}]" for name in NAMES)
    return Study.parse(
        f'name = "test"\n[variables]\n{variables}\n[method]\n{method}\n{sites}\n'
        f"[privacy]\nsecure_sum = {str(secure).lower()}\n{more}"
    )


class Net:
    """All sites of a study as stations in folders of their own, any of which can be killed and started again."""

    def __init__(self, folder: Path, study: Study, wrap=lambda site: site) -> None:
        self.folder, self.study, self.wrap = folder, study, wrap
        self.stations: dict[str, Station] = {}
        self.before = lambda site, request, content: None
        """Called before a request reaches a site; what it raises is what the server sees."""
        self.after = lambda site, request, reply: reply
        self.requests: list[tuple[str, str]] = []
        self.timeout = 30.0
        self.told: list[str] = []
        for silo in SIMULATION.silos:
            self.start(silo)

    def start(self, silo) -> None:
        study = self.study
        if silo.name in self.stations:
            self.stations.pop(silo.name).close()
        self.stations[silo.name] = Station(
            self.folder / silo.name / "memory",
            Membership(
                study.digest,
                NAMES,
                NAMES.index(silo.name),
                study.federation.quorum,
                study.privacy.secure_sum,
                study.federation.timeout,
                pinned_identities(study),
                noise_in_words(study),
            ),
            self.wrap(StudyTable(study, study.silo(silo.name, silo.to_frame()))),
            forms=study_forms(study),
            rows=silo.rows,
            data=silo.digest(),
            policy=Policy(unprotected_sums=not study.privacy.secure_sum),
            tell=self.told.append,
        )

    def call(self, site):
        def called(request, content, timeout):
            self.requests.append((site, request))
            self.before(site, request, content)
            return self.after(site, request, self.stations[site].reply(request, content))

        return called

    def server(self, sites=NAMES) -> Network:
        terms = Terms(self.study.digest, NAMES, self.study.federation.quorum, self.timeout)
        calls = {site: self.call(site) for site in sites}
        return Network(terms, calls, Journal(self.folder / "journal"), self.told.append, secure_server(self.study))

    def learn(self, sites=NAMES):
        network = self.server(sites)
        try:
            network.open()
            return learn(self.study, network, lambda status: None), network
        finally:
            network.close()


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path, study_of())


def in_process(study):
    return study.learner().fit(study.silos({silo.name: silo.to_frame() for silo in SIMULATION.silos}))


@pytest.mark.parametrize(
    "method",
    [
        LINEAR,
        'name = "feddag"\nparameters = { sharing = "graph", it_max = 1, it_inner = 20, it_fl = 10, seed = 1 }',
        'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 2, participation = 3 }',
        'name = "notears-admm"\nparameters = { it_max = 20 }',
        'name = "notears"',
        'name = "search"\nparameters = { restarts = 0 }',
        'name = "search"\nparameters = { restarts = 0, sharing = "all" }',
        'name = "notears"\nregime = "voting"',
    ],
)
@pytest.mark.parametrize("secure", [True, False])
def test_a_network_gives_what_one_process_gives(tmp_path, method, secure):
    study = study_of(method, secure=secure)
    here = in_process(study)
    there, _ = Net(tmp_path, study).learn()
    # NOTEARS stops where its tolerance lets it, and the last digit of a sum decides where
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if "notears" in method else {"rtol": 1e-5, "atol": 1e-7}
    np.testing.assert_allclose(there.edge_scores_, here.edge_scores_, **tolerance)
    np.testing.assert_array_equal(there.adjacency_, here.adjacency_)


@pytest.mark.parametrize("scale", ["site", "federated"])
def test_units_are_agreed_on_as_the_study_says(tmp_path, scale):
    study = study_of('name = "notears"', more=f'[data]\nscale = "{scale}"\n')
    there, _ = Net(tmp_path, study).learn()
    np.testing.assert_allclose(there.edge_scores_, in_process(study).edge_scores_, rtol=1e-3, atol=1e-3)


def test_a_site_out_of_reach_is_done_without_if_there_is_a_quorum(net):
    def lost(site, request, content):
        if site == NAMES[2] and request == "work" and content["round"] >= 1:
            raise OutOfReachError("gone")

    net.before = lost
    learner, network = net.learn()
    assert list(network.absent) == [NAMES[2]]
    assert learner.graph_.names == SIMULATION.silos[0].columns


@pytest.mark.parametrize("request_", ["mask", "confirm", "reveal"])
def test_a_site_lost_in_the_middle_of_a_protected_sum_does_no_harm(net, request_):
    def lost(site, request, content):
        if site == NAMES[1] and request == request_:
            raise OutOfReachError("gone")

    net.before = lost
    _, network = net.learn()
    assert list(network.absent) == [NAMES[1]]


class SlowSites:
    """Sites that need longer than the study allows for the third round, and work on until it is done."""

    def __init__(self, net, *sites) -> None:
        self.net, self.sites = net, sites
        self.state = dict.fromkeys(sites, "in time")
        self.told: list[str] = []
        net.timeout = 0.01
        net.before, net.after = self.before, self.after

    def before(self, site, request, content):
        if site in self.sites and request == "late":
            self.told.append(site)
        if request == "work" and content["round"] == 2 and self.state.get(site) == "in time":
            self.state[site] = "slow"
            self.net.stations[site].reply(request, content)  # it works on, and nobody hears of it
            time.sleep(0.02)
            raise OutOfReachError("no reply in time")

    def after(self, site, request, reply):
        if request == "ping" and self.state.get(site) == "slow":
            self.state[site] = "done"
            return {"busy": True}
        return reply


def test_a_site_that_is_too_slow_is_done_without_until_it_has_finished(net, monkeypatch):
    monkeypatch.setattr("feddag.federation.network.PING_INTERVAL", 0.0)
    slow = SlowSites(net, NAMES[1])
    _, network = net.learn()
    assert not network.absent
    assert slow.told == [NAMES[1]]
    assert any(f"Site '{NAMES[1]}' is too slow: it took longer than the 0.01 seconds" in each for each in net.told)
    assert any("took longer than the 600 seconds that the study allows" in each for each in net.told)
    assert 0 < network.ledger.sent[NAMES[1]] < network.ledger.sent[NAMES[0]]


def test_slow_sites_without_whom_the_study_cannot_go_on_are_waited_for(net, tmp_path, monkeypatch):
    monkeypatch.setattr("feddag.federation.network.PING_INTERVAL", 0.0)
    undisturbed, _ = Net(tmp_path / "other", net.study).learn()
    SlowSites(net, *NAMES[:2])
    learner, network = net.learn()
    assert not network.absent
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)


def test_below_the_quorum_the_study_pauses_and_goes_on_later_as_if_nothing_had_happened(net, tmp_path):
    undisturbed, _ = Net(tmp_path / "other", net.study).learn()

    def lost(site, request, content):
        if site in NAMES[:2] and request == "work" and content["round"] == 2:
            raise OutOfReachError("gone")

    net.before = lost
    with pytest.raises(PausedError, match=r"2 sites .* needs 3 .*site-01: gone"):
        net.learn()
    net.before = lambda site, request, content: None
    for silo in SIMULATION.silos:
        net.start(silo)  # all were killed meanwhile
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)


@pytest.mark.parametrize("moment", ["mask", "reveal"])
def test_a_server_killed_in_mid_round_resumes_and_no_round_is_worked_on_twice(net, tmp_path, moment):
    class KilledError(BaseException):
        pass

    undisturbed, _ = Net(tmp_path / "other", net.study).learn()
    worked = {name: [] for name in NAMES}
    for name, station in net.stations.items():
        solve = station._site.answer

        def counted(task, name=name, solve=solve):
            worked[name].append(task.round)
            return solve(task)

        station._site.answer = counted

    def killed(site, request, content):
        if request == moment and len(net.server()._journal) == 2:
            raise KilledError

    net.before = killed
    with pytest.raises(KilledError):
        net.learn()
    net.before = lambda site, request, content: None
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)
    assert all(len(rounds) == len(set(rounds)) for rounds in worked.values())


def test_a_search_waits_for_a_site_since_scores_of_fewer_sites_do_not_compare(tmp_path):
    net = Net(tmp_path, study_of('name = "search"\nparameters = { restarts = 0 }'))
    with pytest.raises(PausedError, match=r"3 sites .* the study needs 4 \(site-04: not connected\)"):
        net.learn(NAMES[:3])
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.adjacency_, in_process(net.study).adjacency_)


def test_a_site_whose_data_changed_is_refused_on_both_sides(net):
    net.learn()
    net.stations[NAMES[0]].close()
    silo = SIMULATION.silos[0]
    changed = type(silo)(silo.name, silo.columns, silo.values + 1)
    with pytest.raises(FeddagError, match=r"'site-01': the data have changed since the study began\. Restore them"):
        net.start(changed)


def test_a_site_with_another_study_is_refused_on_both_sides(net, tmp_path):
    net.study = study_of(LINEAR.replace("seed = 1", "seed = 2"))
    net.start(SIMULATION.silos[0]) if not (net.folder / NAMES[0]).exists() else None
    with pytest.raises(FeddagError, match=r"'site-01' has agreed to the study .* the same study file"):
        net.learn()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_site_that_computes_no_finite_number_says_so_and_the_others_go_on(net, value):
    solve = net.stations[NAMES[3]]._site.answer

    def broken(task):
        answer = solve(task)
        return type(answer)(answer.weight, {name: np.full(array.shape, value) for name, array in answer.arrays.items()})

    net.stations[NAMES[3]]._site.answer = broken
    _, network = net.learn()
    assert "site-04" in network.refused
    assert "not finite" in network.refused["site-04"]


def test_a_server_refuses_an_answer_of_another_form_or_of_no_numbers(tmp_path):
    for tampered in (
        lambda reply: {"answer": encode_answer(Answer(1.0, {"W": np.zeros(3)}))},
        lambda reply: {"answer": b"nonsense"},
        lambda reply: {},
    ):
        net = Net(tmp_path / str(id(tampered)), study_of(secure=False))
        net.after = lambda site, request, reply, tampered=tampered: (
            tampered(reply) if (site, request) == (NAMES[1], "work") else reply
        )
        _, network = net.learn()
        assert list(network.refused) == [NAMES[1]]
        assert (NAMES[1], "refused") in net.requests
        assert any(message.startswith("the server takes no more answers of this site") for message in net.told)


def test_a_tampered_message_of_a_protected_sum_is_found_out(net):
    def tampered(site, request, reply):
        if (site, request) != (NAMES[0], "mask"):
            return reply
        vector = bytearray(reply["masked"]["vector"])
        vector[5] ^= 1
        return {"masked": {**reply["masked"], "vector": bytes(vector)}}

    net.after = tampered
    _, network = net.learn()
    assert "signature" in network.refused[NAMES[0]]


def test_a_full_disk_is_told_and_nothing_is_lost(net, monkeypatch):
    save = module.save_checkpoint

    def full(path, document, arrays):
        if NAMES[2] in str(path) and document["round"] == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(path, document, arrays)

    monkeypatch.setattr(module, "save_checkpoint", full)
    _, network = net.learn()
    memory = net.folder / NAMES[2] / "memory"
    assert network.refused[NAMES[2]] == (
        f"Site '{NAMES[2]}': {memory}: No space left on device. Make room there, and run the study again: what was "
        "done is kept."
    )


def test_a_journal_that_finds_no_room_says_so_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal")
    entry = Entry("digest", {"W": np.zeros(3)}, 3, {}, {})

    def full(stream, **arrays):
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(np, "savez", full)
        with pytest.raises(FeddagError, match=r"journal: No space left on device\. Make room there, and run the study"):
            journal.write(0, entry)
    assert not list((tmp_path / "journal").iterdir())
    journal.write(0, entry)
    assert len(journal) == 1


def test_a_site_answers_no_task_but_the_study_s(net):
    station = net.stations[NAMES[0]]
    reply = station.reply("work", {"round": 0, "task": encode_task(Task("os.system", 0, {}, {}, (0, 1, 2, 3)))})
    assert set(reply) == {"error"}
    assert set(station.reply("eval", {"code": "1"})) == {"error"}
    assert set(station.reply("work", {"round": 0, "task": b"\x80\x04pickle"})) == {"error"}
    assert set(station.reply("work", {})) == {"error"}


def test_a_site_refuses_a_task_out_of_range_in_words_on_both_sides(net):
    asked = []

    def watched(site, request, content):
        if request == "work":
            asked.append(content)

    net.before = watched
    net.learn()
    station, task = net.stations[NAMES[0]], decode_task(asked[-1]["task"])
    hostile = replace(task, numbers={**task.numbers, "rho": 1e30})
    reply = station.reply("work", {**asked[-1], "round": 10**6, "task": encode_task(hostile)})
    assert "Site 'site-01' refuses feddag.solve: rho must be between" in reply["error"]
    assert reply["error"] in net.told
    assert "no whole number" in station.reply("work", {**asked[-1], "round": "7"})["error"]
    assert station._memory.round == asked[-1]["round"]  # nothing was worked on


def test_a_site_s_own_policy_has_the_last_word(tmp_path):
    study = study_of(secure=False)
    with pytest.raises(FeddagError, match="unprotected_sums"):
        Station(
            tmp_path / "memory",
            Membership(study.digest, NAMES, 0, 3, secure_sum=False),
            StudyTable(study, SIMULATION.silos[0]),
            forms=study_forms(study),
            rows=60,
            data="",
            policy=Policy(),
            tell=print,
        )


def test_all_that_left_a_site_stands_in_its_log(net):
    net.learn()
    summary = verify(net.folder / NAMES[0] / "memory" / "audit.jsonl")
    sent = [flow for flow in summary.flows if flow.direction == "out" and flow.task == "feddag.solve"]
    assert [(flow.protection, flow.sites) for flow in sent] == [("secure sum", 4)]
    assert sent[0].messages == len(net.server()._journal)
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
            for written in (np.float64(value).tobytes(), np.float32(value).tobytes(), f"{value:.6g}".encode()):
                assert written not in transcript


def _bytes(message):
    if isinstance(message, bytes):
        yield message
    elif isinstance(message, dict):
        for each in message.values():
            yield from _bytes(each)


def test_a_study_s_privacy_budget_cannot_be_overrun(tmp_path):
    study = study_of(more="[privacy.differential]\nepsilon = 1.0\nrounds = 2\n")

    def private(site):
        (tmp_path / site.name).mkdir(exist_ok=True)
        return with_noise(study, site, tmp_path / site.name)

    net = Net(tmp_path, study, private)
    with pytest.raises(FeddagError, match=r"could not work on feddag.solve\. Its own log says why"):
        net.learn()
    assert any("The privacy budget" in message for message in net.told)
    spent = json.loads((tmp_path / NAMES[0] / "privacy.json").read_text())["noise_multipliers"]
    assert len(spent) == len(net.server()._journal) == 2
    assert spent_privacy(study, 2)["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert spent_privacy(study, 1)["epsilon"] < 0.8
    flows = verify(net.folder / NAMES[0] / "memory" / "audit.jsonl").flows
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

    net.stations[NAMES[0]]._site.answer = complaining
    _, network = net.learn()
    assert network.refused == {NAMES[0]: "Site 'site-01' could not work on feddag.solve. Its own log says why."}
    assert any("123.456" in message for message in net.told)


ON = "[trust]\nassess = true\n"
CHECKS = {"moments.sums", "moments.products", "trust.rows", "trust.held-out"}


def learned_and_assessed(net):
    network = net.server()
    try:
        network.open()
        learner = learn(net.study, network, lambda status: None)
        return learner, assess(net.study, learner, network, net.told.append)
    finally:
        network.close()


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
    flows = verify(net.folder / NAMES[0] / "memory" / "audit.jsonl").flows
    sent = {flow.task: flow for flow in flows if flow.direction == "out"}
    assert set(sent) >= CHECKS
    for task in CHECKS:
        assert (sent[task].protection, sent[task].sites) == ("secure sum", 4)
        assert all(DISCLOSURES[task].words(array) for array in sent[task].arrays)


def test_without_the_study_s_word_nothing_is_asked_and_nothing_answered(tmp_path):
    net = Net(tmp_path, study_of())
    assert learned_and_assessed(net)[1] is None
    flows = verify(net.folder / NAMES[0] / "memory" / "audit.jsonl").flows
    assert not CHECKS & {flow.task for flow in flows}
    task = encode_task(Task("trust.rows", 0, {}, {}, (0, 1, 2, 3)))
    assert "error" in net.stations[NAMES[0]].reply("work", {"round": 99, "task": task})


def test_other_questions_of_trust_stay_unanswered():
    known = set(study_forms(study_of(more=ON)))
    assert {name for name in DISCLOSURES if name.startswith("trust.")} & known == {"trust.rows", "trust.held-out"}


def test_a_policy_that_does_not_allow_the_checks_costs_the_checks_and_not_the_graph(tmp_path):
    net = Net(tmp_path, study_of(more=ON))
    net.stations[NAMES[2]]._policy = Policy(tasks=("feddag.*", "moments.*"))
    learner, assessment = learned_and_assessed(net)
    assert learner.graph_.names == SIMULATION.silos[0].columns
    assert assessment is None
    assert any("The graph is not assessed" in each and "'trust.held-out'" in each for each in net.told)


def test_after_a_site_was_lost_in_the_checks_the_same_study_makes_up_for_them(tmp_path):
    net = Net(tmp_path, study_of(more=ON))

    def lost(site, request, content):
        if site == NAMES[1] and request == "work" and b"trust.held-out" in content["task"]:
            raise OutOfReachError("gone")

    net.before = lost
    learner, assessment = learned_and_assessed(net)
    assert assessment is None
    net.before = lambda site, request, content: None
    rounds = len(net.server()._journal)
    again, assessment = learned_and_assessed(net)
    np.testing.assert_array_equal(again.edge_scores_, learner.edge_scores_)
    assert assessment is not None
    assert len(net.server()._journal) == rounds + 2
