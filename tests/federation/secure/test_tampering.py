"""A bit that is flipped on the way, and a key that is exchanged, are noticed, and the site is named."""

from __future__ import annotations

from typing import Any

import pytest
from secure_network import AUTHORITY, HEAD, NAMES, QUESTION, STUDY, TRUST, Network, answers, carried

from feddag.errors import FeddagError
from feddag.federation.identities import public_identity
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.secure import SecureServer, SecureSite
from feddag.federation.secure.messages import FIELDS, sign
from feddag.federation.terms import StudyTerms


def flipped(content: bytes, bit: int = 77) -> bytes:
    place = bit % (8 * len(content))
    changed = bytearray(content)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def changes(content: Any) -> list[Any]:
    """The content with one thing in it changed, once for each place."""
    match content:
        case bytes():
            return [flipped(content)]
        case int():
            return [content + 1]
        case str():
            return [content + "!"]
        case list():
            return [
                [*content[:k], each, *content[k + 1 :]] for k in range(len(content)) for each in changes(content[k])
            ]
        case dict():
            return [content | {name: each} for name in content for each in changes(content[name])]
    raise TypeError(content)


def test_every_bit_of_a_masked_vector_and_of_its_check_counts():
    network = Network().set_up()
    round_ = network.open()
    masked = network.sites["east"].mask(network.prepare(round_, NAMES)["east"], answers()["east"])
    for bit in (0, 1000, 8 * len(masked["vector"]) - 1):
        with pytest.raises(FeddagError, match="Site east: the signature of its message 'masked' is wrong"):
            round_.add_masked(masked | {"vector": flipped(masked["vector"], bit)})
    with pytest.raises(FeddagError, match="Site east: the signature of its message 'masked' is wrong"):
        round_.add_masked(masked | {"check": flipped(masked["check"])})
    round_.add_masked(masked)


def test_any_change_of_any_signed_message_to_the_server_is_refused():
    network = Network().set_up()
    fresh = {name: network.site(name).advertise() for name in NAMES}
    network.set_up()
    network.run(answers(), {"west": "mask"})
    messages = {message["kind"]: message for message in network.transcript if message["site"] == "east"}
    messages["advertisement"] = fresh["east"]

    for kind in ("advertisement", "prepared", "masked", "confirmed", "revealed"):
        for message in changes(messages[kind]):
            if kind == "prepared" and message["key"] == messages[kind]["key"] and message["site"] == "east":
                continue  # sealed shares: noticed by the site that opens them
            other = Network().set_up() if kind == "advertisement" else network
            server, round_ = _server_at(other, kind)
            with pytest.raises(FeddagError, match=r"[Ss]ite"):
                server.add_advertisement(message) if kind == "advertisement" else getattr(round_, f"add_{kind}")(
                    message
                )


def _server_at(network: Network, kind: str):
    """A server that has received all of round 0 before messages of this kind, and none of these."""
    server = SecureServer(network.terms, TRUST)
    if kind == "advertisement":
        return server, None
    round_ = network.open()
    for earlier, close in [
        ("prepared", "relays"),
        ("masked", "survivors_message"),
        ("confirmed", "unmask_message"),
        ("revealed", "sum_message"),
    ]:
        if earlier == kind:
            return server, round_
        for message in network.transcript:
            if message["kind"] == earlier:
                getattr(round_, f"add_{earlier}")(message)
        getattr(round_, close)()
    raise ValueError(kind)


def test_a_changed_share_is_noticed_by_the_site_that_opens_it():
    network = Network().set_up()
    relay = network.prepare(network.open(), NAMES)["east"]
    for letter in (flipped(relay["shares"]["north"]), relay["shares"]["south"], b""):
        with pytest.raises(FeddagError, match="Site north: its sealed shares for east were changed"):
            network.sites["east"].mask(relay | {"shares": relay["shares"] | {"north": letter}}, answers()["east"])
    del relay["shares"]["north"]
    with pytest.raises(FeddagError, match="Site east: the shares of site north did not come"):
        network.sites["east"].mask(relay, answers()["east"])


def test_any_change_of_a_key_that_the_server_passes_on_is_refused():
    network = Network().set_up()
    relay = network.prepare(network.open(), NAMES)["east"]
    for key in changes(relay["keys"]["north"]):
        with pytest.raises(FeddagError, match="north"):
            network.sites["east"].mask(relay | {"keys": relay["keys"] | {"north": key}}, answers()["east"])
    without = {name: key for name, key in relay["keys"].items() if name != "east"}
    with pytest.raises(FeddagError, match="another key for it than it made"):
        network.sites["east"].mask(relay | {"keys": without}, answers()["east"])


def test_a_wrong_share_from_a_site_leaves_the_sum_masked():
    """Signed by the site itself, so that only the commitment tells."""
    for silent_from, kind in [({}, "seeds"), ({"west": "mask"}, "masks")]:
        network = Network().set_up()
        given = {name: answer for name, answer in answers().items() if name not in silent_from}
        round_ = network.open()
        survivors = network.mask(round_, network.prepare(round_, NAMES), given)
        unmask = network.confirm(round_, survivors, list(given))
        honest = network.sites["east"].reveal(unmask)
        wrong = {name: flipped(share, 500) for name, share in honest[kind].items()}
        round_.add_revealed(sign(honest | {kind: wrong}, network.secret_identities["east"]))
        with pytest.raises(
            FeddagError, match=r"secret do not fit together; .* one of east, north, south .* stays masked"
        ):
            network.reveal(round_, unmask, ["north", "south"])


def test_a_server_that_exchanges_a_key_is_found_out():
    """The man in the middle has no identity of the site, whatever he signs with."""
    network = Network()
    intruder = bytes(32)
    for site in network.sites.values():
        network.server.add_advertisement(site.advertise())
    roster = network.server.roster()
    north = roster["advertisements"]["north"]
    exchanged = sign(north | {"channel": bytes(range(32))}, intruder)
    own_identity = sign(exchanged | {"identity": public_identity(intruder)}, intruder)
    for wrong, message in [
        (exchanged, "Site north: the signature of its message 'advertisement' is wrong"),
        (own_identity, "Site north shows identity .* the study pins"),
        (roster["advertisements"]["south"], "gave out the keys of south as those of north"),
    ]:
        changed = roster | {"advertisements": roster["advertisements"] | {"north": wrong}}
        with pytest.raises(FeddagError, match=message):
            network.sites["east"].accept(changed)


def test_a_server_that_gives_out_an_older_key_is_found_out():
    network = Network()
    old = network.sites["east"].advertise()
    for site in network.sites.values():
        network.server.add_advertisement(site.advertise())
    roster = network.server.roster()
    with pytest.raises(FeddagError, match="Site east: the server gave out other keys for it"):
        network.sites["east"].accept(roster | {"advertisements": roster["advertisements"] | {"east": old}})


def test_sites_that_were_given_different_lists_do_not_understand_each_other():
    network = Network()
    advertisements = {name: site.advertise() for name, site in network.sites.items()}
    for advertisement in advertisements.values():
        network.server.add_advertisement(advertisement)
    roster = network.server.roster()
    fewer = roster | {"advertisements": {name: advertisements[name] for name in NAMES[:4]}}
    network.sites["east"].accept(fewer)
    network.sites["north"].accept(roster)
    with pytest.raises(FeddagError, match="Site east: the server gave out a second list"):
        network.sites["east"].accept(roster)
    opening = network.open(participants=NAMES[:4]).opening()
    network.prepared("north", opening)
    with pytest.raises(FeddagError, match="Site east: round 0, attempt 0 is of a session that it is not in"):
        network.prepared("east", opening)


def test_a_server_that_tells_of_different_participants_is_found_out():
    network = Network().set_up()
    whole, part = network.open(), network.open(participants=NAMES[:4])
    north = network.prepared("north", part.opening())
    with pytest.raises(FeddagError, match="Site north has the participants east, north, south, west"):
        whole.add_prepared(north)
    keys = {name: network.prepared(name, whole.opening())["key"] for name in ("east", "south", "west")}
    relay = whole._attempt.message("relay", keys=keys | {"north": north["key"]}, shares={})
    with pytest.raises(FeddagError, match="Site north has the participants"):
        network.sites["east"].mask(relay, answers()["east"])


def test_a_server_that_gives_sites_different_members_keys_is_found_out():
    """West masks without centre: an honest server refuses its vector, and sites unmask for no other server."""
    network = Network().set_up()
    round_ = network.open()
    relays = network.prepare(round_, NAMES)
    relays["west"]["keys"] = {name: key for name, key in relays["west"]["keys"].items() if name != "centre"}
    masked = {name: network.sites[name].mask(relays[name], answers()[name]) for name in NAMES if name != "centre"}
    with pytest.raises(FeddagError, match="Site west masked its numbers for other members than"):
        round_.add_masked(masked["west"])
    survivors = round_._attempt.message("survivors", survivors=sorted(masked))
    confirmations = {name: network.sites[name].confirm(survivors) for name in masked}
    unmask = {**survivors, "kind": "unmask", "confirmations": confirmations}
    with pytest.raises(FeddagError, match="Site east: the server showed west another sum"):
        network.sites["east"].reveal(unmask)


def test_a_server_that_asks_sites_different_questions_or_shows_them_different_sums_before_is_found_out():
    network = Network().set_up()
    round_ = network.open()
    other = network.prepared("north", round_.opening(), bytes(32))
    with pytest.raises(RefusedError, match="Site north answers another question in round 0") as refused:
        round_.add_prepared(other)
    assert refused.value.reason is Refusal.COURSE
    keys = {name: network.prepared(name, round_.opening())["key"] for name in NAMES if name != "north"}
    relay = round_._attempt.message("relay", keys=keys | {"north": other["key"]}, shares={})
    with pytest.raises(RefusedError, match="or was shown other sums before it"):
        network.sites["east"].mask(relay, answers()["east"])


def test_two_sites_with_one_key_are_refused():
    network = Network(pinned=False)
    network.secret_identities["north"] = network.secret_identities["east"]
    for name in NAMES:
        network.server.add_advertisement(network.site(name).advertise())
    with pytest.raises(FeddagError, match="show the same identity key"):
        network.server.roster()


def test_a_key_that_makes_every_secret_zero_is_refused():
    network = Network()
    for name, site in network.sites.items():
        message = site.advertise()
        if name == "north":
            message = sign(message | {"channel": bytes(32)}, network.secret_identities[name])
        network.server.add_advertisement(message)
    roster = network.server.roster()
    network.sites["east"].accept(roster)
    with pytest.raises(FeddagError, match=r"Site north: 0+ is no X25519 public key"):
        network.prepared("east", network.open().opening())


def test_other_studies_strangers_and_latecomers_are_refused():
    network = Network().set_up()
    east, far = AUTHORITY.identify("east", network.secret_identities["east"]), AUTHORITY.identify("far")
    other = StudyTerms(STUDY[::-1].hex(), NAMES, 2)
    with pytest.raises(FeddagError, match="Site east works on other terms"):
        SecureServer(network.terms, TRUST).add_advertisement(SecureSite("east", other, east, keep=print).advertise())
    more = StudyTerms(STUDY.hex(), (*NAMES, "far"), 2)
    with pytest.raises(FeddagError, match="Site far is none of the study's sites"):
        SecureServer(network.terms, TRUST).add_advertisement(SecureSite("far", more, far, keep=print).advertise())
    with pytest.raises(FeddagError, match="Site east comes after the session began"):
        network.server.add_advertisement(network.site("east").advertise())
    with pytest.raises(FeddagError, match="Site east: its identity key is not the one that the study pins"):
        SecureSite("east", network.terms, AUTHORITY.identify("east"), keep=print)
    with pytest.raises(FeddagError, match="Site far is none"):
        SecureSite("far", network.terms, far, keep=print)
    with pytest.raises(FeddagError, match="Site east: its identity is certified as that of far"):
        SecureSite("east", network.terms, far, keep=print)


@pytest.mark.parametrize("kind", FIELDS)
def test_messages_of_a_wrong_form_are_refused_in_one_line(kind: str):
    network = Network().set_up()
    network.run(answers())
    site, round_ = network.sites["east"], network.open(1)
    receive = {
        "advertisement": network.server.add_advertisement,
        "roster": site.accept,
        "opening": lambda message: site.prepare(message, QUESTION, audit=HEAD),
        "prepared": round_.add_prepared,
        "key": lambda message: round_.add_prepared({"kind": "prepared", "site": "east", "key": message, "shares": {}}),
        "relay": lambda message: site.mask(message, answers()["east"]),
        "masked": round_.add_masked,
        "survivors": site.confirm,
        "confirmed": round_.add_confirmed,
        "unmask": site.reveal,
        "revealed": round_.add_revealed,
        "sum": site.check_sum,
    }[kind]
    for message in ({}, {"kind": "other"}, {"kind": kind}, [], {"kind": kind} | dict.fromkeys(FIELDS[kind], 1.5)):
        with pytest.raises(FeddagError, match=kind) as caught:
            receive(carried(message) if isinstance(message, dict) else message)
        assert "\n" not in str(caught.value)


def test_a_layout_that_is_no_layout_of_numbers_is_refused():
    network = Network().set_up()
    round_ = network.open()
    masked = network.sites["east"].mask(network.prepare(round_, NAMES)["east"], answers()["east"])
    identity = network.secret_identities["east"]
    for layout, message in [
        ([["x", "|O", [2]]], "array x is said to hold '|O'"),
        ([["x", "nonsense", [2]]], "array x is said to hold 'nonsense'"),
        ([["x", "<f8", [2]]], "bytes for 4 masked numbers"),
    ]:
        with pytest.raises(FeddagError, match=message):
            round_.add_masked(sign(masked | {"layout": layout}, identity))
