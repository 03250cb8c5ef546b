"""A sum that is not what the sites have sent is noticed, whatever was changed; and the check tells of the sum alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from secure_network import NAMES, Network, answers, carried

from feddag.errors import FeddagError
from feddag.federation import Answer
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.secure import Message, SecureRound, to_text
from feddag.federation.secure.fixed_point import CHUNK, Words, add, from_bytes, to_bytes
from feddag.federation.secure.sum_check import (
    CHECK_BYTES,
    PRIME,
    check_from_bytes,
    check_mask,
    check_of,
    check_to_bytes,
    is_true_sum,
)

KEYS = st.binary(min_size=32, max_size=32)
EDGE = 2**126
SITES = 3
OF_ONE_SITE = st.integers(-EDGE // 4, EDGE // 4) | st.integers(-3, 3)
VECTORS = st.lists(OF_ONE_SITE, min_size=4, max_size=4)


def words_of(numbers: list[int]) -> Words:
    """Whole multiples of the step as words, modulo 2¹²⁸."""
    return np.array([[number % 2**64 for number in numbers], [(number >> 64) % 2**64 for number in numbers]], np.uint64)


@st.composite
def sums(draw: st.DrawFn) -> tuple[list[int], int, bytes]:
    """The sum of three sites' numbers, the sum of their checks, and the sites' key."""
    key, sites = draw(KEYS), draw(st.lists(VECTORS, min_size=SITES, max_size=SITES))
    total = [sum(numbers) for numbers in zip(*sites, strict=True)]
    return total, sum(check_of(words_of(numbers), key) for numbers in sites) % PRIME, key


@settings(max_examples=100)
@given(sums())
def test_the_check_of_the_sum_is_the_sum_of_the_checks(made: tuple[list[int], int, bytes]):
    total, check, key = made
    assert is_true_sum(words_of(total), check, key, SITES)


@settings(max_examples=150)
@given(sums(), st.integers(0, 3), st.integers(-(2**128), 2**128) | st.integers(-4, 4).map(lambda k: k * PRIME))
def test_any_change_of_any_number_is_noticed(made: tuple[list[int], int, bytes], place: int, change: int):
    """Also by a multiple of the prime, which the check alone would not see: it leads out of the range."""
    total, check, key = made
    assume(change % 2**128)
    changed = [*total[:place], total[place] + change, *total[place + 1 :]]
    assert not is_true_sum(words_of(changed), check, key, SITES)


@settings(max_examples=100)
@given(sums(), st.permutations(range(4)))
def test_numbers_that_change_places_are_noticed(made: tuple[list[int], int, bytes], order: list[int]):
    total, check, key = made
    changed = [total[place] for place in order]
    assume(changed != total)
    assert not is_true_sum(words_of(changed), check, key, SITES)


@settings(max_examples=100)
@given(sums(), st.integers(-8, 8).filter(lambda factor: factor != 1))
def test_a_multiple_of_the_sum_with_the_multiple_of_its_check_is_noticed(
    made: tuple[list[int], int, bytes], factor: int
):
    """Nothing at all, with a check of 0, is such a multiple."""
    total, check, key = made
    changed = [number * factor for number in total]
    assert not is_true_sum(words_of(changed), check * factor % PRIME, key, SITES)
    assert not is_true_sum(words_of([0] * 4), 0, key, SITES)


@settings(max_examples=100)
@given(sums(), sums(), st.integers(1, 5), st.integers(1, PRIME - 1))
def test_another_sum_key_or_check_and_another_number_of_sites_are_noticed(made, other, more: int, change: int):
    total, check, key = made
    assume(other[2] != key)
    assert not is_true_sum(words_of(total), check, other[2], SITES)
    assert not is_true_sum(words_of(other[0]), other[1], key, SITES)
    assert not is_true_sum(words_of(total), check, key, SITES + more)
    assert not is_true_sum(words_of(total), (check + change) % PRIME, key, SITES)
    both = [a + b for a, b in zip(total, other[0], strict=True)]
    assert not is_true_sum(words_of(both), (check + other[1]) % PRIME, key, SITES)


@settings(max_examples=100)
@given(st.data())
def test_the_check_is_a_function_of_the_sum_and_says_nothing_of_how_it_came_about(data: st.DataObject):
    """Whatever the sites' own numbers are: with one sum there is one check, even for those who have the key."""
    key, first, second, shift = (data.draw(each) for each in (KEYS, VECTORS, VECTORS, VECTORS))
    moved = [a + b for a, b in zip(first, shift, strict=True)], [a - b for a, b in zip(second, shift, strict=True)]
    checks = [(check_of(words_of(a), key) + check_of(words_of(b), key)) % PRIME for a, b in ((first, second), moved)]
    assert checks[0] == checks[1]
    total = [a + b for a, b in zip(first, second, strict=True)]
    assert checks[0] == check_of(words_of(total), key, sites=2)


def test_numbers_past_a_chunk_have_coefficients_of_their_own():
    rng = np.random.default_rng(0)
    words = words_of([int(number) for number in rng.integers(-(2**60), 2**60, 2 * CHUNK + 3)])
    key = bytes(range(32))
    check = check_of(words, key)
    for place in (0, CHUNK - 1, CHUNK, 2 * CHUNK, 2 * CHUNK + 2):
        changed = words.copy()
        changed[0, place] ^= np.uint64(1)
        assert check_of(changed, key) != check
    swapped = words.copy()
    swapped[:, [0, CHUNK]] = swapped[:, [CHUNK, 0]]
    assert check_of(swapped, key) != check


@settings(max_examples=100)
@given(st.integers(-PRIME, PRIME))
def test_a_check_is_written_in_one_way(check: int):
    written = check_to_bytes(check)
    assert len(written) == CHECK_BYTES
    assert check_from_bytes(written) == check % PRIME


def test_masks_of_checks_differ_with_every_seed_and_spread_over_the_field():
    rng = np.random.default_rng(0)
    masks = [check_mask(rng.bytes(32)) for _ in range(1000)]
    assert len(set(masks)) == len(masks)
    assert all(0 <= mask < PRIME for mask in masks)
    assert 0.45 < np.mean([mask / PRIME for mask in masks]) < 0.55


# What a site believes of what the server shows it


def summed(network: Network, given: dict[str, Answer] | None = None, number: int = 0) -> tuple[SecureRound, Message]:
    """A whole round, and its sum as the server shows it to the sites."""
    given = given or answers()
    round_ = network.open(number, 0, list(given))
    unmask = network.confirm(round_, network.mask(round_, network.prepare(round_, list(given)), given), list(given))
    network.reveal(round_, unmask, list(given))
    return round_, carried(round_.sum_message())


def refused(network: Network, message: Message) -> set[str]:
    """The sites that refuse a sum, each for the reason that the course is not true."""
    reasons = {}
    for name, site in network.sites.items():
        try:
            site.check_sum(message)
        except RefusedError as error:
            reasons[name] = error.reason
    assert set(reasons.values()) <= {Refusal.COURSE}
    return set(reasons)


@pytest.mark.parametrize("restarted", [False, True])
def test_every_site_accepts_the_sum_that_it_helped_to_make(restarted: bool):
    network = Network().set_up()
    _, message = summed(network)
    for name in NAMES if restarted else ():
        network.restart(name)
    assert not refused(network, message)
    network.set_up()  # in another session as well: the server was killed
    assert not refused(network, message)


def with_words(change: Callable[[Words], Words]) -> Callable[[Message], Message]:
    return lambda message: message | {"words": to_bytes(change(from_bytes(message["words"]).copy()))}


def raised(words: Words) -> Words:
    add(words, np.eye(2, words.shape[1], 3, dtype=np.uint64)[::-1])
    return words


def swapped(words: Words) -> Words:
    words[:, [1, 2]] = words[:, [2, 1]]
    return words


def reversed_layout(message: Message) -> Message:
    return message | {"layout": [["h", "<f8", [3, 3]], ["U", "<f4", [2]]]}


FALSE = {
    "a larger number": with_words(raised),
    "two numbers swapped": with_words(swapped),
    "nothing": with_words(np.zeros_like),
    "nothing, with nothing for its check": lambda m: with_words(np.zeros_like)(m) | {"check": bytes(16)},
    "numbers beyond the range": with_words(lambda words: words | np.uint64(2**63)),
    "another check": lambda m: m | {"check": check_to_bytes(check_from_bytes(m["check"]) + 1)},
    "a check above the prime": lambda m: m | {"check": (check_from_bytes(m["check"]) + PRIME).to_bytes(16, "little")},
    "arrays under each other's names": reversed_layout,
    "arrays of whole numbers": lambda m: m | {"layout": [["U", "<i8", [3, 3]], ["h", "<i8", [2]]]},
    "arrays of another shape": lambda m: m | {"layout": [["U", "<f8", [9]], ["h", "<f4", [2]]]},
    "another attempt": lambda m: m | {"attempt": 1},
    "another session": lambda m: m | {"session": bytes(32)},
    "fewer sites": lambda m: m | {"survivors": m["survivors"][:4]},
}


@pytest.mark.parametrize("false", FALSE)
def test_a_false_sum_is_refused_by_every_site(false: str):
    network = Network().set_up()
    _, message = summed(network)
    assert refused(network, FALSE[false](message)) == set(NAMES)
    assert not refused(network, message)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"words": bytes(15)}, "15 bytes for a sum of 13 numbers"),
        ({"survivors": ["east", "nowhere", "west"]}, "nowhere"),
        ({"survivors": ["east", "north"]}, "must be of 3 at least"),
        ({"layout": [["U", "|O", [3, 3]]]}, "said to hold"),
        ({"check": bytes(15)}, "part 'check' is missing or of the wrong form"),
    ],
)
def test_what_is_no_sum_of_the_study_is_refused(wrong: Message, told: str):
    network = Network(quorum=3).set_up()
    _, message = summed(network)
    with pytest.raises(FeddagError, match=told):
        network.sites["east"].check_sum(message | wrong)


def test_the_true_sum_of_another_round_is_refused():
    network = Network().set_up()
    _, first = summed(network)
    summed(network, answers(seed=1), number=1)
    assert refused(network, first | {"round": 1}) == set(NAMES)


def test_a_sum_that_never_was_is_refused_by_each_site_that_it_names():
    """The server invents a round that nobody was asked in, and shows its sum to all."""
    network = Network().set_up()
    _, message = summed(network)
    fresh = Network().set_up()
    assert refused(fresh, message) == set(NAMES)
    assert refused(fresh, message | {"survivors": ["centre", "east", "north"]}) == {"centre", "east", "north"}
    assert refused(network, message | {"round": 1}) == set(NAMES)


def test_a_site_that_dropped_out_accepts_the_sum_of_the_others_and_they_refuse_a_false_one():
    network = Network().set_up()
    round_ = network.open()
    relays = network.prepare(round_, NAMES)
    present = NAMES[:4]
    unmask = network.confirm(round_, network.mask(round_, relays, {name: answers()[name] for name in present}), present)
    network.reveal(round_, unmask, present)
    message = carried(round_.sum_message())
    assert not refused(network, message)
    assert refused(network, FALSE["a larger number"](message)) == set(present)


def test_the_server_never_sees_the_key_of_the_check():
    network = Network().set_up()
    summed(network)
    keys = {site._awaited.check_key for site in network.sites.values()}
    assert len(keys) == 1  # all members have the same
    seen = "".join(map(to_text, network.transcript))
    shares = [site._round.check_share for site in network.sites.values()]
    for secret in (*keys, *shares):
        assert to_text({"": secret})[6:-2] not in seen
    summed(network, number=1)
    assert not keys & {site._awaited.check_key for site in network.sites.values()}
