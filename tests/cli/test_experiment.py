from __future__ import annotations

import csv
import io
import shlex
import signal
import subprocess
import sys
import time

import pytest

from feddag.experiments import Store, experiments
from feddag.experiments.running import Outcome
from feddag.experiments.store import Tuned

QUICK = ("--nodes", 10, "--methods", "empty,random,var-sortnregress")


def test_every_experiment_is_listed(feddag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = feddag("experiment", "list").stdout
    assert [line.split()[0] for line in shown.splitlines()[1:]] == list(experiments())
    assert not list(tmp_path.iterdir())


def test_run_show_and_report(feddag, tmp_path):
    store = ("--store", tmp_path / "results.sqlite")
    first = feddag("experiment", "run", "linear", *QUICK, "--seeds", "2021", *store)
    assert first.exit_code == 0
    assert "6 cells computed, 0 were there already." in first.stderr
    again = feddag("experiment", "run", "linear", *QUICK, "--seeds", "2021-2022", *store)
    assert "6 cells computed, 6 were there already." in again.stderr
    shown = feddag("experiment", "show", "linear", "--nodes", 10, "--format", "csv", *store).stdout
    rows = [row for row in csv.DictReader(io.StringIO(shown)) if row["row"] == "random"]
    assert [(row["seeds"], row["metric"]) for row in rows] == [("2", "SHD"), ("2", "TPR")] * 2
    assert "linear ER2, 10 nodes" in feddag("experiment", "show", "linear", *store).stdout
    page = tmp_path / "results.md"
    feddag("experiment", "report", "--out", page, *store)
    assert "Linear models, homogeneous data (Table 1)" in page.read_text()
    assert feddag("experiment", "report", *store).stdout == page.read_text()  # nothing here is worth a picture
    anew = feddag("experiment", "run", "linear", *QUICK, "--seeds", "2021", "--again", *store)
    assert "6 cells computed, 0 were there already." in anew.stderr


@pytest.mark.parametrize("command", [("show", "linear"), ("plot", "linear"), ("report",)])
def test_nothing_is_written_over_the_store_or_a_directory(feddag, tmp_path, command):
    store = tmp_path / "results.sqlite"
    feddag("experiment", "run", "linear", *QUICK, "--seeds", "2021", "--store", store)
    before = store.read_bytes()
    for out, complaint in ((store, "is what this is made from"), (tmp_path, "is a directory. Name a file.")):
        result = feddag("experiment", *command, "--store", store, "--out", out)
        assert result.exit_code == 2
        assert complaint in result.stderr
    assert store.read_bytes() == before


def test_parameters_by_hand_are_marked(feddag, tmp_path):
    store = ("--store", tmp_path / "results.sqlite")
    chosen = ("--nodes", 10, "--methods", "random", "--seeds", 2021, "--set", "edges_per_node=2")
    feddag("experiment", "run", "linear", *chosen, *store)
    assert {result.chosen for result in Store(tmp_path / "results.sqlite").results()} == {"by hand"}
    assert "random, edges_per_node=2 (by hand)" in feddag("experiment", "show", "linear", *store).stdout


def test_tuned_parameters_are_reported_as_such(feddag, tmp_path):
    store = ("--store", tmp_path / "results.sqlite", "--nodes", 10)
    arguments = ("--method", "random", "--grid", "edges_per_node=0.5,3", "--seeds", "1-3")
    tuned = feddag("experiment", "tune", "linear", *arguments, *store)
    assert "Best: edges_per_node=0.5." in tuned.stdout
    assert f"run linear --tuned --methods random --nodes 10 --store {store[1]}" in tuned.stdout
    feddag("experiment", "run", "linear", "--tuned", "--seeds", "2021", *store)
    results = [result for result in Store(tmp_path / "results.sqlite").results() if result.role == "reported"]
    assert {(result.chosen, result.parameters["edges_per_node"]) for result in results} == {("tuned", 0.5)}
    more = feddag("experiment", "run", "linear", "--tuned", "--methods", "random,PC", "--seeds", "2021", *store)
    assert more.exit_code == 2
    assert "PC of linear was not tuned." in more.stderr


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        (("--nodes", 11), set(experiments()) - {"sachs"}),
        (("--nodes", "11,9"), set(experiments()) - {"sachs", "fmri9"}),
        (
            ("--nodes", "9,10", "--methods", "GS-FedDAG,CAM"),
            {"linear", "functions-20", "rows", "admm-linear", "hidden", "sachs"},
        ),
        (("--nodes", 10, "--data", "unequal-noise"), {"functions-20", "rows", "fmri9", "sachs"}),
    ],
)
def test_of_all_experiments_those_without_what_is_asked_for_are_named_and_left_out(
    feddag, tmp_path, ran, options, left_out
):
    result = feddag("experiment", "run", "all", *options, "--seeds", 2021, "--store", tmp_path / "results.sqlite")
    assert result.exit_code == 0
    told = [line.partition(": ")[2].rstrip(".").split(", ") for line in result.stderr.splitlines() if "Left" in line]
    assert {name for names in told for name in names} == left_out | {"hippocampus"}
    assert sum(map(len, told)) == len(left_out | {"hippocampus"})
    wanted = {int(each) for each in str(options[1]).split(",")}
    assert {cell.setting.nodes for cell in ran} == wanted
    if "--methods" in options:
        assert {cell.method for cell in ran} == {"feddag", "cam"}


def test_of_all_experiments_one_takes_the_names_that_it_knows(feddag, tmp_path, ran):
    options = ("--methods", "evidence search,NOTEARS,linear AS-FedDAG", "--nodes", 10, "--seeds", 2021)
    result = feddag("experiment", "run", "all", *options, "--data", "standardised", "--store", tmp_path / "r.sqlite")
    linear = {cell.method for cell in ran if cell.setting.functions == "linear"}
    assert linear == {"notears", "feddag", "search"}  # the search where variables are hidden
    assert {cell.method for cell in ran if cell.setting.functions == "mixed"} == {"search", "notears"}
    assert (
        f"Next: feddag experiment show linear --seeds 2021 --methods 'NOTEARS,linear AS-FedDAG' --nodes 10 --data "
        f"standardised --store {tmp_path}" in result.stderr
    )


def test_of_all_experiments_one_may_be_left_that_lacks_its_folder(feddag, tmp_path):
    result = feddag("experiment", "run", "all", "--nodes", 6, "--store", tmp_path / "results.sqlite")
    assert result.exit_code == 2
    assert "Name the folder that holds it: --folder FOLDER." in result.stderr


def test_of_all_experiments_the_tuned_are_run(feddag, tmp_path, ran):
    store = Store(tmp_path / "results.sqlite")
    store.keep_tuned(
        Tuned("gp", "PC, all", "raw", nodes, {"alpha": 0.1}, (1,), "SHD", 1.0, "today") for nodes in (10, 40)
    )
    result = feddag("experiment", "run", "all", "--tuned", "--seeds", 2021, "--store", store.path)
    assert {(cell.method, cell.parameters["alpha"], cell.setting.functions) for cell in ran} == {("pc", 0.1, "gp")}
    assert "Left out, as they were not tuned for this: linear, heterogeneous," in result.stderr


@pytest.fixture
def ran(monkeypatch) -> list:
    """The cells that would be computed."""
    cells = []

    def run(asked, *_, **__):
        cells.extend(asked)
        return Outcome(len(cells), 0, 0, ())

    monkeypatch.setattr("feddag.experiments.running.run", run)
    return cells


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("run", "lineer"), "Did you mean 'linear'"),
        (("run", "linear", "--methods", "nobody"), "'nobody' is neither a row of linear"),
        (("run", "linear", "--methods", "NOTEARS,nobody"), "'nobody' is neither a row of linear"),
        (("run", "linear", "--nodes", "ten"), "--nodes must be numbers"),
        (("run", "linear", "--nodes", "10,30"), "linear has settings with 10, 20 nodes. Got [10, 30] instead."),
        (("run", "linear", "--set", "participation=1,1.0"), "'participation' has 2 values here. Give one."),
        (("run", "linear", "--nodes", ""), "--nodes must be numbers such as 10,20. Got '' instead."),
        (("run", "linear", "--methods", "empty", "--folder", "nowhere"), "--folder is for hippocampus alone."),
        (("run", "linear", "--seeds", "x"), "seeds must be such as"),
        (("run", "linear", "--set", "l1"), "is no parameter with its values. Write it such as l1=0.01."),
        (("run", "linear", "--set", "l1=1", "--tuned"), "two ways to choose"),
        (("run", "linear", "--methods", "empty", "--jobs", 0), "jobs must be a number of processes, or -1"),
        (("run", "hippocampus", "--methods", "empty"), "--folder FOLDER"),
        (("run", "linear", "--methods", "notears-admm", "--set", "l1=-1"), "l1 must be a number of at least 0. Got -1"),
        (("run", "linear", "--methods", "random", "--set", "seed=5"), "Use --seeds instead"),
        (("tune", "linear", "--method", "random", "--grid", "seed=1,2"), "Use --seeds instead"),
        (("tune", "linear", "--method", "random", "--grid", "edges_per_node=1,x"), "edges_per_node must be"),
        (("tune", "linear", "--method", "PC", "--grid", "alpha=0.1", "--dask", "x", "--jobs", 2), "Leave out --jobs"),
        (("list",), "does not exist. Run an experiment first"),
        (("run", "all", "--nodes", 7), "all has settings with 6, 9, 10, 11, 20, 40 nodes. Got [7]"),
        (
            ("run", "all", "--methods", "GS-FedDAG,NOTEAR"),
            "'NOTEAR' is neither a row of all nor a method. Did you mean",
        ),
        (("run", "all", "--nodes", 11, "--data", "unequal-noise"), "Of all experiments this leaves none. linear has"),
        (("show", "linear"), "does not exist. Run an experiment first"),
        (("tune", "linear", "--method", "PC", "--grid", "alpha=0.1", "--seeds", "2021"), "is for reporting"),
    ],
)
def test_a_mistake_is_told_in_one_line(feddag, tmp_path, arguments, complaint):
    result = feddag("experiment", *arguments, "--store", tmp_path / "results.sqlite")
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_next_step_has_all_options(feddag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = ("--nodes", 10, "--data", "standardised", "--store", "my results.sqlite")
    chosen = ("--method", "random", "--grid", "edges_per_node=0.5,3", "--seeds", "1")
    told = feddag("experiment", "tune", "linear", *chosen, *where).stdout.splitlines()[-1]
    run = feddag(*shlex.split(told.partition(": feddag ")[2]), "--seeds", "2021,2022")
    assert "4 cells computed" in run.stderr
    show = shlex.split(run.stderr.partition("Next: feddag ")[2])
    assert "random, edges_per_node=0.5 (tuned)" in feddag(*show).stdout
    assert {"standardised", "10", "2021,2022", "random", "my results.sqlite"} <= set(show)
    elsewhere = feddag("experiment", "run", "linear", "--tuned", *where[:2], *where[4:])
    assert elsewhere.exit_code == 2
    assert "random was tuned on standardised data of 10 nodes, and not on raw data of 10 nodes" in elsewhere.stderr


def test_a_slip_in_a_method_is_written_down(feddag, tmp_path, monkeypatch):
    def slip(self, nodes):
        raise KeyError("a slip")

    monkeypatch.setattr("feddag.learners.baselines.Empty.draw", slip)
    chosen = ("--nodes", 10, "--methods", "empty", "--seeds", 1, "--store", tmp_path / "results.sqlite")
    result = feddag("experiment", "run", "linear", *chosen)
    log = tmp_path / "results.failures.log"
    assert result.exit_code == 1
    assert f"Where in the code: {log}" in result.stderr
    assert log.read_text().count("empty, federated: linear") == 2
    assert log.read_text().count('test_experiment.py", line') == 2


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    store = tmp_path / "results.sqlite"
    command = [sys.executable, "-c", "from feddag.cli import main; main()", "experiment", "run", "linear"]
    options = ["--methods", "empty,feddag", "--nodes", "10", "--seeds", "1-9", "--store", store]
    process = subprocess.Popen(
        [*command, *options],
        stderr=subprocess.PIPE,
        text=True,
        # whoever runs the tests in the background may have made them deaf to it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    while not (store.exists() and Store(store).results()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on from there" in told
    assert Store(store).results()
