from __future__ import annotations

import importlib

import pytest

from feddag.graphs import is_dag
from feddag.silos.real import fmri9, sachs


def test_sachs_has_nine_conditions_and_a_consensus_graph():
    data = sachs()
    assert len(data.silos) == 9
    assert sum(silo.rows for silo in data.silos) == 7466
    assert len(data.truth.edges) == 20
    assert data.truth.names == data.silos[0].columns
    assert is_dag(data.truth.adjacency)
    assert data.licence == "CC0"


def test_fmri9_has_nine_people_and_a_stimulus_without_causes():
    data = fmri9()
    assert [silo.values.shape for silo in data.silos] == [(160, 9)] * 9
    assert data.truth is None
    assert data.exogenous == ("I",)
    assert "I" in data.silos[0].columns
    assert data.licence == "CC0"


@pytest.mark.parametrize("name", ["sachs", "fmri9"])
def test_no_folder_of_data_replaces_the_function_that_reads_it(name):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"feddag.silos.real.{name}")
