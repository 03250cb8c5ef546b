"""A study with privacy of rows refuses what would tell about rows besides the release."""

from __future__ import annotations

import pytest

from feddag import FeddagError, PrivateSearch, Study
from snippets import ROOT, blocks, run_python

(TEXT,) = blocks("docs/row-privacy.md", "toml")


def test_the_page_s_study_makes_a_learner_with_all_that_it_declares():
    study = Study.parse(TEXT)
    learner = study.learner()
    assert isinstance(learner, PrivateSearch)
    assert (learner.epsilon, learner.delta, learner.expected_rows, learner.quorum) == (1.0, 1e-6, 20_000, 3)
    assert learner.ranges["age"] == (0, 100)
    assert learner.levels == {"sex": 2}
    assert Study.of(study.document()).digest == study.digest


def test_the_page_s_example_runs(tmp_path):
    (example,) = blocks("docs/row-privacy.md", "python")
    assert run_python(example, tmp_path).startswith("CausalGraph(5 nodes")
    assert (ROOT / "benchmarks" / "row_privacy.py").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (", range = [0, 100]", "", "variables.age.range is missing, and privacy.rows needs it"),
        ("range = [0, 100]", "range = [100, 0]", "variables.age.range must be two numbers, the smaller one first"),
        ('levels = ["f", "m"]', 'levels = ["f", "m"], range = [0, 1]', "a binary variable has levels, and no numbers"),
        ("epsilon = 1.0", "epsilon = 0", "privacy.rows.epsilon must be"),
        ("expected_rows = 20_000", "", "privacy.rows.expected_rows is missing"),
        ('"private-search"', '"search"', "privacy.rows needs the method private-search"),
        ("[privacy.rows]", '[data]\nscale = "site"\n[privacy.rows]', "data.scale = 'site' cannot stand beside"),
        ("[privacy.rows]", '[data]\nmissing = "impute"\n[privacy.rows]', "data.missing = 'impute' cannot stand beside"),
        ("[privacy.rows]", "[trust]\nassess = true\n[privacy.rows]", "cannot be asked for beside privacy.rows"),
        ("[privacy.rows]", "[privacy]\nsecure_sum = false\n[privacy.rows]", "privacy.rows needs secure_sum"),
        (
            "[privacy.rows]",
            "[privacy.differential]\nepsilon = 1\nrounds = 1\n[privacy.rows]",
            "cannot stand together",
        ),
    ],
)
def test_a_study_that_would_tell_more_is_refused(old, new, message):
    assert old in TEXT
    with pytest.raises(FeddagError) as refused:
        Study.parse(TEXT.replace(old, new, 1))
    assert message in str(refused.value)


def test_a_private_method_without_a_guarantee_is_refused():
    with pytest.raises(FeddagError, match=r"the method 'private-search' needs the table privacy\.rows"):
        Study.parse(TEXT[: TEXT.index("[privacy.rows]")] + TEXT[TEXT.index("[sites.basel]") :])


def test_what_the_study_says_elsewhere_is_no_parameter():
    with pytest.raises(FeddagError, match=r"epsilon stands in method\.parameters"):
        Study.parse(TEXT.replace('"private-search"', '"private-search"\nparameters = { epsilon = 5 }')).learner()
