from __future__ import annotations

import shlex

import pandas as pd
import pytest

from feddag.runs import Run


def test_the_choice_is_shown_and_written(feddag, sites, tmp_path):
    table = tmp_path / "tuning.csv"
    result = feddag("tune", *sites, "--method", "notears", "--grid", "l1=0.01,5", "--out", table)
    assert result.exit_code == 0
    frame = pd.read_csv(table)
    assert frame["chosen"].tolist() == [True, False]
    assert f"--l1 {frame['l1'][0]:g} " in result.stdout.replace("5.0", "5")
    assert "← best" in result.stdout


def test_a_table_that_it_learns_from_is_never_written_over(feddag, sites):
    before = sites[0].read_bytes()
    result = feddag("tune", *sites, "--method", "notears", "--grid", "l1=0.01,5", "--out", sites[0])
    assert result.exit_code == 2
    assert "would be lost" in result.stderr
    assert sites[0].read_bytes() == before


def test_a_parameter_is_either_set_or_varied(feddag, sites):
    result = feddag("tune", *sites, "--method", "notears", "--grid", "l1=0.01,5", "--set", "l1=1")
    assert result.exit_code == 2
    assert "'l1' is in --set and in --grid" in result.stderr


def test_parameters_for_all_combinations_are_passed_on(feddag, sites):
    shared = ("--set", "model=linear", "--set", "it_inner=20", "--set", "it_fl=10", "--set", "rho_max=10")
    result = feddag("tune", *sites, "--grid", "l1=0.01,0.1", *shared, "--quiet")
    assert result.exit_code == 0
    assert result.stdout.count("\n0.") + result.stdout.count("\n 0.") == 2


def test_the_next_step_is_the_choice_with_all_that_was_given(feddag, sites, tmp_path):
    shared = ("--set", "model=linear", "--set", "it_inner=20", "--set", "it_fl=10", "--set", "rho_max=10")
    chosen = ("--method", "feddag", "--regime", "all", "--seed", 7, "--grid", "l1=0.01,5")
    told = feddag("tune", *sites, *chosen, *shared, "--quiet").stdout
    ((silos, *arguments),) = [
        shlex.split(line.removeprefix("Next: feddag learn ")) for line in told.splitlines() if line.startswith("Next")
    ]
    run = tmp_path / "run"
    assert silos == "SILO..."
    assert feddag("learn", *sites, *arguments[:-1], run, "--quiet").exit_code == 0
    record = Run.open(run).record
    assert (record["method"], record["regime"]) == ("feddag", "all")
    wanted = {"model": "linear", "it_inner": 20, "it_fl": 10, "rho_max": 10, "seed": 7}
    assert wanted.items() <= record["parameters"].items()
    assert record["parameters"]["l1"] in (0.01, 5)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--method", "notears"), "no published grid"),
        (("--grid", "l1"), "Write it such as l1=0.01,0.1"),
        (("--grid", "l1=x"), "l1 must be a number"),
        (("--set", "l1=1,2"), "'l1' has 2 values here"),
        (("--set", "seed=3"), "Instead of --set: --seed 3"),
        (("--set", "method=3"), "The method 'feddag' does not take 'method'"),
        (("--set", "progress=3"), "The method 'feddag' does not take 'progress'"),
    ],
)
def test_a_mistake_is_told_in_one_line(feddag, sites, arguments, complaint):
    result = feddag("tune", *sites, *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


def test_sites_are_named_as_for_learn(feddag):
    result = feddag("tune", "north=nowhere.csv", "--grid", "l1=0.1")
    assert result.exit_code == 2
    assert "Site 'north': nowhere.csv does not exist" in result.stderr
