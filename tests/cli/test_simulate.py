from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

from feddag import EvidenceSearch, load, read_graph, simulate
from feddag.cli.simulate import OPTIONS
from feddag.silos import read_silos

GIVEN = {
    "nodes": 4,
    "graph": "SF",
    "edges_per_node": 1,
    "edge_probability": "exact",
    "orientation": "random",
    "mechanism": ["linear", "mim"],
    "heterogeneous": True,
    "sites": 2,
    "noise": "laplace",
    "noise_deviation_range": [0.5, 0.7],
    "standardised": True,
    "shared_draws": True,
    "seed": 7,
}


def test_there_is_an_option_for_every_parameter():
    assert list(OPTIONS) == list(inspect.signature(simulate).parameters)


@pytest.mark.parametrize(
    "given",
    [
        GIVEN | {"rows": [20, 30]},
        {"nodes": 3, "rows": 20, "uneven": True, "noise_variance": 0.5, "mechanism": "mlp"},
        {"nodes": 6, "rows": 20, "shifted": 1, "shift": "mean", "interventions": 1, "varying": 1, "hidden": 1},
    ],
)
def test_every_option_reaches_the_simulation(feddag, tmp_path, given):
    result = feddag("simulate", tmp_path / "data", *_as_options(given))

    assert result.exit_code == 0, result.stderr
    parameters = json.loads((tmp_path / "data" / "simulation.json").read_text())["parameters"]
    assert {name: parameters[name] for name in given} == given


def test_experiments_are_learned_back_as_such(feddag, tmp_path):
    options = {"nodes": 3, "sites": 3, "rows": 200, "mechanism": "linear", "interventions": 1, "seed": 1}
    said = feddag("simulate", tmp_path / "data", *_as_options(options))
    command = said.stdout.split("Learn it back with: feddag ")[1].split()
    tables = sorted((tmp_path / "data").glob("site-*.csv"))
    assert command[:4] == ["learn", "--study", str(tmp_path / "data" / "study.toml"), f"{tmp_path}/data/site-*.csv"]
    assert feddag(*command[:3], *tables, "--out", tmp_path / "run").exit_code == 0
    learner = load(tmp_path / "run")
    here = EvidenceSearch().fit(simulate(**options))
    np.testing.assert_array_equal(learner.adjacency_, here.adjacency_)
    assert learner.score_ == pytest.approx(here.score_)


def _as_options(given):
    for name, value in given.items():
        yield f"--{name.replace('_', '-')}"
        if name == "noise_deviation_range":
            yield from value
        elif isinstance(value, list):
            yield ",".join(map(str, value))
        elif value is not True:
            yield value


def test_the_files_hold_what_the_library_draws(feddag, tmp_path):
    result = feddag("simulate", tmp_path / "data", "--nodes", 3, "--sites", 2, "--rows", 20, "--seed", 5)
    expected = simulate(3, sites=2, rows=20, seed=5)

    read = read_silos(sorted((tmp_path / "data").glob("site-*.csv")))
    assert [silo.name for silo in read] == [silo.name for silo in expected.silos]
    assert all(
        abs(ours.values - theirs.values).max() < 1e-12 for ours, theirs in zip(read, expected.silos, strict=True)
    )
    assert read_graph(tmp_path / "data" / "truth.csv") == expected.truth
    assert "site-01.csv to site-02.csv: 3 variables, 40 rows" in result.stdout
    assert "--latent" not in result.stdout
    hidden = "--nodes", 4, "--edges-per-node", 1, "--rows", 20, "--hidden", 1
    assert "--latent allow" in feddag("simulate", tmp_path / "more", *hidden).stdout


def test_a_graph_of_ones_own_stands_behind_the_sites(feddag, tmp_path, data):
    feddag("simulate", tmp_path / "data", "--graph", data / "truth.csv", "--rows", 20)
    assert read_graph(tmp_path / "data" / "truth.csv") == read_graph(data / "truth.csv")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--nodes", 1], "nodes must be "),
        (["--nodes", 100_000], "nodes must be a whole number from 2 to 10,000 or None. Got 100000 instead."),
        (["--mechanism", "magic"], "mechanism must be "),
        (["--mechanism", "gp,mlp"], "mechanism must be a single one unless heterogeneous=True"),
        (["--rows", "20,30", "--sites", 3], "rows must be one number for each of the sites"),
        (["--noise-variance", -1], "noise_variance must be a positive number"),
        (["--graph", "missing.csv"], "missing.csv: there is no such file"),
        (["--seed", -1], "seed must be "),
    ],
)
def test_an_impossible_option_is_told_in_one_line_and_nothing_is_written(feddag, tmp_path, options, complaint):
    result = feddag("simulate", tmp_path / "data", *options)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {complaint}")
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_more_rows_than_memory_holds_are_told_in_one_line(feddag, tmp_path):
    result = feddag("simulate", tmp_path / "data", "--nodes", 2, "--rows", 10**15)  # more than any address space
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: This needs more memory than there is. Unable to allocate")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_content_is_left_alone_before_anything_is_drawn(feddag, tmp_path, monkeypatch):
    monkeypatch.setattr("feddag.cli.simulate.simulate_sites", None)
    (tmp_path / "mine.txt").write_text("mine")
    result = feddag("simulate", tmp_path, "--nodes", 2, "--rows", 10)

    assert result.exit_code == 2
    assert "must be a new or an empty folder" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
