"""A disk that is full ends a command with one line that names the file, and leaves nothing half-written."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from feddag import simulate
from feddag.deployment.logs import LogFile

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")


def feddag(*arguments, stdout=subprocess.PIPE, bytes_a_file=None):
    """Run a command whose files cannot become larger than so many bytes, as on a disk without room."""

    def limit():
        if bytes_a_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))

    command = [sys.executable, "-m", "feddag", *map(str, arguments)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, preexec_fn=limit)


def test_a_folder_without_room_is_named(tmp_path):
    out = tmp_path / "tables"
    written = feddag("simulate", out, "--nodes", 3, "--sites", 3, "--rows", 100, bytes_a_file=1000)
    assert written.returncode == 2
    assert written.stderr.startswith(f"Error: {out}: File too large.")
    assert written.stderr.endswith("Make room there, and try again.\n")
    assert not list(tmp_path.iterdir())


def test_a_run_that_cannot_be_kept_says_so_without_a_traceback(tmp_path):
    simulate(3, sites=3, rows=60, mechanism="linear", seed=1).write(tmp_path)
    tables = sorted(tmp_path.glob("site-*.csv"))
    run = tmp_path / "run"
    learned = feddag("learn", *tables, "--method", "var-sortnregress", "--out", run, "--quiet", bytes_a_file=400)
    assert learned.returncode == 2
    assert learned.stderr.startswith(f"Error: {run}/")
    assert "Make room there" in learned.stderr
    assert not list(run.rglob(".*.tmp"))


def test_an_output_without_room_is_one_line():
    with open("/dev/full", "w") as full:
        shown = feddag("methods", stdout=full)
    assert (shown.returncode, shown.stderr) == (
        2,
        "Error: The output: No space left on device. Make room there, and try again.\n",
    )


def test_logs_that_find_no_room_print_no_traceback(capsys):
    log, file = logging.getLogger("feddag.full"), LogFile("/dev/full")
    log.addHandler(file)
    log.error("this line finds no room")
    log.removeHandler(file)
    assert capsys.readouterr().err == ""


def test_a_participant_whose_terminal_has_no_room_goes_on():
    code = "from feddag.deployment.logs import speaker; speaker('text')('lost'); import os; os._exit(7)"
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (7, b"")
