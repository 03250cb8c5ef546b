"""What the server sees fits every input of a site; only the sum is settled."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chi2
from secure_network import NAMES, Network, answers

from feddag.federation import Answer
from feddag.federation.protocol import weighted_mean
from feddag.federation.secure import from_text
from feddag.federation.secure.cryptography import add_mask, mask_order, pairwise_seed, self_seed
from feddag.federation.secure.fixed_point import (
    Words,
    add,
    decode_total,
    encode,
    encode_answer,
    from_bytes,
    subtract,
    to_bytes,
)
from feddag.federation.secure.sum_check import check_mask, check_of, check_to_bytes


def chi_square_of_bytes(content: bytes) -> float:
    """The probability that uniform bytes are spread at least as unevenly."""
    counts = np.bincount(np.frombuffer(content, np.uint8), minlength=256)
    expected = len(content) / 256
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 255))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5e12])
def test_masked_numbers_look_uniform_whatever_they_are(value: float):
    answer = Answer(1.0, {"x": np.full(5000, value)})
    network = Network(NAMES[:3]).set_up()
    network.run(dict.fromkeys(NAMES[:3], answer))
    vectors = [message["vector"] for message in network.transcript if message["kind"] == "masked"]
    differences = []
    for left, right in itertools.combinations(map(from_bytes, vectors), 2):
        difference = left.copy()
        subtract(difference, right)
        differences.append(to_bytes(difference))
    assert len(vectors) == 3
    for content in (*vectors, *differences):
        assert chi_square_of_bytes(content) > 1e-6
        for byte in range(8):
            assert chi_square_of_bytes(content[byte::8]) > 1e-7
    assert chi_square_of_bytes(to_bytes(encode(np.full(5000, value)))) < 1e-9  # the test would notice


class View:
    """All the secrets of a round, of which the server saw some: what explains its transcript, and what else would."""

    def __init__(self, silent: str | None = None) -> None:
        self.given = answers()
        self.network = Network().set_up()
        self.round = self.network.open()
        self.relays = self.network.prepare(self.round, NAMES)
        secrets = {name: from_text(self.network.kept[name])["round"] for name in NAMES}
        attempt = self.round._attempt
        self.layout, first, _ = encode_answer(self.given["east"], len(NAMES))
        self.inputs = {name: encode_answer(answer, len(NAMES))[1] for name, answer in self.given.items()}
        self.self_masks = {name: np.zeros_like(first) for name in NAMES}
        self.check_masks: dict[str | tuple[str, str], int] = {}
        for name, mask in self.self_masks.items():
            seed = self_seed(secrets[name]["self_secret"], attempt)
            add_mask(mask, seed, times=1)
            self.check_masks[name] = check_mask(seed)
        self.pair_masks: dict[tuple[str, str], Words] = {}
        for pair in itertools.combinations(sorted(NAMES), 2):
            private, public = secrets[pair[0]]["mask_key"], secrets[pair[1]]["key"]["mask"]
            seed = pairwise_seed(private, public, attempt, *pair)
            self.pair_masks[pair] = np.zeros_like(first)
            add_mask(self.pair_masks[pair], seed, times=1)
            self.check_masks[pair] = check_mask(seed)
        present = [name for name in NAMES if name != silent]
        survivors = self.network.mask(self.round, self.relays, {name: self.given[name] for name in present})
        self.check_key = from_text(self.network.kept[present[0]])["round"]["check_key"]
        unmask = self.network.confirm(self.round, survivors, present)
        self.mean = self.network.reveal(self.round, unmask, present)

    def sent(self, kind: str) -> dict[str, dict]:
        return {message["site"]: message for message in self.network.transcript if message["kind"] == kind}

    def check(self, name: str) -> int:
        return check_of(self.inputs[name], self.check_key)

    def explained(self, name: str) -> tuple[bytes, bytes]:
        """The vector and the check that a site with these inputs and masks sends."""
        vector, check = self.inputs[name].copy(), self.check(name) + self.check_masks[name]
        add(vector, self.self_masks[name])
        for pair, mask in self.pair_masks.items():
            if name in pair:
                other = pair[1 - pair.index(name)]
                (add if mask_order(name, other) > 0 else subtract)(vector, mask)
                check += mask_order(name, other) * self.check_masks[pair]
        return to_bytes(vector), check_to_bytes(check)

    def transcript_is_explained(self) -> bool:
        sent = self.sent("masked").items()
        return all(self.explained(name) == (message["vector"], message["check"]) for name, message in sent)


@pytest.mark.parametrize("silent", [None, "south"])
def test_every_input_of_a_site_fits_the_transcript_with_one_other_honest_site(silent: str | None):
    """Even if the server knew all but two sites' secrets: their common mask explains any numbers with the same sum."""
    view = View(silent)
    assert view.transcript_is_explained()
    rng = np.random.default_rng(5)
    for _ in range(5):
        shift = encode(rng.normal(size=view.inputs["east"].shape[1]) * 1e6)
        before = view.check("east")
        add(view.inputs["east"], shift)
        assert not view.transcript_is_explained()
        subtract(view.inputs["west"], shift)
        subtract(view.pair_masks["east", "west"], shift)  # a mask that the server has not seen, and as likely
        view.check_masks["east", "west"] -= view.check("east") - before
        assert view.transcript_is_explained()
        total = np.zeros_like(shift)
        for name in view.sent("masked"):
            add(total, view.inputs[name])
        np.testing.assert_array_equal(decode_total(total, view.layout).mean["U"], view.mean["U"])


def test_numbers_that_arrive_late_fit_every_input():
    """The server has the mask key of a dropped site, but not its self mask, which explains any numbers alone."""
    view = View(silent="south")
    late = view.network.sites["south"].mask(view.relays["south"], view.given["south"])
    sent = late["vector"], late["check"]
    assert view.explained("south") == sent
    before = view.check("south")
    shift = encode(np.random.default_rng(5).normal(size=view.inputs["south"].shape[1]))
    add(view.inputs["south"], shift)
    subtract(view.self_masks["south"], shift)
    view.check_masks["south"] -= view.check("south") - before
    assert view.explained("south") == sent


@pytest.mark.parametrize("silent", [None, "south"])
def test_of_each_site_one_secret_is_revealed_never_both(silent: str | None):
    view = View(silent)
    for message in view.sent("revealed").values():
        assert set(message["seeds"]) == set(NAMES) - {silent}
        assert set(message["masks"]) == {silent} - {None}


def test_neither_numbers_nor_weights_nor_secrets_stand_in_what_the_server_receives():
    view = View()
    seen = b"".join(message["vector"] for message in view.sent("masked").values())
    for name, words in view.inputs.items():
        for entry in words.T:
            assert entry.tobytes() not in seen, name
        for word in words[0, words[0] != 0]:  # a fraction alone
            assert word.tobytes() not in seen
    weights = {np.uint64(answer.weight).tobytes() for answer in view.given.values()}
    assert not any(weight in seen for weight in weights)


def test_shares_are_sealed_for_one_site():
    """What is for north says nothing to south: with north's letter in place of its own, it can open nothing."""
    view = View()
    east = view.sent("prepared")["east"]["shares"]
    assert len({bytes(letter) for letter in east.values()}) == len(NAMES) - 1
    kept = from_text(view.network.kept["north"])["round"]["shares"]["east"]
    assert kept not in east["north"]


def test_a_mask_is_never_used_twice():
    """The same numbers in another attempt, round and session give unrelated vectors."""
    network = Network(NAMES[:3]).set_up()
    given = {name: answers()[name] for name in NAMES[:3]}
    network.run(given)
    network.run(given, number=1)
    network.set_up().run(given)
    vectors = [m["vector"] for m in network.transcript if m["kind"] == "masked" and m["site"] == "east"]
    words = np.concatenate([np.frombuffer(vector, np.uint64) for vector in vectors])
    assert len(vectors) == 3
    assert len(np.unique(words)) == len(words)


def test_the_sum_is_all_that_the_revealed_secrets_open():
    """With every survivor's self mask taken off, a single vector is still under its masks with the others."""
    view = View()
    for name, message in view.sent("masked").items():
        vector = from_bytes(message["vector"]).copy()
        subtract(vector, view.self_masks[name])
        assert not np.any(vector == view.inputs[name])
    np.testing.assert_allclose(view.mean["U"], weighted_mean(list(view.given.values()))["U"], rtol=1e-12)
