"""Sites that are changed, broken or tampered with, and full disks."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from endpoints_by_call import AUTHORITY, LINEAR, NAMES, SIMULATION, Net, study_of

import feddag.federation.site_endpoint as module
from feddag import FeddagError
from feddag.deployment.site import changed_table
from feddag.federation.journal import Entry, Journal
from feddag.federation.protocol import Answer
from feddag.federation.refusals import Refusal
from feddag.federation.steps import Step, plain_mean
from feddag.federation.wire import encode_answer
from feddag.study import Study


def test_a_site_whose_data_changed_takes_no_part_until_they_are_restored(net):
    learner, _ = net.learn()
    net.sites.pop(NAMES[0]).close()
    silo = SIMULATION.silos[0]
    changed = type(silo)(silo.name, silo.columns, silo.values + 1)
    with pytest.raises(FeddagError, match=r"'site-01': the data have changed since the study began\. Restore them"):
        net.start(changed)
    (warning,) = changed_table(net.study, changed, net.memory(NAMES[0]))
    assert "the data have changed since the study began" in warning
    assert changed_table(net.study, silo, net.memory(NAMES[0])) == []
    net.start(silo)
    np.testing.assert_array_equal(net.learn()[0].edge_scores_, learner.edge_scores_)


def test_a_study_whose_journal_is_lost_begins_anew_with_the_consent_of_all_and_its_numbers_still_count(net):
    learner = net.learn()[0]
    before = {name: net.sites[name]._table.numbers for name in NAMES}
    shutil.rmtree(net.folder / "journal")
    with pytest.raises(FeddagError):
        net.learn()
    assert any("begin anew, with feddag study anew" in each for each in net.told)
    net.study = Study.of({**net.study.document(), "attempt": 2})
    for silo in SIMULATION.silos:
        net.start(silo)
    again = net.learn()[0]
    np.testing.assert_array_equal(again.edge_scores_, learner.edge_scores_)
    for name in NAMES:
        assert net.sites[name]._table.numbers >= before[name] > 0


def test_a_certificate_that_soon_ends_is_told_to_whoever_runs_the_study(net):
    own, ends = net.identities[NAMES[1]], datetime.now(UTC) + timedelta(days=5)
    certificate = AUTHORITY.certify_identity(own.name, own.public, ends=ends)
    net.identities[NAMES[1]] = replace(own, certificate=certificate)
    net.start(SIMULATION.silos[1])
    net.learn()
    told = [each for each in net.told if "expires on" in each]
    assert told == [
        f"The certificate of site 'site-02' expires on {ends:%Y-%m-%d}. Have it renewed: feddag federation renew"
    ]


def test_sites_with_another_study_say_so_and_the_server_names_each(net):
    theirs, net.study = net.study.digest, study_of(LINEAR.replace("seed = 1", "seed = 2"))
    server = net.server()
    with pytest.raises(FeddagError, match=r"0 sites take part, and the study needs 3 .* run the study again"):
        net.run(server)
    for site in NAMES:
        words = f"has agreed to the study {theirs[:12]}…, and the server runs {net.study.digest[:12]}…"
        assert server.refused[site] == Refusal.STUDY.meaning
        assert any(words in each for each in net.told if each.startswith(f"{site}:"))  # the site's own terminal
    assert server.rounds == 0


def test_one_site_with_another_study_is_done_without(net):
    agreed, net.study = net.study, study_of(LINEAR.replace("seed = 1", "seed = 2"))
    net.start(SIMULATION.silos[0])  # a new study has a folder of its own
    net.study = agreed
    _, server = net.learn()
    assert list(server.refused) == [NAMES[0]]
    assert "the same study file" in server.refused[NAMES[0]]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_numbers_that_cannot_be_summed_are_counted_in_the_sum_and_named_at_their_site_alone(net, value):
    solve = net.sites[NAMES[3]]._site.answer

    def broken(task):
        answer = solve(task)
        return type(answer)(answer.weight, {name: np.full_like(array, value) for name, array in answer.arrays.items()})

    net.sites[NAMES[3]]._site.answer = broken
    with pytest.raises(
        FeddagError, match=r"Round 1: 16 numbers of the sites were too large to be summed, or no numbers"
    ):
        net.learn()
    named = [each for each in net.told if "too large for the sum" in each]
    assert named
    assert all(each.startswith(NAMES[3]) for each in named)


def test_a_claimed_weight_beyond_what_the_study_allows_is_refused(tmp_path):
    for secure in (True, False):
        net = Net(tmp_path / str(secure), study_of(secure=secure))
        solve = net.sites[NAMES[3]]._site.answer
        net.sites[NAMES[3]]._site.answer = lambda task, solve=solve: replace(solve(task), weight=1e12)
        if secure:  # nobody sees whose it is
            with pytest.raises(FeddagError, match=r"4 sites claim a weight of 1e\+12, and the study allows 1e\+07"):
                net.learn()
        else:
            _, network = net.learn()
            assert "claims a weight of 1e+12" in network.refused[NAMES[3]]


def test_a_first_site_with_another_layout_is_the_one_turned_away(net):
    solve = net.sites[NAMES[0]]._site.answer
    net.sites[NAMES[0]]._site.answer = lambda task: replace(
        solve(task), arrays={name: array.astype(np.float64) for name, array in solve(task).arrays.items()}
    )
    _, network = net.learn()
    assert list(network.refused) == [NAMES[0]]
    assert "and others" in network.refused[NAMES[0]]


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
        assert any("the server takes no more answers of this site" in message for message in net.told)


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
    with pytest.raises(FeddagError, match=rf"waits for {NAMES[2]} \(its own log says why\).* run the study again"):
        net.learn()
    told = f"{net.memory(NAMES[2])}: No space left on device. Make room there, and run the study again"
    assert any(told in each for each in net.told)
    monkeypatch.setattr(module, "save_checkpoint", save)
    net.learn()


def test_a_journal_that_finds_no_room_says_so_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal")
    entry = Entry(Step("digest", {}, plain_mean({"W": np.zeros(3)}, NAMES)))

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(FeddagError, match=r"journal: No space left on device\. Make room there, and run the study"):
            journal.write(0, entry)
    assert not list((tmp_path / "journal").iterdir())
    journal.write(0, entry)
    assert len(journal) == 1
