"""A site's rules hold, and a file that others may write, or that is mistyped, is no policy."""

from __future__ import annotations

import os
import tomllib

import pytest

from feddag.deployment.study_tasks import known_tasks
from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from snippets import ROOT

EXAMPLE = (ROOT / "examples" / "policy.toml").read_text(encoding="utf-8")

STUDY = {"rows": 100, "sites": 4, "protected": True}
TASK = {"rounds_answered": 0, "sites": 4, "protected": True}


@pytest.fixture
def written(tmp_path):
    """Writes a policy, and returns its path."""

    def write(text: str, mode: int = 0o644):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def test_the_example_is_the_default_and_names_every_rule(written):
    loaded = Policy.load(written(EXAMPLE))
    assert vars(loaded) | {"source": ""} == vars(Policy()) | {"source": ""}
    spelled_out = EXAMPLE.replace("# maximum_", "maximum_")
    assert tomllib.loads(spelled_out).keys() == Policy.rules.keys() == vars(Policy()).keys() - {"source"}
    Policy.load(written(spelled_out))


def test_rules_that_are_not_named_have_their_defaults(written):
    policy = Policy.load(written('tasks = ["search.*"]\nminimum_rows = 50\n'))
    assert (policy.tasks, policy.minimum_rows, policy.minimum_sites) == (("search.*",), 50, 3)


def test_what_keeps_to_the_rules_is_allowed():
    policy = Policy(minimum_rows=100, minimum_sites=4, maximum_rounds=1, maximum_answer_bytes=10)
    policy.check_study(**STUDY)
    for task in known_tasks():
        policy.check_task(task, **TASK)
    policy.check_answer("search.rows", 10)
    policy.check_cell(5, "found", "Mend it")
    Policy().check_answer("search.rows", 10**12)
    Policy().check_task("search.rows", **TASK | {"rounds_answered": 10**9})


def test_what_a_study_shares_is_allowed_by_name(written):
    for sharing in ("graph", "moments", "none"):
        Policy().check_sharing(sharing)
    Policy.load(written('sharing = ["all"]')).check_sharing("all")


@pytest.mark.parametrize("allowed", [["search.*"], ["feddag.solve", "search.sc*"], ["search.scores"]])
def test_patterns_choose_tasks(written, allowed):
    policy = Policy.load(written(f"tasks = {allowed}"))
    policy.check_task("search.scores", **TASK)
    with pytest.raises(FeddagError, match=r"tasks = \[.*\], but the study asks for 'moments.products'"):
        policy.check_task("moments.products", **TASK)


def refusals(policy: Policy):
    yield "minimum_rows = 10, but .* has 9", lambda: policy.check_study(**STUDY | {"rows": 9})
    yield "minimum_cell = 5, but a is in 4 rows. Merge it", lambda: policy.check_cell(4, "a is in 4 rows", "Merge it")
    for check in (
        lambda **change: policy.check_study(**STUDY | change),
        lambda **c: policy.check_task("a", **TASK | c),
    ):
        yield "minimum_sites = 3, but the sum is of 2", lambda check=check: check(sites=2)
        yield "unprotected_sums = false, but the server would see", lambda check=check: check(protected=False)
    yield r"sharing = \['graph', 'moments', 'none'\], but .* shares 'all'", lambda: policy.check_sharing("all")
    yield "maximum_rounds = 7, but .* 7", lambda: policy.check_task("a", **TASK | {"rounds_answered": 7})
    yield "maximum_answer_bytes = 100, but .* 101", lambda: policy.check_answer("a", 101)


def test_a_refusal_names_file_rule_value_and_remedy(written):
    path = written("maximum_rounds = 7\nmaximum_answer_bytes = 100\n")
    for found, broken in refusals(Policy.load(path)):
        with pytest.raises(FeddagError, match=found) as caught:
            broken()
        assert str(path) in str(caught.value)
        assert str(caught.value).endswith("or change the rule at the site.")
        assert "\n" not in str(caught.value)


def test_the_default_policy_calls_itself_so():
    with pytest.raises(FeddagError, match="Refused by the default policy: minimum_sites"):
        Policy().check_study(**STUDY | {"sites": 2})


def test_unprotected_sums_can_be_allowed_and_still_need_enough_sites():
    policy = Policy(unprotected_sums=True)
    policy.check_task("search.rows", **TASK | {"protected": False})
    with pytest.raises(FeddagError, match="minimum_sites"):
        policy.check_task("search.rows", **TASK | {"protected": False, "sites": 2})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("minimum_row = 5", "there is no rule 'minimum_row'. Did you mean 'minimum_rows'?"),
        ("zzz = 5", "there is no rule 'zzz'. Choose from tasks, minimum_rows"),
        ("[rules]\nminimum_rows = 5", "there is no rule 'rules'"),
        ("minimum_rows = 0", "minimum_rows must be a whole number of at least 1. Got 0 instead"),
        ("minimum_rows = 1.5", "Got 1.5 instead"),
        ("minimum_sites = true", "Got True instead"),
        ('unprotected_sums = "no"', "unprotected_sums must be true or false. Got 'no' instead"),
        ("maximum_rounds = -1", "maximum_rounds must be a whole number of at least 1. Got -1"),
        ('tasks = "search.*"', "tasks must be a list of names or patterns"),
        ("tasks = []", "tasks must be a list of names or patterns"),
        ('sharing = ["everything"]', "sharing must be a list of some of 'graph', 'moments', 'all', 'none'. Got"),
        ("sharing = []", "sharing must be a list of some of"),
        ("maximum_numbers_per_value = 0", "maximum_numbers_per_value must be a positive number. Got 0"),
        ("minimum_rows = ", "is not a policy: it is not TOML"),
        ("minimum_rows = 1\nminimum_rows = 2", "it is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(written, text, found):
    path = written(text)
    with pytest.raises(FeddagError) as caught:
        Policy.load(path)
    assert found in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_task_that_no_method_has_is_named_with_the_nearest(written):
    path = written('tasks = ["feddag.*", "search.score"]')
    with pytest.raises(FeddagError) as caught:
        Policy.load(path).check_names(known_tasks())
    assert str(caught.value) == (
        f"{path}: tasks has 'search.score', which is not a task. Did you mean 'search.scores'?"
    )


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o620])
def test_a_file_that_others_may_write_is_no_policy(written, mode):
    path = written(EXAMPLE, mode)
    with pytest.raises(FeddagError, match=f"Type: chmod go-w {path}"):
        Policy.load(path)
    path.chmod(mode & ~0o022)
    Policy.load(path)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_file_of_another_user_is_no_policy(written, monkeypatch):
    path = written(EXAMPLE)
    Policy.load(path)
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 12345, -1)
        owner = 12345
        monkeypatch.setattr(os, "getuid", lambda: 0)
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(FeddagError, match=f"belongs to another user .number {owner}"):
        Policy.load(path)


def test_a_policy_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FeddagError, match=r"nothing\.toml: there is no such policy"):
        Policy.load(tmp_path / "nothing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FeddagError, match="it is not TOML"):
        Policy.load(tmp_path / "binary.toml")
