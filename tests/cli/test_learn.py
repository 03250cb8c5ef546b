from __future__ import annotations

import inspect
import json
import re
import shutil
from importlib import reload

import numpy as np
import pandas as pd
import pytest

import feddag as package
from feddag import FedDAG
from feddag.cli import learn, learn_options, progress
from feddag.cli.learn_options import OPTIONS
from feddag.learners.registry import METHODS
from feddag.runs import Run
from feddag.silos.checks import check_silo

GIVEN = {
    "sharing": "all",
    "model": "linear",
    "constraint": "bow-free",
    "acyclicity": "log-det",
    "participation": 2,
    "weighting": "rows",
    "alpha_init": 0.1,
    "rho_init": 0.02,
    "rho_max": 0.5,
    "beta": 9.0,
    "gamma": 0.3,
    "h_tol": 1e-7,
    "it_max": 3,
    "it_inner": 8,
    "it_fl": 4,
    "patience": 2,
    "rho_update": "once",
    "l1": 0.02,
    "learning_rate": 0.01,
    "temperature": 0.3,
    "hidden_layers": 2,
    "hidden_units": 5,
    "threshold": 0.4,
    "required": "x0->x1",
    "forbidden": "x1->x2",
    "tiers": "x0;x1,x2",
    "exogenous": "x0",
    "seed": 11,
    "workers": 1,
}


@pytest.fixture(scope="module")
def finished(feddag, sites, quick, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learn") / "run"
    assert feddag("learn", *sites, "--out", folder, *quick).exit_code == 0
    return folder


def test_there_is_an_option_for_every_parameter():
    taken = {name for method in METHODS.values() for name in method.parameters()}
    assert set(OPTIONS) == taken
    assert list(GIVEN) == list(inspect.signature(FedDAG).parameters)


def test_every_option_reaches_the_estimator(feddag, sites, tmp_path):
    options = [text for name, value in GIVEN.items() for text in (f"--{name.replace('_', '-')}", value)]
    result = feddag("learn", *sites, "--out", tmp_path / "run", "--method", "feddag", *options)

    assert result.exit_code == 0, result.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["method"] == "feddag"
    known = {"required": (("x0", "x1"),), "forbidden": (("x1", "x2"),), "tiers": (("x0",), ("x1", "x2"))}
    expected = GIVEN | known | {"exogenous": ("x0",)}
    assert record["parameters"] == json.loads(json.dumps(expected))
    assert package.load(tmp_path / "run").get_params() == expected


def test_the_private_search_takes_its_ranges_from_the_command_line(feddag, sites, tmp_path):
    options = ("--method", "private-search", "--epsilon", 90, "--expected-rows", 100, "--noise-seed", 1, "--quiet")
    by_name = "x0=-4:4,x1=-4:4, x2 = -5 : 5"
    assert feddag("learn", *sites, *options, f"--ranges={by_name}", "--out", tmp_path / "run").exit_code == 0
    assert package.load(tmp_path / "run").ranges == {"x0": [-4, 4], "x1": [-4, 4], "x2": [-5, 5]}
    assert feddag("learn", *sites, *options, "--ranges=-4:4", "--out", tmp_path / "other").exit_code == 0
    for wrong in ("4", "x0=4", "=1:2", "a:b"):
        refused = feddag("learn", *sites, *options, f"--ranges={wrong}", "--out", tmp_path / "wrong")
        assert (refused.exit_code, "--ranges" in refused.stderr) == (2, True)


def test_the_search_learns_unless_another_method_is_named(feddag, sites, tmp_path):
    assert feddag("learn", *sites, "--restarts", 0, "--quiet", "--out", tmp_path / "run").exit_code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["method"] == "search"
    for command in (("learn",), ("stability",), ("study", "init")):
        assert re.search(r"--method .*?\[default: \(?search", feddag(*command, "--help").stdout, re.DOTALL)


def test_an_option_not_given_keeps_the_estimators_default(finished):
    assert package.load(finished).get_params() == (
        FedDAG(model="linear", it_inner=20, it_fl=10, rho_max=10.0).get_params()
    )


def test_the_command_learns_what_the_estimator_learns(finished, sites):
    expected = FedDAG(model="linear", it_inner=20, it_fl=10, rho_max=10).fit(sites)
    np.testing.assert_array_equal(package.load(finished).U_, expected.U_)


def test_results_go_to_stdout_and_progress_to_stderr(feddag, sites, quick, tmp_path):
    result = feddag("learn", *sites, "--out", tmp_path / "run", *quick)

    graph = package.load(tmp_path / "run").graph_
    assert all(f"{source} → {target}" in result.stdout for source, target in graph.edges)
    assert f"Written into {tmp_path / 'run'}" in result.stdout
    assert result.stderr.startswith("sub-problem 1, step 10, ρ ")


def test_a_log_gets_a_line_every_few_seconds_at_most(feddag, sites, quick, tmp_path):
    few = feddag("learn", *sites, "--out", tmp_path / "few", *quick)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
        all_ = feddag("learn", *sites, "--out", tmp_path / "all", *quick, "--sharing", "none")

    rounds = sum(len(each.rounds) for each in package.load(tmp_path / "all").history_.values())
    assert few.stderr.count("\n") == 1
    assert all_.stderr.count("\n") == rounds
    assert {line.split(":")[0] for line in all_.stderr.splitlines()} == {"site-01", "site-02", "site-03"}


def test_quiet_says_nothing_on_stderr(feddag, sites, quick, tmp_path):
    assert feddag("learn", *sites, "--out", tmp_path / "run", *quick, "--quiet").stderr == ""


def test_resuming_a_finished_run_says_so_and_changes_nothing(feddag, finished):
    before = {path: path.read_bytes() for path in finished.iterdir()}
    result = feddag("learn", "--resume", finished)

    assert result.exit_code == 0
    assert "finished already" in result.stdout
    assert {path: path.read_bytes() for path in finished.iterdir()} == before


def test_resume_accepts_an_option_that_agrees_with_the_run(feddag, finished):
    assert feddag("learn", "--resume", finished, "--model", "linear").exit_code == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--seed", 9], "The run has seed=0, and --resume keeps it. Got 9 instead"),
        (["--method", "ges"], "The run has method='feddag', and --resume keeps it. Got 'ges' instead"),
        (["--participation", 1], "The run has participation=1.0, and --resume keeps it. Got 1 instead"),
        (["--out", "elsewhere"], "--resume takes these from the run"),
        (["other.csv"], "--resume takes these from the run"),
    ],
)
def test_resume_refuses_an_option_that_contradicts_the_run(feddag, finished, options, complaint):
    result = feddag("learn", "--resume", finished, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {complaint}")


def test_a_run_that_a_process_works_on_is_not_resumed_by_another(feddag, sites, quick, tmp_path):
    estimator = FedDAG(model="linear")
    tables = estimator.check(sites)
    run = Run.start(tmp_path / "run", estimator, tables, sites)
    answers = []

    class StopError(Exception):
        pass

    def resume_meanwhile(status):
        answers.append(feddag("learn", "--resume", tmp_path / "run"))
        raise StopError

    with pytest.raises(StopError):
        run.learn(resume_meanwhile)
    assert answers[0].exit_code == 2
    assert answers[0].stderr == (
        f"Error: {tmp_path / 'run'}: another process is at work on this run. Wait until it has ended, or stop it.\n"
    )


def test_an_unknown_method_is_answered_with_the_likely_one(feddag, sites, tmp_path):
    result = feddag("learn", *sites, "--method", "fedag", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: method must be one of feddag")
    assert result.stderr.endswith("Got 'fedag' instead. Did you mean 'feddag'?\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("method", "regime"), [("mcsl", "voting"), ("feddag", "all"), ("notears", "separate")])
def test_a_method_is_learned_resumed_and_loaded_in_a_regime(feddag, sites, quick, method, regime, tmp_path):
    folder, chosen = tmp_path / "run", ("--method", method, "--regime", regime)
    options = () if method == "notears" else quick
    result = feddag("learn", *sites, *options, *chosen, "--out", folder)

    assert result.exit_code == 0, result.stderr
    assert ("Each site learned alone" in result.stdout) == (regime != "all")
    record = json.loads((folder / "run.json").read_text())
    assert (record["method"], record["regime"]) == (method, regime)
    assert package.load(folder).regime == regime
    assert "finished already" in feddag("learn", "--resume", folder, *chosen).stdout
    refused = feddag("learn", "--resume", folder, "--regime", "federated")
    assert f"The run has regime={regime!r}, and --resume keeps it. Got 'federated' instead" in refused.stderr


def test_a_regime_that_a_method_has_not_is_refused(feddag, sites, tmp_path):
    result = feddag("learn", *sites, "--method", "ges", "--regime", "federated", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: The method 'ges' runs in the regime 'all', 'separate', 'voting'. Got 'federated' instead.\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.fixture
def with_toy(toy):
    """The command as it is with a further method."""
    reload_command()
    yield
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(METHODS, toy)
        reload_command()


def reload_command():
    """Make the options again, by the methods that there are now."""
    reload(learn_options)
    reload(learn)


@pytest.mark.usefixtures("with_toy")
def test_another_method_is_learned_with_resumed_and_loaded(feddag, sites, tmp_path):
    folder = tmp_path / "run"
    result = feddag("learn", *sites, "--method", "toy", "--threshold", 0.01, "--out", folder)

    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("round 1, edges ")
    assert json.loads((folder / "run.json").read_text())["method"] == "toy"
    learned = package.load(folder)
    assert learned.get_params() == {"it_max": 3, "threshold": 0.01, "weighting": "equal", "seed": 0}
    assert not learned.graph_.edges
    assert f"{len(learned.graph_.undirected_edges)} edges among 3 variables" in result.stdout
    assert all(result.stdout.count(f"{one} — {other}") == 1 for one, other in learned.graph_.undirected_edges)
    assert "finished already" in feddag("learn", "--resume", folder, "--method", "toy").stdout


@pytest.mark.usefixtures("with_toy")
def test_an_option_that_the_method_does_not_take_is_refused(feddag, sites, tmp_path):
    complaint = "Error: The method 'toy' does not take 'model'. It takes it_max, threshold, weighting, seed.\n"
    started = feddag("learn", *sites, "--method", "toy", "--model", "linear", "--out", tmp_path / "run")
    assert (started.exit_code, started.stderr) == (2, complaint)
    assert not list(tmp_path.iterdir())

    feddag("learn", *sites, "--method", "toy", "--out", tmp_path / "run")
    resumed = feddag("learn", "--resume", tmp_path / "run", "--model", "linear")
    assert (resumed.exit_code, resumed.stderr) == (2, complaint)


@pytest.mark.usefixtures("with_toy")
def test_a_choice_that_methods_do_not_share_is_left_to_them(feddag, sites, tmp_path):
    result = feddag("learn", *sites, "--method", "toy", "--weighting", "rows", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert result.stderr == "Error: weighting must be one of 'equal'. Got 'rows' instead.\n"


@pytest.mark.usefixtures("with_toy")
def test_help_tells_which_methods_take_an_option(feddag):
    text = feddag("learn", "--help").stdout
    several, own = text.index("Parameters of several methods"), text.index("Parameters of feddag, mcsl")
    splines, end = text.index("Parameters of cam"), len(text)
    starts = sorted([several, own, splines, end])
    for option, panel in (("--threshold", several), ("--temperature", own), ("--basis-functions", splines)):
        assert panel < text.index(option) < starts[starts.index(panel) + 1]


def test_resume_refuses_data_that_has_changed(feddag, finished, data, tmp_path):
    run, table = tmp_path / "run", tmp_path / "site-01.csv"
    run.mkdir()
    lines = (data / "site-01.csv").read_text().splitlines()
    table.write_text("\n".join(lines[:-1]) + "\n")
    record = json.loads((finished / "run.json").read_text())
    record["status"] = "running"
    record["sites"][0]["source"] = str(table)
    (run / "run.json").write_text(json.dumps(record))

    result = feddag("learn", "--resume", run)
    assert result.exit_code == 2
    assert f"Site 'site-01': {table} has changed since the run started." in result.stderr


def test_a_folder_with_content_is_left_alone(feddag, sites, quick, finished, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    held = feddag("learn", *sites, "--out", finished, *quick)
    filled = feddag("learn", *sites, "--out", tmp_path, *quick)
    file = feddag("learn", *sites, "--out", tmp_path / "mine.txt", *quick)

    assert (held.exit_code, filled.exit_code, file.exit_code) == (2, 2, 2)
    assert f"feddag learn --resume {finished}" in held.stderr
    assert "is not empty" in filled.stderr
    assert "is a file" in file.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_an_empty_folder_is_taken(feddag, sites, quick, tmp_path):
    assert feddag("learn", *sites, "--out", tmp_path, *quick).exit_code == 0
    assert (tmp_path / "graph.csv").exists()


def test_a_folder_that_cannot_be_made_is_told_in_one_line(feddag, sites, quick, tmp_path):
    (tmp_path / "file").touch()
    result = feddag("learn", *sites, "--out", tmp_path / "file" / "run", *quick)

    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path / 'file' / 'run'}: Not a directory.\n"


def test_the_run_does_not_depend_on_the_working_directory(feddag, sites, quick, tmp_path, monkeypatch):
    shutil.copytree(sites[0].parent, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    feddag("learn", "data/site-01.csv", "data/site-02.csv", "--out", "run", *quick)

    sources = [site["source"] for site in json.loads((tmp_path / "run" / "run.json").read_text())["sites"]]
    assert sources == [str(tmp_path / "data" / name) for name in ("site-01.csv", "site-02.csv")]


def test_edges_that_may_be_chance_are_named(feddag, tmp_path):
    rng = np.random.default_rng(4)
    for k in range(2):
        values = rng.standard_normal((100, 8))
        values[:, 1] += 2 * np.tanh(3 * values[:, 0])
        values[:, 2] += 0.35 * values[:, 3]
        pd.DataFrame(values, columns=list("abcdefgh")).to_csv(tmp_path / f"{k}.csv", index=False)
    result = feddag("learn", tmp_path / "0.csv", tmp_path / "1.csv", "--method", "search", "--out", tmp_path / "run")
    learned = package.load(tmp_path / "run")
    table = learned.edge_evidence_
    assert list(learned.doubtful_edges) == list(
        zip(table.cause[~table.present], table.effect[~table.present], strict=True)
    )
    assert ("a", "b") not in learned.doubtful_edges
    (told,) = [line for line in result.stdout.splitlines() if line.startswith("Perhaps chance: ")]
    assert len(told.split(", ")) == len(learned.doubtful_edges) > 0
    kept = {frozenset(edge) for edge in learned.graph_.edges}
    assert kept.isdisjoint(map(frozenset, learned.doubtful_edges))


@pytest.mark.parametrize("options", [["search"], ["notears"], ["pc", "--regime", "voting"]], ids=" ".join)
def test_each_table_is_checked_once(feddag, sites, tmp_path, monkeypatch, options):
    checked = []

    def count(silo, missing="error"):
        checked.append(silo.name)
        return check_silo(silo, missing)

    monkeypatch.setattr("feddag.silos.checks.check_silo", count)
    monkeypatch.setattr("feddag.silos.reading.check_silo", count)
    result = feddag("learn", *sites, "--quiet", "--out", tmp_path / "run", "--method", *options)
    assert result.exit_code == 0, result.stderr
    assert checked == [path.stem for path in sites]
