"""What is kept of a fit, and how far the sites' own graphs are apart."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from feddag.graphs import shd
from feddag.learners import FedDAGHistory, FedDAGRound
from feddag.learners.feddag.history import SiteView, mean_distances


@pytest.mark.parametrize(("sites", "nodes"), [(2, 2), (3, 4), (7, 5)])
@pytest.mark.parametrize("seed", range(3))
def test_mean_distances_are_those_over_all_pairs(sites, nodes, seed):
    scores = np.random.default_rng(seed).random((sites, nodes, nodes))
    scores[:, range(nodes), range(nodes)] = 0
    pairs = list(itertools.combinations(scores, 2))
    l1 = np.mean([np.abs(one - other).sum() for one, other in pairs])
    hamming = np.mean([shd(one > 0.5, other > 0.5) for one, other in pairs])
    assert mean_distances(scores, 0.5) == (pytest.approx(l1), pytest.approx(hamming))


def test_mean_distances_use_the_threshold():
    scores = np.zeros((2, 2, 2))
    scores[0, 0, 1] = 0.4
    assert mean_distances(scores, 0.3) == (pytest.approx(0.4), 1.0)
    assert mean_distances(scores, 0.5) == (pytest.approx(0.4), 0.0)


def test_a_reversed_edge_counts_once():
    scores = np.zeros((2, 3, 3))
    scores[0, 0, 1] = scores[1, 1, 0] = 1
    assert mean_distances(scores, 0.5) == (2.0, 1.0)


def test_one_site_is_at_no_distance():
    assert mean_distances(np.ones((1, 3, 3)), 0.5) == (0.0, 0.0)


@pytest.fixture
def history():
    view = SiteView(loss={"a": 1.5, "b": 2.5}, fit={"a": 1.0, "b": 2.0}, l1_distance=0.5, shd_distance=1.0)
    rounds = [
        FedDAGRound(k, 1, 10 * k, rho=0.1, alpha=0.0, h=1 / k, edges=3, seconds=0.5 * k, sites=view) for k in (1, 2)
    ]
    return FedDAGHistory(rounds, [np.eye(2), np.ones((2, 2))])


def test_the_frame_has_one_row_per_round_and_a_column_per_site(history):
    frame = history.to_frame()
    assert frame["round"].tolist() == [1, 2]
    assert frame["h"].tolist() == [1.0, 0.5]
    assert frame["loss[a]"].tolist() == [1.5, 1.5]
    assert frame["fit[b]"].tolist() == [2.0, 2.0]
    assert frame["shd_distance"].tolist() == [1.0, 1.0]
    assert "sites" not in frame


def test_rounds_without_a_view_of_the_sites_have_a_frame_too():
    frame = FedDAGHistory([FedDAGRound(1, 1, 10, 0.1, 0.0, 1.0, 3, 0.5)]).to_frame()
    assert frame.columns.tolist() == [
        "round", "sub_problem", "step", "rho", "alpha", "h", "edges", "seconds", "bytes_sent", "bytes_received"
    ]  # fmt: skip


def test_a_history_survives_json(history):
    rounds, graphs = history.snapshot()
    again = FedDAGHistory.restored(json.loads(json.dumps(rounds)), graphs)
    assert again.rounds == history.rounds
    assert len(again.graphs) == 2
    np.testing.assert_array_equal(again.graphs, history.graphs)
