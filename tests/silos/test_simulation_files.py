"""Promises of the folder that a simulation is written to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.graphs import read_graph
from feddag.silos.simulation import Simulation, simulate


def test_written_folders_read_back_to_the_bit(tmp_path: Path) -> None:
    simulation = simulate(4, heterogeneous=True, sites=3, rows=25)
    simulation.write(tmp_path / "deep" / "data")
    folder = tmp_path / "deep" / "data"
    assert sorted(path.name for path in folder.iterdir()) == [
        "simulation.json",
        "site-01.csv",
        "site-02.csv",
        "site-03.csv",
        "truth.csv",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["data"]
    for silo in simulation.silos:
        header, *lines = (folder / f"{silo.name}.csv").read_text(encoding="utf-8").splitlines()
        assert tuple(header.split(",")) == silo.columns
        np.testing.assert_array_equal([[float(cell) for cell in line.split(",")] for line in lines], silo.values)
    assert read_graph(folder / "truth.csv") == simulation.truth
    assert json.loads((folder / "simulation.json").read_text(encoding="utf-8")) == simulation.drawn


def test_an_empty_folder_is_filled_and_a_full_one_is_left_alone(tmp_path: Path) -> None:
    simulation = simulate(3, mechanism="linear", edges_per_node=1, sites=3, rows=20)
    (tmp_path / "empty").mkdir()
    simulation.write(tmp_path / "empty")
    assert (tmp_path / "empty" / "truth.csv").exists()

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("mine")
    with pytest.raises(FeddagError, match="new or an empty folder"):
        simulation.write(tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["precious.txt"]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    simulation = simulate(3, mechanism="linear", edges_per_node=1, sites=3, rows=20)
    unwritable = Simulation(simulation.silos, simulation.truth, {"no": object()})
    with pytest.raises(TypeError):
        unwritable.write(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_has_the_true_graphs_with_hidden_variables(tmp_path):
    simulation = simulate(6, hidden=1, sites=2, rows=20, seed=5)
    simulation.write(tmp_path / "data")
    assert read_graph(tmp_path / "data" / "truth.admg.csv") == simulation.admg
    assert read_graph(tmp_path / "data" / "truth.pag.csv") == simulation.pag
