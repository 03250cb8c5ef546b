from __future__ import annotations

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.federation import InProcess
from feddag.graphs import CausalGraph, compare
from feddag.learners.validation import Validation, mean_score
from feddag.selection import select
from feddag.silos import Silo, simulate
from feddag.silos.variable_types import CONTINUOUS, Kind

LINEAR = simulate(5, mechanism="linear", sites=3, rows=150, seed=1)


def _score(silos, graph):
    sites = [Validation(silo, 0.2, 0, k) for k, silo in enumerate(silos)]
    with InProcess(sites, 1) as federation:
        score = mean_score(federation, graph, silos[0].columns)
    return score, federation.ledger


def test_the_sane_value_of_a_grid_is_chosen():
    chosen = select(LINEAR, "notears", {"l1": [5.0, 0.02, 1.0]})
    assert chosen.best.parameters == {"l1": 0.02}
    assert compare(chosen.best.graph, LINEAR.truth).shd == 0
    frame = chosen.to_frame()
    assert frame["chosen"].tolist() == [True, False, False]
    assert frame["score"].is_monotonic_increasing
    assert frame["l1"].tolist()[0] == 0.02


def test_of_equal_graphs_scores_are_equal_and_the_first_is_chosen():
    chosen = select(LINEAR, "random", {"edges_per_node": [0.5, 0.5]}, seed=3)
    assert chosen.candidates[0].score == chosen.candidates[1].score
    assert chosen.best is chosen.candidates[0]


@pytest.mark.parametrize("heterogeneous", [False, True])
def test_the_truth_predicts_better_than_its_neighbours(heterogeneous):
    simulation = simulate(6, sites=3, rows=300, seed=2, heterogeneous=heterogeneous)
    truth = simulation.truth
    best, _ = _score(simulation.silos, truth)
    empty, _ = _score(simulation.silos, CausalGraph(np.zeros((6, 6)), truth.names))
    reversed_, _ = _score(simulation.silos, CausalGraph(truth.adjacency.T, truth.names))
    assert best < reversed_
    assert best < empty - 0.5


def test_the_score_is_the_negative_log_likelihood_of_a_row():
    """x causes y, linearly: entropies of the two noises, after each column is brought to its own deviation."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=40_000)
    y = 2 * x + 0.5 * rng.normal(size=40_000)
    silo = Silo("site", ("x", "y"), np.column_stack([x, y]))
    score, _ = _score([silo], CausalGraph([[0, 1], [0, 0]], ("x", "y")))
    share_unexplained = 0.25 / 4.25
    expected = np.log(2 * np.pi) + 1 + 0.5 * np.log(share_unexplained)
    assert score == pytest.approx(expected, abs=0.03)


def test_units_do_not_matter():
    silos = LINEAR.silos
    scaled = [Silo(silo.name, silo.columns, silo.values * [1, 1000, 1, 1e-3, 1] + 7) for silo in silos]
    assert _score(silos, LINEAR.truth)[0] == pytest.approx(_score(scaled, LINEAR.truth)[0], abs=1e-6)


def test_one_number_leaves_a_site():
    _, ledger = _score(LINEAR.silos, LINEAR.truth)
    assert set(ledger.sent.values()) == {8}


def test_rows_laid_aside_are_not_learned_from():
    silo = LINEAR.silos[0]
    site = Validation(silo, 0.2, 0, 0)
    held_out = site._own.held_out
    assert (site.training.rows, len(held_out)) == (120, 30)
    together = np.concatenate([site.training.values, held_out])
    assert sorted(map(tuple, together)) == sorted(map(tuple, silo.values))


def test_progress_tells_the_combination():
    seen = []
    select(LINEAR, "empty", {}, progress=lambda position, total, status: seen.append((position, total, status.figures)))
    assert seen[-1][:2] == (1, 1)
    assert "score" in seen[-1][2]


def test_mistakes_are_named_before_anything_is_learned():
    with pytest.raises(FeddagError, match="no published grid for 'notears'"):
        select(LINEAR, "notears")
    with pytest.raises(FeddagError, match="does not take 'l2'"):
        select(LINEAR, "notears", {"l2": [1]})
    with pytest.raises(FeddagError, match="l1 must be a number of at least 0"):
        select(LINEAR, "notears", {"l1": [0.1, -1]})
    with pytest.raises(FeddagError, match="no value for 'l1'"):
        select(LINEAR, "notears", {"l1": []})
    with pytest.raises(FeddagError, match="validation_share must be a number in"):
        select(LINEAR, "notears", {"l1": [0.1]}, validation_share=1.0)
    short = {"site-1": LINEAR.silos[0].values[:12]}
    with pytest.raises(FeddagError, match="Site 'site-1': 12 rows less 6"):
        select(short, "notears", {"l1": [0.1]}, validation_share=0.5)


def test_categories_stay_categories():
    draw = np.random.default_rng(0)
    ward = draw.integers(3, size=300)
    stay = np.array([0.0, 3.0, 0.0])[ward] + draw.normal(size=300)
    kinds = (Kind("categorical", ("a", "b", "c")), CONTINUOUS)
    silo = Silo("site", ("ward", "stay"), np.column_stack([ward, stay]), kinds)
    assert Validation(silo, 0.2, 0, 0).training.kinds == kinds
    joined, _ = _score([silo], CausalGraph([[0, 1], [0, 0]], silo.columns))
    apart, _ = _score([silo], CausalGraph(np.zeros((2, 2)), silo.columns))
    assert joined == pytest.approx(apart + 0.5 * np.log(1 / 3), abs=0.15)  # of a variance of 3, one is left
