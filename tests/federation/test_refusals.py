"""What a server hears of a refusal is one of a few words, whatever the table; and it does not hear many."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from feddag.errors import FeddagError
from feddag.federation import Answer, Task
from feddag.federation.audit import verify
from feddag.federation.identities import Authority
from feddag.federation.policy import Policy
from feddag.federation.protocol import Federation, Stateless
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.site_endpoint import SiteEndpoint, audit_log
from feddag.federation.steps import Step, plain_mean
from feddag.federation.tasks import Output, TaskSpec
from feddag.federation.terms import StudyTerms
from feddag.federation.wire import encode_task
from feddag.silos import Silo

SITES = ("east", "north", "west")
STUDY = "ab" * 32
IDENTITY = Authority.create("test").identify("east")
SUMS = TaskSpec("toy.sums", "Sums of all columns", {"sums": Output("the sum of each column", (2,))}).with_bounds()
WORDS = {reason.word for reason in Refusal}
TABLES = arrays(np.float64, st.tuples(st.integers(10, 99), st.just(2)), elements=st.floats(-1e6, 1e6))


def learn(federation: Federation) -> None:
    for round_ in range(3):
        SUMS.ask(federation, round_)


class Table(Stateless):
    """Answers with the sums of its columns, or fails in its own way."""

    name = "east"

    def __init__(self, values: np.ndarray, fail: Callable[[np.ndarray], Any] | None = None) -> None:
        self.values, self.fail, self.answered = values, fail, 0

    def answer(self, task: Task) -> Answer:
        self.answered += 1
        changed = self.fail(self.values) if self.fail else None
        return Answer(float(len(self.values)), {"sums": self.values.sum(axis=0) if changed is None else changed})


@contextmanager
def endpoint(folder: Path, site: Table, *, secure: bool = False, told: list[str] | None = None, **rules: Any) -> Any:
    built = SiteEndpoint(
        folder / "study",
        StudyTerms(STUDY, SITES, 2, secure_sum=secure),
        site,
        identity=IDENTITY,
        tasks={SUMS.name: SUMS},
        learn=learn,
        silo=Silo("east", ("a", "b"), site.values),
        tables=folder / "tables",
        policy=Policy(unprotected_sums=not secure, **rules),
        report=(told if told is not None else []).append,
    )
    try:
        yield built
    finally:
        built.close()


def work(round_: int = 0, **changes: Any) -> dict[str, Any]:
    task = encode_task(Task(SUMS.name, round_, {}, {}, (0, 1, 2)))
    course = {"from": 0, "steps": []}
    return {"round": round_, "task": task, "decisions": {}, "course": course, **changes}


def raising(kind: Callable[[str], BaseException]) -> Callable[[np.ndarray], None]:
    """Fail with all that the table holds in the message."""

    def fail(values: np.ndarray) -> None:
        raise kind(f"row {len(values) - 1} of {len(values)}: {values.tolist()}")

    return fail


OF_THE_TABLE: Mapping[str, Callable[[np.ndarray], Any]] = {
    "a user's mistake": raising(FeddagError),
    "a refusal of its own": raising(lambda text: RefusedError(Refusal.COURSE, text)),
    "a missing name": raising(KeyError),
    "a wrong type": raising(TypeError),
    "a missing attribute": raising(AttributeError),
    "a wrong value": raising(ValueError),
    "a division by zero": raising(ZeroDivisionError),
    "a singular matrix": raising(np.linalg.LinAlgError),
    "no memory": raising(MemoryError),
    "no room": raising(lambda text: OSError(errno.ENOSPC, text)),
    "no number": lambda values: np.full(2, np.nan),
    "numbers without end": lambda values: np.array([np.inf, 0.0]),
    "another shape": lambda values: values,
    "another type": lambda values: values.astype(str),
}


@pytest.mark.parametrize("failure", OF_THE_TABLE)
@settings(max_examples=5)
@given(values=TABLES)
def test_nothing_of_a_table_leaves_with_a_refusal_not_even_what_went_wrong(failure: str, values: np.ndarray):
    told: list[str] = []
    with (
        TemporaryDirectory() as folder,
        endpoint(Path(folder), Table(values, OF_THE_TABLE[failure]), told=told) as site,
    ):
        reply = site.reply("work", work())
        assert reply == {"refusal": Refusal.DECLINED.word}
        assert not re.search(r"\d", repr(reply))
        assert any("refused (declined)" in each for each in told)  # the site's own terminal has it


HOSTILE: Mapping[str, tuple[str, Any]] = {
    "an unknown request": ("eval", {"code": "1"}),
    "no content": ("work", {}),
    "a list": ("work", []),
    "no message": ("work", None),
    "another study": ("join", {"study": "cd" * 32}),
    "no task": ("work", work(task=b"\x80\x04pickle")),
    "another task": ("work", work(task=encode_task(Task("os.system", 0, {}, {}, (0, 1, 2))))),
    "other contents": ("work", work(task=encode_task(Task(SUMS.name, 0, {"x": 1.0}, {}, (0, 1, 2))))),
    "fewer sites": ("work", work(task=encode_task(Task(SUMS.name, 0, {}, {}, (0,))))),
    "a later round": ("work", work(2)),
    "a round that is no number": ("work", work(0) | {"round": "first"}),
    "decisions of another form": ("work", work(decisions={"time": "now"})),
    "a step that is none": ("work", work(course={"from": 0, "steps": [{"task": 1}]})),
    "a step too far": (
        "work",
        work(course={"from": 5, "steps": [Step("x", {}, plain_mean({"sums": np.zeros(2)}, SITES)).message()]}),
    ),
    "a sum that nobody protects": ("mask", {"relay": {"keys": {}}}),
    "a key list of no session": ("accept", {"roster": {}}),
    "survivors of no round": ("confirm", {"survivors": {}}),
    "a request to unmask nothing": ("reveal", {"unmask": {}}),
}


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("hostile", HOSTILE)
@settings(max_examples=3)
@given(one=TABLES, other=TABLES)
def test_what_a_hostile_request_brings_is_the_same_word_whatever_the_table(
    secure: bool, hostile: str, one: np.ndarray, other: np.ndarray
):
    replies = []
    for values in (one, other):
        table = Table(values)
        with TemporaryDirectory() as folder, endpoint(Path(folder), table, secure=secure) as site:
            replies.append(site.reply(*HOSTILE[hostile]))
        assert table.answered == 0  # and no row was looked at
    assert replies[0] == replies[1]
    assert replies[0].keys() == {"refusal"}
    assert replies[0]["refusal"] in WORDS


def test_an_answer_larger_than_the_policy_allows_is_declined_and_its_size_stays(tmp_path: Path):
    told: list[str] = []
    with endpoint(tmp_path, Table(np.ones((20, 2))), told=told, maximum_answer_bytes=10) as site:
        assert site.reply("work", work()) == {"refusal": "declined"}
    assert any("maximum_answer_bytes = 10" in each for each in told)


def test_the_words_are_few_and_a_server_knows_each():
    assert all(re.fullmatch("[a-z]+", word) for word in WORDS)
    assert len(WORDS) == len(Refusal) <= 6
    for reason in Refusal:
        assert Refusal.of(reason.word) is reason
        assert reason.meaning
    for unknown in ("", "123.4 in row 7", None, 3, ["study"]):
        assert Refusal.of(unknown) is Refusal.DECLINED


# How many


@pytest.fixture
def table() -> Table:
    return Table(np.random.default_rng(0).normal(size=(20, 2)))


def test_after_so_many_refusals_a_site_answers_nothing_more_also_when_started_again(tmp_path: Path, table: Table):
    for start in range(3):
        with endpoint(tmp_path, table, maximum_refusals=6) as site:
            for _ in range(2):
                assert site.reply("eval", {}) == {"refusal": "protocol"}, start
    told: list[str] = []
    for _ in range(2):
        with endpoint(tmp_path, table, maximum_refusals=6, told=told) as site:
            for request, content in (("work", work()), ("join", {"study": STUDY}), ("eval", {}), ("late", {})):
                assert site.reply(request, content).keys() == {"refusal"}
            assert site.reply("work", work()) == {"refusal": "declined"}
            assert site.reply("ping", {}) == {"busy": False}
    assert table.answered == 0
    assert verify(audit_log(tmp_path / "study")).refusals == {"protocol": 6}  # and nobody can fill the disk
    assert any("has refused 6 requests in this study and answers nothing more" in each for each in told)


def test_before_that_it_answers_what_is_asked_rightly(tmp_path: Path, table: Table):
    with endpoint(tmp_path, table, maximum_refusals=6) as site:
        for _ in range(5):
            site.reply("eval", {})
        assert site.reply("join", {"study": STUDY}) == {"rounds": 0}
        assert site.reply("work", work()).keys() == {"answer"}


def test_refusals_count_though_the_disk_is_full(tmp_path: Path, table: Table, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with endpoint(tmp_path, table, maximum_refusals=2) as site:
        with monkeypatch.context() as disk:
            disk.setattr("feddag.files.os.fsync", full)
            for _ in range(2):
                assert site.reply("eval", {}) == {"refusal": "protocol"}
        assert site.reply("work", work()) == {"refusal": "declined"}


@pytest.mark.parametrize("content", ["", "many", "[]", "null"])
def test_a_count_that_cannot_be_read_is_refused(tmp_path: Path, table: Table, content: str):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "refusals.json").write_text(content)
    with (
        pytest.raises(FeddagError, match=r"does not say how often this site has refused\. Restore it"),
        endpoint(tmp_path, table),
    ):
        pass
