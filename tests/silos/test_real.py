from __future__ import annotations

from feddag.graphs import is_dag
from feddag.silos.real import sachs


def test_sachs_has_nine_conditions_and_a_consensus_graph():
    data = sachs()
    assert len(data.silos) == 9
    assert sum(silo.rows for silo in data.silos) == 7466
    assert len(data.truth.edges) == 20
    assert data.truth.names == data.silos[0].columns
    assert is_dag(data.truth.adjacency)
    assert data.licence == "CC0"
