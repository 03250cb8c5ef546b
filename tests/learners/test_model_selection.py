"""Learners score what they have learned, so that scikit-learn selects between parameters and compares methods."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_val_score

from feddag import EvidenceSearch, FeddagError, make_learner, simulate
from feddag.graphs import CausalGraph
from feddag.learners.validation import log_likelihood
from feddag.silos import read_silos

SIMULATION = simulate(5, mechanism="linear", sites=4, rows=150, seed=1)
TABLES = [silo.to_frame() for silo in SIMULATION.silos]


def test_a_grid_search_over_sites_chooses_the_sane_value_and_learns_with_it():
    search = GridSearchCV(make_learner("notears"), {"l1": [5.0, 0.02, 1.0]}, cv=KFold(2)).fit(TABLES)
    assert search.best_params_ == {"l1": 0.02}
    assert search.best_estimator_.graph_ == SIMULATION.truth
    assert search.score(TABLES) == search.best_estimator_.score(TABLES)


def test_a_grid_search_reaches_the_learner_in_a_regime():
    search = GridSearchCV(make_learner("notears", "all"), {"learner__l1": [5.0, 0.02]}, cv=2).fit(read_silos(TABLES))
    assert search.best_params_ == {"learner__l1": 0.02}


def test_cross_validation_scores_sites_that_were_not_learned_from():
    scores = cross_val_score(EvidenceSearch(restarts=0), TABLES, cv=LeaveOneOut())
    for k, score in enumerate(scores):
        others = [table for position, table in enumerate(TABLES) if position != k]
        assert score == EvidenceSearch(restarts=0).fit(others).score([TABLES[k]])


def test_the_score_is_the_log_likelihood_of_the_guessed_graph():
    learned = EvidenceSearch(restarts=0).fit(SIMULATION)
    silos = read_silos(SIMULATION)
    assert learned.score(SIMULATION) == log_likelihood(learned.dag_, silos)
    empty = CausalGraph(np.zeros((5, 5)), SIMULATION.truth.names)
    assert log_likelihood(SIMULATION.truth, silos) > log_likelihood(empty, silos) + 0.5


def test_methods_are_compared_by_one_score_whatever_the_units_and_the_order_of_columns():
    learned = make_learner("notears").fit(SIMULATION)
    names = list(TABLES[0].columns)
    others = [table[names[::-1]] * 1000 + 7 for table in TABLES]
    assert learned.score(others) == pytest.approx(learned.score(TABLES), abs=1e-6)
    assert learned.score(TABLES) > make_learner("empty").fit(SIMULATION).score(TABLES) + 0.5


def test_categories_are_scored_as_categories():
    draw = np.random.default_rng(0)
    ward = draw.integers(3, size=300)
    stay = np.array([0.0, 3.0, 0.0])[ward] + draw.normal(size=300)
    table = pd.DataFrame({"ward": pd.Categorical(ward), "stay": stay})
    learned = EvidenceSearch(restarts=0).fit([table])
    apart = CausalGraph(np.zeros((2, 2)), ("ward", "stay"))
    gain = learned.score([table]) - log_likelihood(apart, read_silos([table]))
    assert gain == pytest.approx(0.5 * np.log(3), abs=0.15)  # of a variance of 3, one is left


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(NotFittedError):
        EvidenceSearch().score(TABLES)
    with pytest.raises(FeddagError, match="lacks 'a' and has besides 'x0'"):
        make_learner("empty").fit(TABLES).score([table.rename(columns={"x0": "a"}) for table in TABLES])
