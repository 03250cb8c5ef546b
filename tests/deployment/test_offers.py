"""Further studies on the same kits: what a site takes part in, and what it asks its operator about."""

from __future__ import annotations

import pytest

from feddag import FeddagError
from feddag.deployment.offers import Studies, find_offer, read_offer, to_offer
from feddag.federation.policy import Policy
from feddag.federation.refusals import Refusal, RefusedError
from feddag.study import Study

TEXT = """\
name = "{name}"
[variables]
x = "continuous"
y = {{ type = "ordinal", levels = ["low", "high"], missing = ["?"] }}
[method]
name = "search"
[sites.a]
columns = {{ x = "X" }}
[sites.b]
[sites.c]
"""
FIRST, SECOND = (Study.parse(TEXT.format(name=name)) for name in ("first", "second"))


@pytest.fixture
def studies(tmp_path):
    own = tmp_path / "study.toml"
    own.write_text(TEXT.format(name="first"))
    return Studies(tmp_path, own)


def test_a_study_travels_whole():
    assert read_offer(to_offer(SECOND), SECOND.digest) == SECOND


@pytest.mark.parametrize("offer", ["", "no base64!", "e30=", to_offer(FIRST)])
def test_an_offer_that_is_not_what_its_digest_says_is_none(offer):
    try:
        assert read_offer(offer, SECOND.digest) is None
    except FeddagError:
        assert offer == "e30="  # no study at all


def test_the_kit_s_own_study_needs_no_acceptance(studies):
    assert studies.agreed(FIRST.digest) == FIRST
    assert studies.agreed(SECOND.digest) is None


def test_a_site_that_asks_takes_part_once_its_operator_has_accepted(studies):
    with pytest.raises(RefusedError, match=f"feddag kit accept {SECOND.digest[:12]} --kit") as refused:
        studies.consider("a", SECOND, SECOND.digest, Policy())
    assert refused.value.reason is Refusal.STUDY
    assert studies.offered() == [SECOND]
    studies.accept(find_offer(studies, "second"))
    assert studies.agreed(SECOND.digest) == SECOND
    assert studies.offered() == []


def test_a_site_with_a_list_keeps_no_offers(studies):
    with pytest.raises(RefusedError, match="put its file into KIT/studies"):
        studies.consider("a", SECOND, SECOND.digest, Policy(studies="listed"))
    assert studies.offered() == []


def test_a_site_may_take_part_by_itself(studies):
    assert studies.consider("a", SECOND, SECOND.digest, Policy(studies="any")) == SECOND
    assert studies.agreed(SECOND.digest) == SECOND


def test_what_was_not_offered_cannot_be_accepted(studies):
    with pytest.raises(FeddagError, match=r"is no offered study\. Offered: none"):
        find_offer(studies, "second")


def test_a_study_that_names_the_one_before_is_another_even_if_all_else_is_the_same():
    follower = Study.parse(f'follows = "{FIRST.digest}"\n' + TEXT.format(name="first"))
    assert follower.digest != FIRST.digest
    assert Study.of(follower.document()) == follower
    with pytest.raises(FeddagError, match="follows must be the digest of a study"):
        Study.parse('follows = "first"\n' + TEXT.format(name="first"))
