from __future__ import annotations

import json

import numpy as np
import pytest

from feddag.federation.audit import AuditLog, verify
from feddag.federation.protection import PROTECTING, SECURE_SUM
from feddag.federation.tasks import Output, TaskSpec

TASKS = (
    TaskSpec(
        "feddag.solve",
        "Parameters of the common graph, after some steps of learning on the site's own rows",
        {"graph": Output("for each possible edge its logit or its weights", None)},
    ),
    TaskSpec(
        "moments.sums",
        "The number of rows, and the sum of each variable",
        {"rows": Output("the number of rows"), "sum": Output("for each variable its sum over all rows", ("variable",))},
    ),
    TaskSpec(
        "search.family-grams",
        "How functions of some sets of variables vary together",
        {"second/*": Output("for each pair of these functions the mean of their product", None)},
    ),
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "audit.jsonl"
    U, moments = {"graph": np.zeros((10, 10), np.float32)}, {"rows": np.array(5.0), "sum": np.zeros(7)}
    with AuditLog(path, "ab" * 32, "north") as opened:
        for task in TASKS:
            opened.declare(task)
        for round_ in range(60):
            opened.record("in", "feddag.solve", round_, U, b"x" * 500)
            opened.record("out", "feddag.solve", round_, U, b"x" * 400, protection=SECURE_SUM, sites=4)
        opened.record("out", "moments.sums", 60, moments, b"x" * 64)
        for size in (3, 35):
            grams = {f"second/{k}": np.zeros((size, size)) for k in range(3)}
            opened.record("out", "search.family-grams", 61, grams, b"x", protection=f"{SECURE_SUM} + dp(ε=3)", sites=4)
        opened.record("out", PROTECTING, 63, {}, b"x" * 9, protection=SECURE_SUM)
        opened.record("out", "later.task", 63, {"x": np.zeros(2)}, b"x")
    return path


def test_what_left_is_told_in_plain_words(feddag, log):
    text = feddag("audit", log).stdout
    left, came = text.split("What left the site:")[1].split("What came in:")
    assert left.splitlines()[1:-1] == [
        "  Parameters of the common graph, after some steps of learning on the site's own rows: 60 times, 24.0 kB, "
        "inside a secure sum of 4 sites",
        "    graph: a 10×10 matrix, for each possible edge its logit or its weights",
        "  The number of rows, and the sum of each variable: once, 64 bytes, "
        "unprotected: the server sees this site's own numbers",
        "    rows: a number, the number of rows",
        "    sum: a list of 7, for each variable its sum over all rows",
        "  How functions of some sets of variables vary together: 2 times, 2 bytes, inside a secure sum of 4 sites, "
        "with noise, for differential privacy of ε=3",
        "    second/*: 2 shapes, a 3×3 matrix to a 35×35 matrix, for each pair of these functions the mean of their "
        "product",
        "  Keys and sealed shares by which a sum is protected: random numbers: once, 9 bytes",
        "  The task later.task, which the log does not explain: once, 1 byte, "
        "unprotected: the server sees this site's own numbers",
        "    x: a list of 2",
    ]
    assert came.strip() == "feddag.solve: 60 times, 30.0 kB"
    assert "Site 'north' in the study abababababab…" in text
    assert f"Its head is {verify(log).head}" in text


def test_json_has_the_same(feddag, log):
    report = json.loads(feddag("audit", log, "--format", "json").stdout)
    assert (report["site"], report["lines"], report["head"]) == ("north", 129, verify(log).head)
    flow = report["flows"][1]
    assert (flow["task"], flow["messages"], flow["bytes"], flow["sites"]) == ("feddag.solve", 60, 24000, 4)
    assert flow["arrays"] == {"graph": [["float32", 10, 10]]}


def test_a_restart_and_a_half_line_are_told(feddag, log):
    with log.open("a") as stream:
        stream.write('{"previous":')
    assert "The last line was cut short" in feddag("audit", log).stdout
    AuditLog(log, "ab" * 32, "north").close()
    text = feddag("audit", log).stdout
    assert "The site was restarted once." in text
    assert "A line that a stop had cut short was removed once." in text


def test_a_site_that_sent_nothing_says_so(feddag, tmp_path):
    AuditLog(tmp_path / "audit.jsonl", "ab" * 32, "north").close()
    assert feddag("audit", tmp_path / "audit.jsonl").stdout.count("Nothing.") == 2


@pytest.mark.parametrize("options", [(), ("--format", "json")])
def test_a_broken_chain_is_told_by_its_line_with_code_1(feddag, log, options):
    log.write_text(log.read_text().replace('"round":30', '"round":31', 1))
    result = feddag("audit", log, *options)
    assert result.exit_code == 1
    assert f"Error: {log}, line 65: the line does not have the hash it ends with." in result.stderr
    assert result.stdout == ""


def test_a_head_that_was_sent_shows_that_the_end_was_cut_off(feddag, log):
    head = verify(log).head
    assert feddag("audit", log, "--head", head).exit_code == 0
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    assert feddag("audit", log).exit_code == 0
    result = feddag("audit", log, "--head", head)
    assert result.exit_code == 1
    assert "ends without the head" in result.stderr


def test_a_file_that_is_not_there_is_the_users_mistake(feddag, tmp_path):
    result = feddag("audit", tmp_path / "nothing")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
