"""How many numbers a study releases is known before it begins, and a site that would have to stop does not begin."""

from __future__ import annotations

import pytest

from feddag import FeddagError, simulate
from feddag.disclosure import check_budget, describe_release, disclose_quickly
from feddag.disclosure.expected import expected_release
from feddag.federation.policy import Policy
from feddag.study import Study

SEARCH = 'name = "search"\nparameters = { restarts = 0 }'
AVERAGING = 'name = "feddag"\nparameters = { it_max = 3, it_inner = 400, model = "linear", sharing = "all" }'


def study_of(method: str, more: str = "", variables: int = 4) -> Study:
    columns = "\n".join(f'x{k} = "continuous"' for k in range(variables))
    sites = "\n".join(f"[sites.s{k}]" for k in range(3))
    return Study.parse(f'name = "expected"\n[variables]\n{columns}\n[method]\n{method}\n{sites}\n{more}\n')


def silo_of(study: Study, rows: int = 60):
    (silo,) = simulate(len(study.columns), mechanism="gp", sites=1, rows=rows, seed=1).silos
    return study.silo("s0", silo.to_frame())


def test_the_numbers_of_a_search_are_about_those_of_a_table():
    study = study_of(SEARCH)
    expected = expected_release(study)
    found = disclose_quickly(study, silo_of(study)).numbers
    assert found / 3 < expected.numbers < 3 * found
    assert str(expected).startswith("about ")


def test_each_replicate_counts():
    fit, one, twenty = (
        expected_release(study_of(SEARCH, f"[trust]\nbootstraps = {count}")).numbers for count in (0, 1, 20)
    )
    assert fit < one
    assert twenty == fit + 20 * (one - fit)


def test_averaging_releases_at_most_the_numbers_of_all_its_rounds():
    expected = expected_release(study_of(AVERAGING))
    assert (expected.at_most, str(expected)[:8]) == (True, "at most ")
    shorter = expected_release(study_of(AVERAGING.replace("it_max = 3", "it_max = 1")))
    assert expected.numbers == 3 * shorter.numbers


def test_the_terms_say_what_policies_must_allow():
    numbers, sharing = describe_release(study_of(AVERAGING))
    assert "maximum_numbers_per_value in its policy, which is 10 by default" in numbers
    assert sharing.endswith('in its policy: sharing = ["graph", "moments", "none", "all"]')
    assert len(describe_release(study_of(SEARCH))) == 1


def test_a_site_does_not_begin_what_it_could_not_end():
    study = study_of(SEARCH, "[trust]\nbootstraps = 20")
    found = disclose_quickly(study, silo_of(study))
    remedy = r"Set maximum_numbers_per_value = \d+ there, or agree on fewer than trust.bootstraps = 20"
    with pytest.raises(FeddagError, match=rf"'s0'.* would end in the middle of the study\. {remedy}"):
        check_budget(study, found, Policy(), released=0)
    assert check_budget(study, found, Policy(maximum_numbers_per_value=None), released=0) is None


def test_what_left_the_table_before_counts():
    study = study_of(SEARCH)
    found = disclose_quickly(study, silo_of(study, rows=400))
    assert check_budget(study, found, Policy(), released=0) is None
    with pytest.raises(FeddagError, match=r"and 15,999 have left the 1,600 values of this table before"):
        check_budget(study, found, Policy(), released=15_999)


def test_a_site_that_may_have_to_end_is_warned():
    study = study_of(AVERAGING)
    found = disclose_quickly(study, silo_of(study))
    needed = expected_release(study).numbers / 240
    warning = check_budget(study, found, Policy(maximum_numbers_per_value=needed / 2), released=0)
    assert "The site may end before the study does. Set maximum_numbers_per_value" in str(warning)
    with pytest.raises(FeddagError, match="would end in the middle"):
        check_budget(study, found, Policy(maximum_numbers_per_value=needed / 5), released=0)
