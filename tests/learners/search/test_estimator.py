"""The search as its users meet it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import feddag
from feddag import EvidenceSearch, FeddagError, compare, simulate
from feddag.graphs import is_dag
from feddag.learners.search import coordinator
from feddag.learners.search.scores import OwnScores
from feddag.trust import total_effect

SIMULATION = simulate(6, heterogeneous=True, sites=4, rows=[150, 250, 200, 200], seed=5)
COMMON = simulate(6, mechanism="gp", sites=3, rows=300, seed=5)


@pytest.fixture(scope="module")
def learned():
    return EvidenceSearch(restarts=2, seed=1).fit(SIMULATION)


def test_it_finds_the_graph(learned):
    assert compare(learned.dag_, SIMULATION.truth).shd == 0
    assert compare(EvidenceSearch("all").fit(COMMON).dag_, COMMON.truth).shd <= 1


def test_units_do_not_matter(learned):
    rng = np.random.default_rng(0)
    units, origins = rng.uniform(0.001, 1000, 6) * rng.choice([-1, 1], 6), rng.uniform(-50, 50, 6)
    again = EvidenceSearch(restarts=2, seed=1).fit(
        {silo.name: silo.to_frame() * units + origins for silo in SIMULATION.silos}
    )
    np.testing.assert_array_equal(again.dag_.adjacency, learned.dag_.adjacency)
    assert again.score_ == pytest.approx(learned.score_, abs=1e-6)


def test_units_of_a_site_s_own_do_not_matter_where_mechanisms_are_its_own():
    rng = np.random.default_rng(0)
    scaled = {
        silo.name: silo.to_frame() * rng.uniform(0.001, 1000, 6) * rng.choice([-1, 1], 6) + rng.uniform(-50, 50, 6)
        for silo in SIMULATION.silos
    }
    one, other = (EvidenceSearch("graph", restarts=0).fit(data) for data in (SIMULATION, scaled))
    np.testing.assert_array_equal(one.dag_.adjacency, other.dag_.adjacency)
    assert one.score_ == pytest.approx(other.score_, abs=1e-6)


def test_common_mechanisms_need_not_care_how_rows_are_spread():
    rows = np.concatenate([silo.values for silo in COMMON.silos])
    one = EvidenceSearch("all").fit([rows])
    np.testing.assert_array_equal(one.dag_.adjacency, EvidenceSearch("all").fit(COMMON).dag_.adjacency)


def test_equal_noise_tells_linear_directions():
    simulation = simulate(8, mechanism="linear", sites=4, rows=300, seed=3)
    for sharing in ("graph", "all"):
        learner = EvidenceSearch(sharing, "equal").fit(simulation)
        assert compare(learner.dag_, simulation.truth).shd == 0


def test_what_it_reports_belongs_together(learned):
    assert is_dag(learned.dag_.adjacency)
    assert ((learned.graph_.scores > 0) == (learned.dag_.adjacency > 0)).all()
    np.testing.assert_array_equal(
        learned.adjacency_ | learned.adjacency_.T, learned.dag_.adjacency | learned.dag_.adjacency.T
    )
    assert all(learned.edge_frequencies_.at[edge] >= 1 / 3 for edge in learned.dag_.edges)
    edges = learned.edge_evidence_
    assert list(zip(edges.cause, edges.effect, strict=True)) == list(learned.dag_.edges)
    assert (edges.absent > 0).all()
    assert learned.tables()["edge_evidence"].frequency.between(0, 1).all()
    frame = learned.history_.to_frame()
    assert frame["round"].tolist() == list(range(1, len(frame) + 1))
    assert set(frame.stage) == {"order", "refinement", "directions", "checks", "hidden causes"}


@pytest.mark.parametrize("sharing", ["graph", "all"])
def test_every_round_is_told_where_edges_are_required(sharing):
    learner = EvidenceSearch(sharing, required=[("x0", "x1")], restarts=0).fit(SIMULATION)
    assert learner.history_.rounds[-1].bytes_sent == sum(learner.communication_.sent.values())


@pytest.mark.parametrize("sharing", ["graph", "all"])
@pytest.mark.parametrize("seed", range(3))
def test_copies_of_a_column_in_other_units_end_it_too(sharing, seed):
    """By rounding, two graphs of such columns may each seem better than the other."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(2):
        cm = 150 + 10 * rng.standard_normal(1000)
        tables.append(pd.DataFrame({"cm": cm, "inch": cm / 2.54, "foot": cm / 30.48, "metre": cm / 100}))
    assert is_dag(EvidenceSearch(sharing, restarts=0).fit(tables).dag_.adjacency)


def test_no_open_edge_could_only_point_one_way():
    rng = np.random.default_rng(2)
    tables = []
    for _ in range(2):
        a = rng.standard_normal(150)
        b = 0.5 * a + rng.standard_normal(150)
        tables.append(pd.DataFrame({"a": a, "b": b, "c": 0.7 * b - 0.9 * a + rng.standard_normal(150)}))
    learned = EvidenceSearch(restarts=0, forbidden=[("b", "a"), ("c", "b")], keep_doubtful=True).fit(tables)
    assert {("a", "b"), ("b", "c")} <= set(learned.graph_.edges)
    assert ("a", "c") in learned.graph_.edges
    assert learned.edge_evidence_.directed.all()


def test_effects_know_the_parents_of_the_best_graph_where_directions_are_open():
    """An open arm of a collider would else be read as no collider."""
    simulation = simulate(6, mechanism="linear", sites=2, rows=400, noise_deviation_range=(0.5, 1.5), seed=7)
    learned = EvidenceSearch("all", restarts=0).fit(simulation)
    assert learned.graph_.undirected_edges
    names = learned.graph_.names
    for cause in names:
        parents = "; ".join(name for name in names if (name, cause) in learned.dag_.edges)
        effect = next(name for name in names if name != cause)
        assert parents in {
            each.adjusted_for for each in total_effect(learned, simulation.silos, cause, effect).estimates
        }


def test_it_stays_within_a_few_hundred_rounds_at_twenty_variables():
    learner = EvidenceSearch().fit(simulate(20, mechanism="gp-add", sites=2, rows=80, seed=1))
    assert len(learner.history_.rounds) < 250


@pytest.mark.parametrize("start", [None, ["x5", "x4", "x3", "x2", "x1", "x0"]])
def test_guesses_and_searches_side_by_side_save_rounds_and_change_nothing(monkeypatch, start):
    quick = EvidenceSearch(restarts=4, seed=1, start=start).fit(SIMULATION)
    monkeypatch.setattr(coordinator, "_SIDE_BY_SIDE", 1)
    monkeypatch.setattr(OwnScores, "guesses", 0)
    plain = EvidenceSearch(restarts=4, seed=1, start=start).fit(SIMULATION)
    np.testing.assert_array_equal(quick.dag_.adjacency, plain.dag_.adjacency)
    np.testing.assert_array_equal(quick.edge_frequencies_, plain.edge_frequencies_)
    pd.testing.assert_frame_equal(quick.edge_evidence_, plain.edge_evidence_)
    assert len(quick.history_.rounds) < len(plain.history_.rounds)


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path, learned):
    stops = 0

    class StopError(Exception):
        pass

    def stop_each_time(after):
        def progress(status):
            nonlocal stops
            stops += 1
            if stops % after == 0:
                raise StopError

        return progress

    learner = EvidenceSearch(restarts=2, seed=1)
    for _ in range(200):
        try:
            learner.fit(SIMULATION, checkpoint=tmp_path / "checkpoint.npz", progress=stop_each_time(7))
            break
        except StopError:
            continue
    assert stops > 14
    np.testing.assert_array_equal(learner.edge_scores_, learned.edge_scores_)
    pd.testing.assert_frame_equal(learner.edge_evidence_, learned.edge_evidence_)
    for site, sent in learned.communication_.sent.items():  # what is asked ahead of time may be other families
        assert learner.communication_.sent[site] == pytest.approx(sent, rel=0.02)


@pytest.mark.parametrize("noise", ["free", "equal"])
def test_the_log_evidence_of_any_graph_can_be_asked_for(noise):
    learner = EvidenceSearch(noise=noise, restarts=0).fit(SIMULATION)
    assert learner.log_evidence(SIMULATION, learner.dag_) == pytest.approx(-learner.score_, abs=1e-3)
    names = learner.dag_.names
    turned = feddag.CausalGraph(learner.dag_.adjacency[::-1, ::-1], names[::-1])
    assert learner.log_evidence(SIMULATION, turned) == pytest.approx(learner.log_evidence(SIMULATION, learner.dag_))
    empty = feddag.CausalGraph(np.zeros((6, 6)), names)
    assert learner.log_evidence(SIMULATION, empty) < -learner.score_
    with pytest.raises(FeddagError, match="graph must be a DAG over"):
        learner.log_evidence(SIMULATION, feddag.CausalGraph(np.array([[0, 1], [0, 0]])))


@pytest.mark.parametrize("sharing", ["graph", "all"])
def test_with_equal_noise_too_the_truth_has_the_greatest_log_evidence(sharing):
    simulation = simulate(5, mechanism="linear", sites=3, rows=300, seed=1)
    learner, truth = EvidenceSearch(sharing, "equal", restarts=0), simulation.truth
    best = learner.log_evidence(simulation, truth)
    order = np.array(list(nx.topological_sort(nx.DiGraph(truth.adjacency))))
    full = np.zeros((5, 5), np.int8)
    full[order[:, None], order] = np.triu(np.ones((5, 5)), 1)
    others = [np.zeros((5, 5), np.int8), full]
    for i, j in np.argwhere(truth.adjacency):
        without = truth.adjacency.copy()
        without[i, j] = 0
        others.append(without)
    for adjacency in others:
        assert learner.log_evidence(simulation, feddag.CausalGraph(adjacency, truth.names)) < best


def test_a_time_budget_ends_the_restarts():
    """Without, so many would never end."""
    learner = EvidenceSearch(restarts=10**12, time_budget=0.5).fit(SIMULATION)
    assert compare(learner.dag_, SIMULATION.truth).shd <= 2


def test_it_begins_with_the_order_that_is_given():
    names = list(SIMULATION.truth.names)
    one, other = (EvidenceSearch(start=order, restarts=0).fit(SIMULATION) for order in (names, names[::-1]))
    assert one.history_.to_frame().families.tolist() != other.history_.to_frame().families.tolist()
    assert max(compare(each.dag_, SIMULATION.truth).shd for each in (one, other)) <= 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sharing": "none"}, "sharing must be one of"),
        ({"noise": "odd"}, "noise must be one of"),
        ({"restarts": -1}, "restarts must be"),
        ({"confidence": 0.4}, "confidence must be a number from 0.5 to less than 1"),
        ({"start": ["X1"]}, "start must have every variable once"),
        ({"required": [("X1",)]}, "required must be a list of"),
        ({"tiers": "X1"}, "tiers must be a list of"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"forbidden": [("x0", "nowhere")]}, "'nowhere', which is not a variable"),
    ],
)
def test_impossible_parameters_are_refused(parameters, message):
    with pytest.raises(FeddagError, match=message):
        clone(EvidenceSearch(**parameters)).fit(SIMULATION)


def test_knowledge_by_name_is_obeyed(learned):
    cause, effect = next(iter(learned.dag_.edges))
    learner = EvidenceSearch(forbidden=[(cause, effect)]).fit(SIMULATION)
    assert (cause, effect) not in learner.dag_.edges
    assert EvidenceSearch(required=[(effect, cause)]).fit(SIMULATION).dag_.to_networkx().has_edge(effect, cause)


def test_a_run_folder_holds_it_all(tmp_path, learned):
    from feddag.runs import Run  # noqa: PLC0415

    paths = []
    for silo in SIMULATION.silos:
        paths.append(tmp_path / f"{silo.name}.csv")
        silo.to_frame().to_csv(paths[-1], index=False)
    estimator = EvidenceSearch(restarts=2, seed=1)
    run = Run.start(tmp_path / "run", estimator, estimator.check(paths), paths)
    run.learn()
    loaded = feddag.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.dag_.adjacency, learned.dag_.adjacency)
    pd.testing.assert_frame_equal(loaded.edge_evidence_, learned.edge_evidence_, check_exact=False)
    assert pd.read_csv(tmp_path / "run" / "edge_evidence.csv").shape == (len(learned.edge_evidence_), 15)
