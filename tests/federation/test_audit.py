"""An audit log tells of every message, survives a kill, and shows what was done to it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.federation.audit import AuditLog, BrokenLogError, verify
from feddag.federation.protection import SECURE_SUM

STUDY = "ab" * 32
U = {"graph": np.zeros((10, 10), np.float32)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def opened(path, study=STUDY, site="north"):
    return AuditLog(path, study, site)


def record(log, round_, direction="out"):
    log.record(direction, "feddag.solve", round_, U, b"payload %d" % round_, protection=SECURE_SUM, sites=4)


@pytest.fixture
def lines(path):
    """Of a log with three messages."""
    with opened(path) as log:
        for round_ in range(3):
            record(log, round_)
    return path.read_bytes().splitlines(keepends=True)


def test_every_message_is_told(path):
    with opened(path) as log:
        log.record("in", "feddag.solve", 7, U, b"12345")
        record(log, 7)
    first, came, left = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["study"], first["site"], first["feddag"]) == (STUDY, "north", version("feddag"))
    assert (came["direction"], came["bytes"], came["protection"]) == ("in", 5, "plain")
    assert (left["direction"], left["task"], left["round"], left["sites"]) == ("out", "feddag.solve", 7, 4)
    assert left["arrays"] == {"graph": ["float32", 10, 10]}
    assert left["payload"] == hashlib.sha256(b"payload 7").hexdigest()
    assert left["time"].endswith("+00:00")


def test_no_value_is_written(path):
    secret = {"graph": np.full((2, 2), 123456.789)}
    with opened(path) as log:
        log.record("out", "feddag.solve", 0, secret, secret["graph"].tobytes())
    assert b"123456" not in path.read_bytes()


def test_the_chain_can_be_followed_with_sha256_alone(lines):
    previous = "0" * 64
    for line in map(bytes.decode, lines):
        body, _, seal = line.rstrip("\n").rpartition(',"hash":')
        assert json.loads(line)["previous"] == previous
        previous = hashlib.sha256(f"{body}}}".encode()).hexdigest()
        assert seal == f'"{previous}"}}'


def test_the_summary_adds_up(path):
    grams = {f"mean/{k}": np.zeros(3 + k) for k in range(12)}
    with opened(path) as log:
        for round_ in range(5):
            record(log, round_)
        log.record("out", "search.family-grams", 5, grams, b"x" * 100)
        head = log.head
    summary = verify(path)
    assert (summary.study, summary.site, summary.head, summary.lines) == (STUDY, "north", head, 7)
    solve, family = summary.flows
    assert (solve.messages, solve.bytes, solve.protection, solve.sites) == (5, 45, SECURE_SUM, 4)
    assert solve.arrays == {"graph": {("float32", 10, 10)}}
    assert family.arrays == {"mean/*": {("float64", 3 + k) for k in range(12)}}


def test_any_changed_byte_is_found_at_its_line(path, lines):
    content = b"".join(lines)
    rng = np.random.default_rng(0)
    for position in rng.choice(len(content) - 1, size=300, replace=False).tolist():
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(BrokenLogError) as caught:
            verify(path)
        assert caught.value.line == content[: position + 1].rstrip(b"\n").count(b"\n") + 1
        assert f"line {caught.value.line}" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [*lines[:1], *lines[2:]], 2),
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        (lambda lines: [line.replace(b"\n", b"\r\n") for line in lines], 1),
        (lambda lines: [*lines, b"\n"], 5),
        (lambda lines: [b"a,b\n", b"1,2\n"], 1),
    ],
    ids=["removed", "first removed", "exchanged", "repeated", "other line ends", "empty line", "no log"],
)
def test_lines_removed_exchanged_or_inserted_are_found(path, lines, change, line):
    path.write_bytes(b"".join(change(lines)))
    with pytest.raises(BrokenLogError) as caught:
        verify(path)
    assert caught.value.line == line
    with pytest.raises(BrokenLogError):
        opened(path)


def sealed(entry):
    body = json.dumps(entry, separators=(",", ":"))
    return f'{body[:-1]},"hash":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n'


@pytest.mark.parametrize(
    "entry",
    [
        {"event": "message"},
        {
            "event": "message",
            "direction": "out",
            "task": "t",
            "protection": "p",
            "sites": "x",
            "bytes": 1,
            "arrays": {},
        },
        {"event": "message", "direction": "out", "task": "t", "protection": "p", "sites": 1, "bytes": 1, "arrays": [1]},
        {"event": "message", "direction": "out", "task": [], "protection": "p", "sites": 1, "bytes": 1, "arrays": {}},
        {"event": 3},
    ],
)
def test_a_line_of_other_content_is_refused_though_its_hash_is_right(path, lines, entry):
    head = json.loads(lines[-1])["hash"]
    with path.open("a") as stream:
        stream.write(sealed({"previous": head, "time": "now", **entry}))
    with pytest.raises(BrokenLogError, match="line 5"):
        verify(path)


def test_a_cut_off_end_is_noticed_by_its_head(path, lines):
    head = json.loads(lines[-1])["hash"]
    assert verify(path, [head]).head == head
    path.write_bytes(b"".join(lines[:-1]))
    assert verify(path).lines == 3
    with pytest.raises(BrokenLogError, match="ends without the head"):
        verify(path, [head])


def test_an_earlier_head_is_enough_where_the_log_went_on(path, lines):
    with opened(path) as log:
        record(log, 3)
    assert verify(path, [json.loads(lines[-1])["hash"]]).lines == 6


def test_a_restart_goes_on_with_the_chain(path, lines):
    with opened(path) as log:
        record(log, 3)
    assert path.read_bytes().startswith(b"".join(lines))
    summary = verify(path)
    assert (summary.resumed, summary.repaired, summary.flows[0].messages) == (1, 0, 4)


@pytest.mark.parametrize("kept", [1, 40, -2])
def test_a_line_that_a_kill_cut_short_is_removed_and_that_is_told(path, lines, kept):
    half = lines[-1].rstrip(b"\n")[:kept]
    path.write_bytes(b"".join(lines[:-1]) + half)
    assert verify(path).unfinished
    with opened(path) as log:
        record(log, 3)
    summary = verify(path)
    assert (summary.repaired, summary.unfinished, summary.flows[0].messages) == (1, False, 3)
    repaired = json.loads(path.read_text().splitlines()[4])
    assert (repaired["event"], repaired["bytes_removed"]) == ("repaired", len(half))


def test_a_first_line_that_was_cut_short_is_written_anew(path, lines):
    path.write_bytes(lines[0][:30])
    opened(path).close()
    summary = verify(path)
    assert (summary.lines, summary.repaired, summary.resumed) == (2, 1, 0)


def test_a_log_of_another_study_or_site_is_not_continued(path, lines):
    for other in ({"study": "cd" * 32}, {"site": "south"}):
        with pytest.raises(FeddagError, match=r"is the log of site 'north' in the study abab.*Name another file"):
            opened(path, **other)
    assert path.read_bytes() == b"".join(lines)


def test_only_one_may_write_at_a_time(path):
    with opened(path), pytest.raises(FeddagError, match="another process is writing this log"):
        opened(path)
    opened(path).close()
    assert verify(path).resumed == 1


def test_threads_write_one_after_the_other(path):
    with opened(path) as log, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda round_: record(log, round_), range(100)))
    assert verify(path).flows[0].messages == 100


KILLED = """
import sys, numpy as np
from feddag.federation.audit import AuditLog
log = AuditLog(sys.argv[1], "ab" * 32, "north")
for k in range(10**6):
    log.record("out", "feddag.solve", k, {"graph": np.zeros((9, 9))}, b"payload")
    print(k, flush=True)
"""


def test_a_killed_writer_leaves_every_line_it_was_done_with(path):
    with subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True) as process:
        told = [process.stdout.readline() for _ in range(20)]
        os.kill(process.pid, signal.SIGKILL)
        told += process.stdout.readlines()
    with opened(path) as log:
        record(log, 0)
    done = int([line for line in told if line.endswith("\n")][-1]) + 1
    messages = [flow.messages for flow in verify(path).flows]
    assert messages[1] == 1
    assert done <= messages[0] <= done + 1


def test_a_full_disk_leaves_no_half_line(path, monkeypatch):
    with opened(path) as log:
        before = path.read_bytes()

        class Full:
            def __init__(self, stream):
                self.stream = stream

            def write(self, content):
                self.stream.write(content[:10])
                raise OSError(28, "No space left on device")

            def __getattr__(self, name):
                return getattr(self.stream, name)

        with monkeypatch.context() as patch:
            patch.setattr(log, "_stream", Full(log._stream))
            with pytest.raises(OSError, match="No space"):
                record(log, 0)
        assert path.read_bytes() == before
        record(log, 1)
    assert verify(path).flows[0].messages == 1


def test_what_is_no_log_is_refused_by_name(tmp_path):
    with pytest.raises(FeddagError, match="does not exist"):
        verify(tmp_path / "nothing")
    (tmp_path / "empty").touch()
    with pytest.raises(FeddagError, match="empty is not an audit log"):
        verify(tmp_path / "empty")
    with pytest.raises(FeddagError, match="Create it first"):
        opened(tmp_path / "nowhere" / "audit.jsonl")
