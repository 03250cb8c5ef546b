"""Sites and servers that are lost, slow or killed."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from endpoints_by_call import NAMES, SIMULATION, Net, from_round, in_process, lose, study_of

from feddag import CausalGraph, FeddagError
from feddag.federation.calls import OutOfReachError, PausedError
from feddag.federation.journal import Journal
from feddag.federation.refusals import Refusal
from feddag.learners.checkpointing import FitContext


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the study of `net` learns if nothing happens."""
    return Net(tmp_path_factory.mktemp("undisturbed"), study_of()).learn()[0]


def test_a_site_out_of_reach_is_done_without_if_sums_may_tell_about_it(loose_net):
    loose_net.before = lose("work", NAMES[2], when=from_round(1))
    learner, network = loose_net.learn()
    assert list(network.absent) == [NAMES[2]]
    assert learner.graph_.names == SIMULATION.silos[0].columns


def test_a_site_that_never_came_is_done_without_and_stays_out(net):
    def lost(site, request, content):
        lose("work", NAMES[2], when=from_round(0))(site, request, content)
        lose("work", NAMES[0], when=from_round(1))(site, request, content)

    net.before = lost
    with pytest.raises(PausedError, match="2 sites can be asked for round 2"):
        net.learn()
    assert {step_members(net, k) for k in range(net.server().rounds)} == {tuple(n for n in NAMES if n != NAMES[2])}
    net.let_through()
    _, network = net.learn()
    assert not network.absent
    assert not network.refused
    assert {step_members(net, k) for k in range(network.rounds)} == {tuple(n for n in NAMES if n != NAMES[2])}


def test_a_rerun_says_that_its_result_is_from_the_journal_and_who_refused(net):
    first = net.run(net.server())
    assert first.record["federation"]["from_journal"] == 0
    assert set(first.record["federation"]["sums"].values()) == {first.record["federation"]["rounds"]}
    assert not any("journal" in each for each in net.told)
    declined = {"refusal": Refusal.DECLINED.word}
    net.after = lambda site, request, reply: declined if site == NAMES[1] else reply
    again = net.run(net.server())
    rounds = first.record["federation"]["rounds"]
    assert again.record["federation"]["from_journal"] == rounds
    assert list(again.record["federation"]["refused"]) == [NAMES[1]]
    assert any(f"All {rounds} rounds come from the server's journal" in each for each in net.told)


def test_a_result_that_is_partly_from_the_journal_says_how_much(net):
    net.before = lose("work", NAMES[2], when=from_round(1))
    with pytest.raises(PausedError):
        net.learn()
    net.let_through()
    record = net.run(net.server()).record["federation"]
    assert record["from_journal"] == 1
    assert f"1 of {record['rounds']} rounds come from the server's journal" in " ".join(net.told)


def test_edges_of_open_direction_count_as_edges(net):
    result = net.run(net.server())
    graph = result.learner.graph_
    result.learner.graph_ = CausalGraph(np.eye(4, k=1) + np.eye(4, k=-1), graph.names)
    assert result.message.startswith("3 edges, 3 of open direction, after")


def step_members(net, round_):
    return Journal(net.folder / "journal").read(round_).step.members


def test_a_site_out_of_reach_is_waited_for_where_the_others_sum_would_tell_about_it(net, undisturbed):
    net.before = lose("work", NAMES[2], when=from_round(1))
    with pytest.raises(PausedError, match=rf"waits for {NAMES[2]} \(gone\): .* tell about fewer than 3 sites"):
        net.learn()
    net.let_through()
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)


@pytest.mark.parametrize("request_", ["mask", "confirm", "reveal"])
def test_a_site_lost_in_the_middle_of_a_protected_sum_does_no_harm(loose_net, request_):
    loose_net.before = lose(request_, NAMES[1])
    _, network = loose_net.learn()
    assert list(network.absent) == [NAMES[1]]


def test_a_site_cut_off_while_its_sum_is_confirmed_goes_on_once_it_is_back(net, undisturbed):
    net.before = lose("confirm", NAMES[1])
    with pytest.raises(PausedError, match=rf"waits for {NAMES[1]} \(gone\)"):
        net.learn()
    net.let_through()
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)


class SlowSites:
    """Sites that need longer than the study allows for the third round, and work on until it is done."""

    def __init__(self, net, *sites) -> None:
        self.net, self.sites = net, sites
        self.state = dict.fromkeys(sites, "in time")
        self.told: list[str] = []
        net.before, net.after = self.before, self.after

    def before(self, site, request, content):
        if site in self.sites and request == "late":
            self.told.append(site)
        if request == "work" and content["round"] == 2 and self.state.get(site) == "in time":
            self.state[site] = "slow"
            self.net.sites[site].reply(request, content)  # it works on, and nobody hears of it
            time.sleep(0.02)
            raise OutOfReachError("no reply in time")

    def after(self, site, request, reply):
        if request == "ping" and self.state.get(site) == "slow":
            self.state[site] = "done"
            return {"busy": True}
        return reply


BRIEF = 0.01
"""Seconds between two pings; without a pause the server would take the processor from its sites."""
IMPATIENT = "[federation]\ntimeout = 0.01\nminimum_sites = 1\n"


def test_a_site_that_is_too_slow_is_done_without_until_it_has_finished(tmp_path, monkeypatch):
    monkeypatch.setattr("feddag.federation.calls.PING_INTERVAL", BRIEF)
    net = Net(tmp_path, study_of(more=IMPATIENT))
    slow = SlowSites(net, NAMES[1])
    _, network = net.learn()
    assert not network.absent
    assert slow.told == [NAMES[1]]
    assert any(f"Site '{NAMES[1]}' is too slow: it took longer than the 0.01 seconds" in each for each in net.told)
    assert any("took longer than the 0.01 seconds that the study allows" in each for each in net.told)
    assert 0 < network.ledger.sent[NAMES[1]] < network.ledger.sent[NAMES[0]]


def test_slow_sites_without_whom_the_study_cannot_go_on_are_waited_for(tmp_path, monkeypatch, undisturbed):
    monkeypatch.setattr("feddag.federation.calls.PING_INTERVAL", BRIEF)
    net = Net(tmp_path, study_of(more=IMPATIENT))
    SlowSites(net, *NAMES[:2])
    learner, network = net.learn()
    assert not network.absent
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)


def test_below_the_quorum_the_study_pauses_and_goes_on_later_as_if_nothing_had_happened(net, undisturbed):
    net.before = lose("work", *NAMES[:2], when=from_round(2))
    with pytest.raises(PausedError, match=r"2 sites .* needs 3 .*site-01: gone"):
        net.learn()
    net.let_through()
    for silo in SIMULATION.silos:
        net.start(silo)  # all were killed meanwhile
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)


@pytest.mark.parametrize("moment", ["mask", "reveal"])
def test_a_server_killed_in_mid_round_resumes_and_no_round_is_worked_on_twice(net, undisturbed, moment):
    worked = {name: [] for name in NAMES}
    for name, site in net.sites.items():
        solve = site._site.answer

        def counted(task, name=name, solve=solve):
            worked[name].append(task.round)
            return solve(task)

        site._site.answer = counted

    def killed(site, request, content):
        if request == moment and net.server().rounds == 2:
            raise KilledError

    net.before = killed
    with pytest.raises(KilledError):
        net.learn()
    net.let_through()
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.edge_scores_, undisturbed.edge_scores_)
    assert all(len(rounds) == len(set(rounds)) for rounds in worked.values())


class KilledError(BaseException):
    """The server's process ends."""


def kill_the_server(net, promised, lost=None):
    """Kill the server in the third round, once these sites have promised to enter the sum of all but a lost one."""
    have_promised = {site: Event() for site in promised}

    def before(site, request, content):
        lose("work", lost, when=from_round(2))(site, request, content)
        if request == "confirm" and net.server().rounds == 2 and site not in promised:
            for each in have_promised.values():
                each.wait()
            raise KilledError

    def after(site, request, reply):
        if request == "confirm" and net.server().rounds == 2:
            have_promised[site].set()
            raise KilledError
        return reply

    net.before, net.after = before, after
    with pytest.raises(KilledError):
        net.learn()
    net.let_through()


@pytest.mark.parametrize("promised", [NAMES[:3], NAMES[:2], NAMES[:1], ()], ids=len)
def test_a_server_killed_before_it_has_a_sum_asks_for_the_sum_that_sites_have_promised(loose_net, promised):
    kill_the_server(loose_net, promised, lost=NAMES[3])
    _, server = loose_net.learn()
    assert not server.refused
    assert step_members(loose_net, 2) == NAMES[:3]
    assert {step_members(loose_net, k) for k in range(3, server.rounds)} == {NAMES}


@pytest.mark.parametrize("moment", ["join", "work", "mask"])
def test_the_one_sum_that_a_round_can_have_waits_for_its_members(loose_net, moment):
    kill_the_server(loose_net, NAMES[:2])
    loose_net.before = lose(moment, NAMES[3])
    with pytest.raises(PausedError, match=rf"Round 3 waits for {NAMES[3]} \(gone\): the others may have promised"):
        loose_net.learn()
    loose_net.let_through()
    _, server = loose_net.learn()
    assert not server.refused
    assert step_members(loose_net, 2) == NAMES


def test_a_sum_that_all_sites_refuse_binds_nobody(loose_net):
    for site in loose_net.sites.values():
        site._policy = replace(site._policy, minimum_sites=3)  # stricter than the study
    loose_net.before = lose("work", NAMES[3], when=from_round(2))
    with pytest.raises(FeddagError, match=r"0 sites .* needs 3"):
        loose_net.learn()
    loose_net.let_through()
    _, server = loose_net.learn()
    assert not server.refused
    assert step_members(loose_net, 2) == NAMES


def test_a_slow_member_of_the_one_sum_that_a_round_can_have_is_waited_for_in_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setattr("feddag.federation.calls.PING_INTERVAL", BRIEF)
    net = Net(tmp_path, study_of(more=IMPATIENT))
    kill_the_server(net, NAMES[:2])
    SlowSites(net, NAMES[3])
    _, server = net.learn()
    assert not server.absent
    assert step_members(net, 2) == NAMES


def test_a_search_with_a_time_budget_that_is_resumed_after_its_time_ends_as_it_had_decided(tmp_path, monkeypatch):
    time_ = {"now": 0.0}
    monkeypatch.setattr(FitContext, "seconds", property(lambda _: time_["now"]))
    study = study_of('name = "search"\nparameters = { restarts = 2, time_budget = 1.0, noise = "equal" }')
    undisturbed, server = Net(tmp_path / "other", study).learn()
    net, last = Net(tmp_path / "net", study), server.rounds - 1

    def killed(site, request, content):
        if request == "work" and content["round"] == last:
            raise KilledError

    net.before = killed
    with pytest.raises(KilledError):
        net.learn()
    net.let_through()
    time_["now"] = 100.0
    learner, server = net.learn()
    assert server.rounds == last + 1
    np.testing.assert_array_equal(learner.edge_frequencies_, undisturbed.edge_frequencies_)
    np.testing.assert_array_equal(learner.adjacency_, undisturbed.adjacency_)


def test_a_search_waits_for_a_site_since_scores_of_fewer_sites_do_not_compare(tmp_path):
    net = Net(tmp_path, study_of('name = "search"\nparameters = { restarts = 0 }'))
    with pytest.raises(
        PausedError,
        match=r"3 sites .* needs 4, since such a sum means nothing without every site \(site-04: not connected\)",
    ):
        net.learn(NAMES[:3])
    learner, _ = net.learn()
    np.testing.assert_array_equal(learner.adjacency_, in_process(net.study).adjacency_)
