"""What bounds the time of the search: rows that a site looks at, families that are scored, and parts of questions."""

import numpy as np
import pandas as pd
import pytest

from feddag import EvidenceSearch, simulate
from feddag.learners.search import estimator, scores
from feddag.learners.search.interventions import SiteWithExperiments
from feddag.learners.search.scores import OwnScores
from feddag.regression.views import MOST_NEIGHBOURS, _looked_at, evenly_spaced
from feddag.silos import Silo
from feddag.silos.variable_types import Kind

SIMULATION = simulate(6, mechanism="mim", sites=2, rows=200, seed=3)
COLUMNS = tuple(SIMULATION.silos[0].columns)


@pytest.mark.parametrize("sharing", ["auto", "graph"])
def test_a_large_site_counts_as_the_rows_that_it_looks_at(monkeypatch, sharing):
    some = [silo.with_rows(evenly_spaced(silo.rows, 80)) for silo in SIMULATION.silos]
    expected = EvidenceSearch(sharing, restarts=0).fit(some)
    monkeypatch.setattr(estimator, "MOST_ROWS", 80)
    found = EvidenceSearch(sharing, restarts=0).fit(SIMULATION.silos)
    pd.testing.assert_frame_equal(found.edge_evidence_, expected.edge_evidence_)
    np.testing.assert_array_equal(found.dag_.adjacency, expected.dag_.adjacency)


def test_all_rows_count_with_levels_and_with_experiments(monkeypatch):
    monkeypatch.setattr(estimator, "MOST_ROWS", 80)
    (silo, _), binary = SIMULATION.silos, Kind("binary", ("0", "1"))
    values = np.column_stack([silo.values[:, 0] > 0, silo.values[:, 1]]).astype(float)
    mixed = EvidenceSearch().site(Silo("mixed", ("a", "b"), values, (binary, silo.kinds[1])), 0)
    assert len(mixed._values) == 200
    targets = np.zeros(silo.values.shape, dtype=bool)
    targets[:60, 0] = True
    changed = Silo("changed", COLUMNS, silo.values, targets=targets)
    site = EvidenceSearch().site(changed, 0)
    assert isinstance(site, SiteWithExperiments)
    assert site._rows == len(site._all_rows._values) == 200


@pytest.mark.parametrize("sharing", ["auto", "graph"])
def test_questions_in_parts_change_nothing_but_the_number_of_rounds(monkeypatch, sharing):
    whole = EvidenceSearch(sharing, restarts=1).fit(SIMULATION)
    monkeypatch.setattr(scores, "_REGRESSED_ROWS_AT_ONCE", 5 * 400)
    monkeypatch.setattr(scores, "_NEIGHBOURHOODS_AT_ONCE", 4)
    parts = EvidenceSearch(sharing, restarts=1).fit(SIMULATION)
    pd.testing.assert_frame_equal(parts.edge_evidence_, whole.edge_evidence_)
    pd.testing.assert_frame_equal(parts.edge_scores_, whole.edge_scores_)
    assert len(parts.history_.rounds) > len(whole.history_.rounds)


def test_joint_scores_of_few_further_parents_find_the_graph(monkeypatch):
    every = EvidenceSearch(restarts=0).fit(SIMULATION)
    monkeypatch.setattr(OwnScores, "additions", 3)
    few = EvidenceSearch(restarts=0).fit(SIMULATION)
    assert few.history_.rounds[-1].families < every.history_.rounds[-1].families
    np.testing.assert_array_equal(few.dag_.adjacency, every.dag_.adjacency)
    scored = every.dag_.adjacency > 0
    np.testing.assert_allclose(np.asarray(few.edge_scores_)[scored], np.asarray(every.edge_scores_)[scored])
    assert (np.asarray(few.edge_scores_)[~scored] <= 0).all()


def test_models_of_noise_look_at_the_best_neighbours_of_either_kind():
    own, better, worse = 1.0, 0.5, 2.0
    children = np.array([0, 0, 0])
    parents = np.array([[0, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]], dtype=bool)
    near = np.array(
        [
            [own, 1.2, 1.4, 1.3, better, worse, worse],
            [own, 0.9, 0.8, better, 0.7, worse, worse],
            [own, worse, worse, worse, worse, worse, worse],
        ]
    )
    looked_at = [np.flatnonzero(row).tolist() for row in _looked_at(children, parents, near)]
    assert looked_at == [[0, 1, 3, 4], [0, 3, 4], [0]]
    assert max(map(len, looked_at)) <= 1 + 2 * MOST_NEIGHBOURS
