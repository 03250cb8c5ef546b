"""A run that is stopped or killed, at whichever moment, ends after --resume as if it had never been."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache

import pytest

from feddag import FeddagError, load
from feddag.cli.interruption import interrupted_at_once
from feddag.federation.checkpoint import load_checkpoint

# A process of its own that checkpoints after every round, and gives itself a signal just before the nth file
# of a name would appear.
WRAPPER = """
import os, signal, sys
import feddag.learners.checkpointing
from feddag.cli import main

feddag.learners.checkpointing.CHECKPOINT_INTERVAL = 0.0
name, count, signal_name, *arguments = sys.argv[1:]
remaining, replace = int(count), os.replace

def replace_or_die(source, target):
    global remaining
    remaining -= os.path.basename(target) == name
    if remaining == 0:
        os.kill(os.getpid(), signal.Signals[signal_name])
        remaining = -1
    replace(source, target)

os.replace = replace_or_die
sys.argv[1:] = arguments
main()
"""


@pytest.fixture(scope="module")
def arguments(sites, quick):
    return lambda sharing: (
        "learn",
        *sites,
        *quick,
        "--sharing",
        sharing,
        "--workers",
        "2",
        "--quiet",
        "--out",
    )


@pytest.fixture(scope="module")
def uninterrupted(feddag, arguments, tmp_path_factory):
    """The folder of a run that nothing happened to."""

    @cache
    def learn(sharing: str):
        folder = tmp_path_factory.mktemp(sharing) / "run"
        assert feddag(*arguments(sharing), folder).exit_code == 0
        return folder

    return learn


@pytest.fixture
def interrupted(arguments, tmp_path):
    """Starts a run, in `tmp_path / "run"`, that gets a signal at the nth file of a name."""

    def learn(sharing: str, name: str, count: int, signal_name: str) -> subprocess.CompletedProcess[str]:
        words = [name, count, signal_name, *arguments(sharing), tmp_path / "run"]
        command = [sys.executable, "-c", WRAPPER, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    return learn


def assert_equal_results(run, expected):
    (document, arrays), (true_document, true_arrays) = (
        load_checkpoint(folder / "result.npz") for folder in (run, expected)
    )
    for each in (document, true_document):
        del each["seconds"]
        for rounds in each["rounds"]:
            for record in rounds:
                del record["seconds"]
    assert document == true_document
    assert arrays.keys() == true_arrays.keys()
    assert all(arrays[name].tobytes() == true_arrays[name].tobytes() for name in arrays)
    assert {path.name for path in run.iterdir()} == {path.name for path in expected.iterdir()}


@pytest.mark.parametrize(
    ("sharing", "name", "count"),
    [
        ("graph", "checkpoint.npz", 1),  # nothing to resume from but run.json
        ("graph", "checkpoint.npz", 4),
        ("graph", "run.json", 2),  # all is written, but not that it is
        ("none", "checkpoint-2.npz", 3),
        ("none", "result.npz", 1),  # all is learned, and some of it written
    ],
)
def test_a_killed_run_resumes_to_the_same_bits(*, feddag, interrupted, uninterrupted, tmp_path, sharing, name, count):
    killed = interrupted(sharing, name, count, "SIGKILL")
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(FeddagError, match=f"Resume it with: feddag learn --resume {tmp_path / 'run'}"):
        load(tmp_path / "run")

    resumed = feddag("learn", "--resume", tmp_path / "run")
    assert resumed.exit_code == 0, resumed.stderr
    assert_equal_results(tmp_path / "run", uninterrupted(sharing))


def test_a_run_killed_before_it_began_does_not_block_its_folder(
    feddag, arguments, interrupted, uninterrupted, tmp_path
):
    assert interrupted("graph", "run.json", 1, "SIGKILL").returncode == -signal.SIGKILL
    assert not (tmp_path / "run" / "run.json").exists()

    again = feddag(*arguments("graph"), tmp_path / "run")
    assert again.exit_code == 0, again.stderr
    assert_equal_results(tmp_path / "run", uninterrupted("graph"))


@pytest.mark.parametrize(
    ("sharing", "name", "signal_name"),
    [("graph", "checkpoint.npz", "SIGINT"), ("none", "checkpoint-2.npz", "SIGTERM")],
)
def test_ctrl_c_keeps_the_current_round_and_tells_how_to_resume(
    *, feddag, interrupted, uninterrupted, tmp_path, sharing, name, signal_name
):
    stopped = interrupted(sharing, name, 2, signal_name)
    assert stopped.returncode == 130
    assert stopped.stdout == ""
    assert stopped.stderr.splitlines()[-1] == (f"Interrupted. Resume with: feddag learn --resume {tmp_path / 'run'}")
    kept, _ = load_checkpoint(tmp_path / "run" / name)
    # sites that learn alone do so beside the main thread, which notes a signal when its turn comes
    assert kept["coordinator"]["round"] == 2 or (sharing == "none" and kept["coordinator"]["round"] > 2)

    assert feddag("learn", "--resume", tmp_path / "run").exit_code == 0
    assert_equal_results(tmp_path / "run", uninterrupted(sharing))


def test_an_interrupt_that_a_library_swallows_is_raised_again():
    before = signal.getsignal(signal.SIGINT)
    with interrupted_at_once() as raise_if_interrupted:
        raise_if_interrupted()
        with suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            raise_if_interrupted()
    assert signal.getsignal(signal.SIGINT) is before
