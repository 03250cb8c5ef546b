"""A run that is stopped or killed, at whichever moment, ends after --resume as if it had never been."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from feddag import FeddagError, load
from feddag.cli.interruption import InterruptionAtOnce
from feddag.federation.checkpoint import load_checkpoint

# For each case a process of its own that checkpoints after every round, and gives itself a signal just before the nth
# file of a name would appear. They are forked from one that has imported all and computed nothing.
WRAPPER = """
import json, os, signal, sys
import feddag.cli.learn
import feddag.learners.checkpointing
import feddag.learners.feddag.estimator
from feddag.cli import main

feddag.learners.checkpointing.CHECKPOINT_INTERVAL = 0.0
replace = os.replace

def run(folder, name, remaining, signal_name, arguments):
    def replace_or_die(source, target):
        nonlocal remaining
        remaining -= os.path.basename(target) == name
        if remaining == 0:
            os.kill(os.getpid(), signal.Signals[signal_name])
            remaining = -1
        replace(source, target)

    for descriptor, file in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(os.path.join(folder, file), os.O_WRONLY | os.O_CREAT), descriptor)
    os.replace = replace_or_die
    sys.argv[1:] = arguments
    main()

ended = []
for case in json.loads(sys.argv[1]):
    if (process := os.fork()) == 0:
        run(*case)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
print(json.dumps(ended))
"""

Case = tuple[str, str, int, str]
KILLED: list[Case] = [
    ("graph", "checkpoint.npz", 1, "SIGKILL"),  # nothing to resume from but run.json
    ("graph", "checkpoint.npz", 4, "SIGKILL"),
    ("graph", "run.json", 2, "SIGKILL"),  # all is written, but not that it is
    ("none", "checkpoint-2.npz", 3, "SIGKILL"),
    ("none", "result.npz", 1, "SIGKILL"),  # all is learned, and some of it written
]
KILLED_EARLY: Case = ("graph", "run.json", 1, "SIGKILL")
STOPPED: list[Case] = [("graph", "checkpoint.npz", 2, "SIGINT"), ("none", "checkpoint-2.npz", 2, "SIGTERM")]


class Interrupted(NamedTuple):
    """A process that got a signal, and the folder of its run."""

    run: Path
    returncode: int
    stdout: str
    stderr: str


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


@pytest.fixture(scope="module")
def interrupted(arguments, tmp_path_factory) -> dict[Case, Interrupted]:
    """All cases, by sharing, the file's name, how many of them, and the signal."""
    folders = {case: tmp_path_factory.mktemp("interrupted") for case in (*KILLED, KILLED_EARLY, *STOPPED)}
    asked = [
        [str(folder), name, count, signal_name, [*map(str, arguments(sharing)), str(folder / "run")]]
        for (sharing, name, count, signal_name), folder in folders.items()
    ]
    command = [sys.executable, "-c", WRAPPER, json.dumps(asked)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True).stdout
    return {
        case: Interrupted(folder / "run", code, (folder / "stdout").read_text(), (folder / "stderr").read_text())
        for (case, folder), code in zip(folders.items(), json.loads(ended), strict=True)
    }


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


@pytest.mark.parametrize("case", KILLED, ids=str)
def test_a_killed_run_resumes_to_the_same_bits(feddag, interrupted, uninterrupted, case):
    killed = interrupted[case]
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(FeddagError, match=f"Resume it with: feddag learn --resume {killed.run}"):
        load(killed.run)

    resumed = feddag("learn", "--resume", killed.run)
    assert resumed.exit_code == 0, resumed.stderr
    assert_equal_results(killed.run, uninterrupted(case[0]))


def test_a_run_killed_before_it_began_does_not_block_its_folder(feddag, arguments, interrupted, uninterrupted):
    killed = interrupted[KILLED_EARLY]
    assert killed.returncode == -signal.SIGKILL
    assert not (killed.run / "run.json").exists()

    again = feddag(*arguments("graph"), killed.run)
    assert again.exit_code == 0, again.stderr
    assert_equal_results(killed.run, uninterrupted("graph"))


@pytest.mark.parametrize("case", STOPPED, ids=str)
def test_ctrl_c_keeps_the_current_round_and_tells_how_to_resume(feddag, interrupted, uninterrupted, case):
    sharing, name, _, _ = case
    stopped = interrupted[case]
    assert stopped.returncode == 130
    assert stopped.stdout == ""
    assert stopped.stderr.splitlines()[-1] == f"Interrupted. Resume with: feddag learn --resume {stopped.run}"
    kept, _ = load_checkpoint(stopped.run / name)
    # sites that learn alone do so beside the main thread, which notes a signal when its turn comes
    assert kept["coordinator"]["round"] == 2 or (sharing == "none" and kept["coordinator"]["round"] > 2)

    assert feddag("learn", "--resume", stopped.run).exit_code == 0
    assert_equal_results(stopped.run, uninterrupted(sharing))


def test_an_interrupt_that_a_library_swallows_is_raised_again():
    before = signal.getsignal(signal.SIGINT)
    with InterruptionAtOnce(Console()) as interruption:
        interruption.raise_if_requested()
        with suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interruption.raise_if_requested()
    assert signal.getsignal(signal.SIGINT) is before
