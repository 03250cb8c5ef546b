"""The secure sum gives the plain weighted mean of those who stayed, or nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from secure_network import NAMES, PHASES, Network, answers

from feddag.errors import FeddagError
from feddag.federation import Answer
from feddag.federation.protocol import weighted_mean
from feddag.federation.secure.fixed_point import STEP
from feddag.federation.terms import StudyTerms


@settings(max_examples=25)
@given(st.data())
def test_the_mean_is_exact_to_the_step(data: st.DataObject):
    names = [f"site {k}" for k in range(data.draw(st.integers(2, 6)))]
    shape = data.draw(array_shapes(min_dims=0, max_dims=3, max_side=4) | st.just((0, 3)))
    values = st.floats(-1e10, 1e10) | st.floats(-1e-6, 1e-6)
    given_answers = {
        name: Answer(data.draw(st.floats(0.125, 1e6)), {"x": data.draw(arrays(np.float64, shape, elements=values))})
        for name in names
    }
    mean = Network(names).set_up().run(given_answers)["x"]

    assert mean.shape == shape
    total = sum(Fraction(answer.weight) for answer in given_answers.values())
    for place in np.ndindex(shape):
        exact = sum(Fraction(each.weight * float(each.arrays["x"][place])) for each in given_answers.values()) / total
        tolerance = len(names) * STEP * (1 + abs(exact)) / total + 2**-51 * abs(exact)
        assert abs(Fraction(float(mean[place])) - exact) <= tolerance


def test_it_is_the_plain_weighted_mean_with_its_names_shapes_and_types():
    given_answers = answers()
    mean = Network().set_up().run(given_answers)
    plain = weighted_mean(list(given_answers.values()))
    assert list(mean) == list(plain)
    for name, array in plain.items():
        assert mean[name].dtype == array.dtype
        np.testing.assert_allclose(mean[name], array, rtol=1e-12 if array.dtype == np.float64 else 1e-6)


def test_large_and_small_arrays_keep_nine_digits_side_by_side():
    """A Gram matrix of raw units beside numbers a quadrillion times smaller: no common scale to lose digits to."""
    rng = np.random.default_rng(0)
    given_answers = {
        name: Answer(600.0, {"gram": 1e12 * rng.normal(size=(4, 4)), "tiny": 1e-6 * rng.normal(size=4)})
        for name in NAMES
    }
    mean = Network().set_up().run(given_answers)
    plain = weighted_mean(list(given_answers.values()))
    for name, array in plain.items():
        scale = np.abs([each.arrays[name] for each in given_answers.values()]).max()
        assert np.abs(mean[name] - array).max() <= 1e-12 * scale


def test_rounds_follow_each_other_with_those_drawn():
    network = Network().set_up()
    for number, names in enumerate([NAMES, NAMES[:3], NAMES[2:]]):
        given_answers = answers(names, seed=number)
        mean = network.run(given_answers, number=number)
        plain = weighted_mean(list(given_answers.values()))
        np.testing.assert_allclose(mean["U"], plain["U"], rtol=1e-12)


@pytest.mark.parametrize(
    "silent_from",
    [{"east": phase} for phase in PHASES]
    + [{"east": "mask", "west": "mask"}, {"east": "mask", "west": "confirm"}, {"east": "mask", "west": "reveal"}]
    + [{"east": "prepare", "west": "reveal"}, {"east": "prepare", "west": "mask"}],
    ids=str,
)
def test_the_sum_survives_sites_that_fall_silent(silent_from: dict[str, str]):
    """Up to the threshold of 3 of 5: a site that masked is in the sum, one that did not is not."""
    given_answers = answers()
    mean = Network().set_up().run(given_answers, silent_from)
    counted = [answer for name, answer in given_answers.items() if silent_from.get(name) not in ("prepare", "mask")]
    np.testing.assert_allclose(mean["U"], weighted_mean(counted)["U"], rtol=1e-12)


@pytest.mark.parametrize("phase", PHASES)
def test_below_the_threshold_nothing_is_unmasked(phase: str):
    network = Network().set_up()
    with pytest.raises(FeddagError, match=r"only 2 sites .* 3 are needed .*no unprotected sum"):
        network.run(answers(), dict.fromkeys(NAMES[:3], phase))


def test_a_quorum_above_half_is_held():
    given_answers = answers()
    network = Network(quorum=4).set_up()
    with pytest.raises(FeddagError, match="only 3 sites have sent their numbers, 4 are needed"):
        network.run(given_answers, {"east": "mask", "west": "mask"})
    assert network.run(given_answers, {"east": "mask"}, number=1)


def test_fewer_participants_than_the_quorum_are_refused():
    network = Network(quorum=4).set_up()
    with pytest.raises(FeddagError, match=r"of 3 sites \(east, north, south\) is refused: it must be of 4 at least"):
        network.open(participants=NAMES[:3])


def test_a_failed_attempt_can_be_repeated():
    given_answers = answers()
    network = Network().set_up()
    with pytest.raises(FeddagError, match="3 are needed"):
        network.run(given_answers, dict.fromkeys(NAMES[:3], "confirm"), number=5)
    mean = network.run(given_answers, number=5, attempt=1)
    np.testing.assert_allclose(mean["U"], weighted_mean(list(given_answers.values()))["U"], rtol=1e-12)


def test_helpers_that_come_back_complete_a_sum():
    given_answers = answers()
    network = Network().set_up()
    round_ = network.open()
    survivors = network.mask(round_, network.prepare(round_, NAMES), given_answers)
    unmask = network.confirm(round_, survivors, NAMES)
    with pytest.raises(FeddagError, match="only 2 sites have helped to unmask"):
        network.reveal(round_, unmask, NAMES[:2])
    mean = network.reveal(round_, unmask, NAMES[2:3])
    np.testing.assert_allclose(mean["U"], weighted_mean(list(given_answers.values()))["U"], rtol=1e-12)


@pytest.mark.parametrize("odd", ["east", "west"])
def test_a_site_with_other_arrays_is_outvoted_and_named_whichever_place_it_has(odd: str):
    given_answers = answers() | {odd: Answer(1.0, {"V": np.ones(2)})}
    network = Network().set_up()
    round_ = network.open()
    relays = network.prepare(round_, NAMES)
    for name, answer in given_answers.items():
        round_.add_masked(network.sites[name].mask(relays[name], answer))
    assert round_.drop_other_layouts() == {odd: "it sent V <f8(2,), and others U <f8(3, 3), h <f4(2,)"}
    others = [name for name in NAMES if name != odd]
    unmask = network.confirm(round_, round_.survivors_message(), others)
    mean = network.reveal(round_, unmask, others)
    np.testing.assert_allclose(mean["U"], weighted_mean([given_answers[name] for name in others])["U"], rtol=1e-12)


@pytest.mark.parametrize("value", [1e30, -1e30, np.inf, -np.inf, np.nan])
def test_numbers_out_of_range_make_the_sum_worthless_and_nothing_says_whose_they_are(value: float):
    given_answers = answers()
    given_answers["east"].arrays["U"][0, :2] = value
    network = Network().set_up()
    with pytest.raises(FeddagError, match="Round 1: 2 numbers of the sites were too large to be summed") as refused:
        network.run(given_answers)
    assert not any(name in str(refused.value) for name in NAMES)
    assert {name: site.clamped for name, site in network.sites.items()} == dict.fromkeys(NAMES, 0) | {"east": 2}
    sizes = {len(message["vector"]) for message in network.transcript if message["kind"] == "masked"}
    assert len(sizes) == 1


def test_weights_beyond_what_the_study_allows_are_refused_and_nothing_says_whose_they_are():
    network = Network().set_up()
    given_answers = answers() | {"east": Answer(1e12, answers()["east"].arrays)}
    with pytest.raises(FeddagError, match=r"5 sites claim a weight of 1e\+12, and the study allows 1e\+07") as refused:
        network.run(given_answers)
    assert not any(name in str(refused.value) for name in NAMES)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"quorum": 1}, "between 2 and the number of sites, 3. Got 1"),
        ({"quorum": 4}, "Got 4"),
        ({"sites": ("a", "b", "a")}, "hold a name twice"),
        ({"identities": {"d": bytes(32)}}, "pins an identity for d"),
        ({"identities": {"a": bytes(31)}}, "Site a: its pinned identity has 31 bytes"),
        ({"identities": {"a": bytes(32), "b": bytes(32)}}, "one identity for two sites"),
    ],
)
def test_terms_that_protect_nobody_are_refused(terms: dict, message: str):
    with pytest.raises(FeddagError, match=message):
        StudyTerms(**{"study": "", "sites": ("a", "b", "c"), "quorum": 2} | terms)


@pytest.mark.parametrize(("quorum", "thresholds"), [(2, [2, 2, 3, 3, 4]), (4, [None, None, 4, 4, 4])])
def test_the_threshold_is_more_than_half_and_at_least_the_quorum(quorum: int, thresholds: list[int | None]):
    sites = ("a", "b", "c", "d", "e", "f")
    terms = StudyTerms("", sites, quorum)
    for participants, threshold in enumerate(thresholds, start=2):
        if threshold is None:
            with pytest.raises(FeddagError, match="must be of 4 at least"):
                terms.threshold(sites[:participants])
        else:
            assert terms.threshold(sites[:participants]) == threshold
    assert terms.threshold(sites, everyone=True) == 6
    with pytest.raises(FeddagError, match="must be of 6 at least"):
        terms.threshold(sites[:5], everyone=True)
