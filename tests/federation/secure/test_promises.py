"""What a site refuses, so that no server can bring it to give away both of its masks; also after a restart."""

from __future__ import annotations

import numpy as np
import pytest
from secure_network import NAMES, Network, answers, carried

from feddag.errors import FeddagError
from feddag.federation.protocol import weighted_mean
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.secure import SecureRound, from_text, to_text


def masked_round(network: Network) -> tuple[SecureRound, dict, dict]:
    """A round up to the masked numbers: it, what the server passed on, and who survived."""
    round_ = network.open()
    relays = network.prepare(round_, NAMES)
    return round_, relays, network.mask(round_, relays, answers())


@pytest.mark.parametrize("restarted", [False, True])
def test_a_second_set_of_survivors_is_refused(restarted: bool):
    network = Network().set_up()
    _, _, survivors = masked_round(network)
    network.sites["east"].confirm(survivors)
    if restarted:
        network.restart("east")
    fewer = survivors | {"survivors": ["east", "north", "south", "west"]}
    with pytest.raises(
        FeddagError, match=r"Site east: in round 0, attempt 0 it stands for the sum of centre, east, .*"
    ):
        network.sites["east"].confirm(fewer)
    assert network.sites["east"].confirm(survivors)["survivors"] == sorted(NAMES)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_second_unmask_request_is_refused_and_the_first_may_be_repeated(restarted: bool):
    network = Network().set_up()
    round_, _, survivors = masked_round(network)
    unmask = network.confirm(round_, survivors, NAMES)
    first = network.sites["east"].reveal(unmask)
    if restarted:
        network.restart("east")
    with pytest.raises(FeddagError, match="refuses to unmask that of east, north, south"):
        network.sites["east"].reveal(unmask | {"survivors": ["east", "north", "south"]})
    assert network.sites["east"].reveal(unmask) == first


def test_a_server_that_tells_sites_of_different_survivors_unmasks_nothing():
    network = Network().set_up()
    _, _, survivors = masked_round(network)
    other = survivors | {"survivors": ["east", "north", "south", "west"]}
    told = dict.fromkeys(("east", "north", "centre"), survivors) | dict.fromkeys(("south", "west"), other)
    confirmations = {name: network.sites[name].confirm(message) for name, message in told.items()}
    request = {**survivors, "kind": "unmask", "confirmations": confirmations}
    with pytest.raises(FeddagError, match="Site east: the server showed south another sum"):
        network.sites["east"].reveal(request)
    minority = {name: confirmations[name] for name in ("south", "west")}
    with pytest.raises(FeddagError, match=r"only south, west have confirmed the sum .* at least 3 sites"):
        network.sites["south"].reveal({**other, "kind": "unmask", "confirmations": minority})


def test_confirmations_of_others_cannot_be_invented_or_renamed():
    network = Network().set_up()
    round_, _, survivors = masked_round(network)
    unmask = network.confirm(round_, survivors, NAMES[:3])
    north = unmask["confirmations"]["north"]
    for site in ("west", "nowhere"):
        with pytest.raises(FeddagError, match=f"a confirmation of north came as that of {site}"):
            network.sites["east"].reveal(unmask | {"confirmations": unmask["confirmations"] | {site: north}})
    renamed = north | {"site": "west"}
    with pytest.raises(FeddagError, match="Site west: the signature of its message 'confirmed' is wrong"):
        network.sites["east"].reveal(unmask | {"confirmations": unmask["confirmations"] | {"west": renamed}})


def test_survivors_below_the_threshold_without_the_site_or_unknown_are_refused():
    network = Network().set_up()
    _, _, survivors = masked_round(network)
    for names, message in [
        (["east", "north"], "only east, north have sent numbers .* at least 3"),
        (["north", "south", "west"], "must hold east"),
        (["east", "north", "nowhere"], "none but the members"),
    ]:
        with pytest.raises(FeddagError, match=message):
            network.sites["east"].confirm(survivors | {"survivors": names})
    with pytest.raises(FeddagError, match="part 'survivors' is missing or of the wrong form"):
        network.sites["east"].confirm(survivors | {"survivors": ["east", "north", "north"]})


def test_keys_of_fewer_sites_than_the_threshold_are_not_masked_for():
    network = Network().set_up()
    relay = network.prepare(network.open(), NAMES)["east"]
    two = {name: relay["keys"][name] for name in ("east", "north")}
    with pytest.raises(FeddagError, match="only east, north have made keys"):
        network.sites["east"].mask(relay | {"keys": two}, answers()["east"])


@pytest.mark.parametrize("new_session", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("revealed", [False, True])
def test_a_round_has_one_set_of_sites_in_every_attempt_and_session(new_session: bool, restarted: bool, revealed: bool):
    """The sums of two attempts with different members would give away what the others sent."""
    network = Network().set_up()
    if revealed:
        network.run(answers())
    else:
        round_, _, survivors = masked_round(network)
        network.confirm(round_, survivors, NAMES)
    if restarted:
        network.restart("east")
    if new_session:
        network.set_up()
    given = answers()
    round_ = network.open(0, 1)
    fewer = network.mask(round_, network.prepare(round_, NAMES), {name: given[name] for name in NAMES[:4]})
    with pytest.raises(RefusedError, match=r"stands for the sum of centre, east, .* of east, north, south") as refused:
        network.sites["east"].confirm(fewer)
    assert refused.value.reason is Refusal.ROSTER

    mean = network.run(given, number=0, attempt=2)
    np.testing.assert_array_equal(mean["U"], Network().set_up().run(given)["U"])
    assert network.run(answers(NAMES[:4]), number=1)


def test_a_set_of_sites_that_the_site_s_owner_does_not_permit_is_not_confirmed():
    network = Network().set_up()
    _, _, survivors = masked_round(network)
    asked = []

    def never(members: list[str]) -> None:
        asked.append(members)
        raise RefusedError(Refusal.ROSTER, "not with these")

    with pytest.raises(RefusedError, match="not with these"):
        network.sites["east"].confirm(survivors, never)
    assert asked == [sorted(NAMES)]
    assert from_text(network.kept["east"])["awaited"]["survivors"] == []
    assert network.sites["east"].confirm(survivors, asked.append)["survivors"] == sorted(NAMES)


def test_a_sum_that_must_hold_every_site_is_made_with_every_site():
    network = Network().set_up()
    part = network.open(participants=NAMES[:4])
    with pytest.raises(RefusedError, match=r"A secure sum of 4 sites .* must be of 5 at least") as refused:
        network.prepared("east", part.opening(), everyone=True)
    assert refused.value.reason is Refusal.ROSTER
    assert network.prepared("east", network.open().opening(), everyone=True)["key"]["threshold"] == 5


@pytest.mark.parametrize("restarted", [False, True])
def test_numbers_are_masked_once_per_attempt(restarted: bool):
    """Two vectors under one mask would give away their difference."""
    network = Network().set_up()
    _, relays, _ = masked_round(network)
    if restarted:
        network.restart("east")
    with pytest.raises(FeddagError, match="Site east: it has masked in round 0, attempt 0, and refuses 'relay' now"):
        network.sites["east"].mask(relays["east"], answers(seed=1)["east"])


def test_no_step_can_be_left_out():
    network = Network().set_up()
    round_, _, survivors = masked_round(network)
    unmask = network.confirm(round_, survivors, NAMES[:4])
    with pytest.raises(FeddagError, match=r"Site centre: it has masked .* refuses 'unmask' now"):
        network.sites["centre"].reveal(unmask)
    fresh = Network(seed=2)
    with pytest.raises(FeddagError, match="no round is under way"):
        fresh.sites["east"].confirm(survivors)
    with pytest.raises(FeddagError, match="a session that it is not in"):
        fresh.prepared("east", round_.opening())
    with pytest.raises(FeddagError, match="needs a session"):
        fresh.open()


def test_old_messages_are_refused_by_sites():
    network = Network().set_up()
    first = network.open(0, 0)
    relays = network.prepare(first, NAMES)
    opening = first.opening()
    again = network.open(0, 1)
    network.prepare(again, NAMES)
    with pytest.raises(FeddagError, match=r"round 0, attempt 0 comes after round 0, attempt 1. Numbers must rise"):
        network.prepared("east", opening)
    with pytest.raises(FeddagError, match="'relay' of round 0, attempt 0, but round 0, attempt 1 is under way"):
        network.sites["east"].mask(relays["east"], answers()["east"])
    network.set_up()
    with pytest.raises(FeddagError, match="a session that it is not in"):
        network.prepared("east", opening)


def test_old_keys_and_shares_are_refused_in_a_new_round():
    network = Network().set_up()
    old = network.prepare(network.open(0), NAMES)["east"]
    new = network.prepare(network.open(1), NAMES)["east"]
    given = answers()["east"]
    with pytest.raises(FeddagError, match="Site north sent a message 'key' of round 0"):
        network.sites["east"].mask(new | {"keys": new["keys"] | {"north": old["keys"]["north"]}}, given)
    with pytest.raises(FeddagError, match="Site north: its sealed shares for east were changed"):
        network.sites["east"].mask(new | {"shares": new["shares"] | {"north": old["shares"]["north"]}}, given)


def test_old_and_repeated_messages_are_refused_by_the_server():
    network = Network().set_up()
    network.run(answers())
    old = {(message["kind"], message["site"]): message for message in network.transcript}
    round_ = network.open(1)
    with pytest.raises(FeddagError, match="Site east sent a message 'key' of round 0, attempt 0, but round 1"):
        round_.add_prepared(old["prepared", "east"])
    relays = network.prepare(round_, NAMES)
    with pytest.raises(FeddagError, match="Site east has already answered in round 1"):
        round_.add_prepared(network.transcript[-5])
    with pytest.raises(FeddagError, match="Site east sent a message 'masked' of round 0"):
        round_.add_masked(old["masked", "east"])
    survivors = network.mask(round_, relays, {name: answer for name, answer in answers().items() if name != "west"})
    late = network.sites["west"].mask(relays["west"], answers()["west"])
    with pytest.raises(FeddagError, match="Site west answers too late"):
        round_.add_masked(late)
    with pytest.raises(FeddagError, match="'confirmed' of round 0"):
        round_.add_confirmed(old["confirmed", "east"])
    network.confirm(round_, survivors, ["east", "north", "south"])
    with pytest.raises(FeddagError, match="'revealed' of round 0"):
        round_.add_revealed(old["revealed", "east"])


def test_a_site_killed_after_any_message_goes_on_where_it_was():
    given = answers()
    network = Network().set_up()

    def restart_all():
        for name in NAMES:
            network.restart(name)

    round_ = network.open()
    restart_all()
    relays = network.prepare(round_, NAMES)
    restart_all()
    survivors = network.mask(round_, relays, {name: given[name] for name in NAMES if name != "south"})
    restart_all()
    unmask = network.confirm(round_, survivors, ["east", "north", "west"])
    restart_all()
    mean = network.reveal(round_, unmask, ["east", "north", "west"])
    plain = weighted_mean([answer for name, answer in given.items() if name != "south"])
    np.testing.assert_allclose(mean["U"], plain["U"], rtol=1e-12)


def test_promises_are_kept_before_a_message_leaves():
    """A site whose disk fails says nothing."""
    network = Network().set_up()
    _, _, survivors = masked_round(network)

    def full(state):
        raise OSError("disk full")

    network.sites["east"]._keep = full
    with pytest.raises(OSError, match="disk full"):
        network.sites["east"].confirm(survivors)
    network.sites["east"]._keep = lambda state: network.kept.update(east=to_text(state))
    network.sites["east"].confirm(survivors)
    assert from_text(network.kept["east"])["round"]["survivors"] == sorted(NAMES)


def test_secrets_are_forgotten_once_masked_and_shares_with_the_next_round():
    network = Network().set_up()
    masked_round(network)
    kept = from_text(network.kept["east"])["round"]
    assert kept["mask_key"] == kept["self_secret"] == b""
    old = set(kept["shares"].values())
    network.prepare(network.open(1), NAMES)
    assert not old & set(from_text(network.kept["east"])["round"]["shares"].values())


def test_the_state_of_another_site_is_refused():
    network = Network().set_up()
    network.kept["east"] = network.kept["west"]
    with pytest.raises(FeddagError, match="Site east: the kept state is that of west"):
        network.restart("east")


def test_a_damaged_state_is_refused():
    network = Network().set_up()
    for damaged in ({}, from_text(network.kept["east"]) | {"round": {"attempt": 1}}):
        network.kept["east"] = to_text(damaged)
        with pytest.raises(FeddagError, match=r"Site east: the kept state cannot be read .* set up a new session"):
            network.restart("east")


def test_a_site_refuses_a_round_that_is_not_its_own_or_too_small():
    network = Network(quorum=4).set_up()
    opening = network.open().opening()
    for participants, message in [
        (["north", "south", "west", "centre"], "east must be one"),
        (["east", "north", "south", "nowhere"], "Only those of this session"),
        (["east", "north", "south"], "must be of 4 at least"),
    ]:
        with pytest.raises(FeddagError, match=message):
            network.prepared("east", opening | {"participants": participants})


def test_messages_survive_text_with_any_names():
    message = {"bytes in base64": {"bytes in base64": b"\x00\xff"}, "list": [1, "é", b""]}
    assert carried(message) == message
    assert isinstance(to_text(message), str)
