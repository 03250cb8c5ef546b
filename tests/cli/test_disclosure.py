from __future__ import annotations

import json

import pytest

from feddag.disclosure import Disclosure
from feddag.federation.audit import AuditLog


@pytest.fixture
def study(tmp_path, data, feddag):
    path = tmp_path / "study.toml"
    options = [each for name in ("site-01", "site-02", "site-03") for each in ("--site", name)]
    assert feddag("study", "init", path, "--from", data / "site-01.csv", "--method", "notears", *options).exit_code == 0
    return path


def test_a_site_sees_five_figures_before_it_agrees(feddag, study, data, tmp_path):
    out = tmp_path / "figures.json"
    shown = feddag("disclosure", study, "--data", data / "site-01.csv", "--jobs", 1, "--out", out)
    assert shown.exit_code == 0
    for words in ("will release", "1. Numbers per value", "3. Membership of a row", "5. A lying server adds: nothing"):
        assert words in shown.stdout
    again = feddag("disclosure", study, "--data", data / "site-01.csv", "--jobs", 1, "--format", "json")
    assert Disclosure.from_json(again.stdout) == Disclosure.from_json(out.read_text())


def test_a_table_of_another_name_needs_the_site(feddag, study, data, tmp_path):
    table = tmp_path / "mine.csv"
    table.write_bytes((data / "site-01.csv").read_bytes())
    refused = feddag("disclosure", study, "--data", table)
    assert refused.exit_code == 2
    assert "--site NAME" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--data", "x.csv"], "Give a study"), (["STUDY"], "Give this site's table")]
)
def test_what_is_missing_is_named(feddag, study, arguments, words):
    refused = feddag("disclosure", *(study if each == "STUDY" else each for each in arguments))
    assert refused.exit_code == 2
    assert words in refused.stderr


def test_a_policy_that_would_refuse_the_study_or_end_it_early_is_told(feddag, study, data, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('sharing = ["graph"]\nmaximum_numbers_per_value = 0.001\n')
    policy.chmod(0o600)
    shown = feddag("disclosure", study, "--data", data / "site-01.csv", "--policy", policy, "--jobs", 1)
    assert shown.exit_code == 0
    assert "5. A lying server adds" in shown.stdout
    told = " ".join(shown.stderr.split())
    assert "this site would take no part in the study. Refused by" in told
    assert "maximum_numbers_per_value is 0.001 in" in told
    assert "the site would end in the middle of the study. Set maximum_numbers_per_value = " in told


def test_a_log_tells_what_was_released(feddag, study, data, tmp_path):
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, "ab" * 32, "site-01") as log:
        log.record("out", "t", 0, {}, b"x", protection="secure sum", sites=3)
    assert "has released" in feddag("disclosure", "--log", path).stdout
    assert json.loads(feddag("disclosure", "--log", path, "--format", "json").stdout)["took_place"] is True
    other = feddag("disclosure", study, "--data", data / "site-01.csv", "--log", path)
    assert other.exit_code == 2
    assert "Give the study of the log" in other.stderr
