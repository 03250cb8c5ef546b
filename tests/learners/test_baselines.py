from __future__ import annotations

import numpy as np
import pytest

from feddag import make_learner

TABLE = np.random.default_rng(0).normal(size=(20, 10))


def test_the_empty_graph_has_no_edge():
    assert not make_learner("empty").fit([TABLE]).adjacency_.any()


@pytest.mark.parametrize("edges_per_node", [0.0, 1.0, 2.0, 4.5, 100.0])
def test_a_random_graph_has_as_many_edges_as_expected(edges_per_node):
    graphs = [
        make_learner("random", edges_per_node=edges_per_node, seed=seed).fit([TABLE]).graph_ for seed in range(60)
    ]
    assert all(graph.is_dag for graph in graphs)
    assert np.mean([len(graph.edges) for graph in graphs]) == pytest.approx(min(10 * edges_per_node, 45), abs=1.5)
    assert edges_per_node in (0.0,) or len(set(graphs)) > 50
