from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import feddag
from feddag import FeddagError
from feddag.silos import Silo
from feddag.trust import Stability, edge_stability
from feddag.trust.stability import draw_half, share


@pytest.fixture(scope="module")
def simulation():
    return feddag.simulate(4, mechanism="linear", sites=3, rows=60, edge_probability="exact", seed=2)


@pytest.fixture(scope="module")
def learner(simulation):
    return feddag.make_learner("r2-sortnregress").fit(simulation)


class StopError(Exception):
    pass


def stop_after(count):
    seen = []

    def progress(status):
        seen.append(status)
        if len(seen) == count:
            raise StopError

    return progress


def test_intervals_are_wilsons():
    for count, total in ((0, 5), (3, 20), (20, 20)):
        found = share(count, total)
        expected = binomtest(count, total).proportion_ci(method="wilson")
        assert found == pytest.approx((count / total, expected.low, expected.high))
    assert np.isnan(share(0, 0)[0])


def test_frequencies_count_pairs_and_directions():
    learned = feddag.CausalGraph([[0, 1, 0], [0, 0, 1], [0, 1, 0]], ["a", "b", "c"])
    forth = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=np.int8)
    both = forth | forth.T
    back_and_new = np.array([[0, 0, 1], [1, 0, 0], [0, 0, 0]], dtype=np.int8)
    nothing = np.zeros((3, 3), dtype=np.int8)
    found = Stability(
        learned, [forth, both, back_and_new, nothing], {"here": forth, "there": back_and_new, "far": nothing}
    )
    edges = found.table().set_index(["cause", "effect"])

    assert list(edges.index) == [("a", "b"), ("b", "c"), ("a", "c")]
    assert edges["learned"].tolist() == ["directed", "undirected", "not"]
    assert edges["frequency"].tolist() == [0.75, 0.0, 0.25]
    assert edges.loc[("a", "b"), "direction_frequency"] == pytest.approx(1.5 / 3)
    assert np.isnan(edges.loc[("b", "c"), "direction_frequency"])
    assert edges.loc[("a", "b"), "driving_site"] == "there; far"
    assert edges.loc[("a", "b"), "without_it"] == "is reversed; vanishes"
    assert edges.loc[("b", "c"), "driving_site"] == "here; there; far"
    assert edges.loc[("a", "c"), "driving_site"] == ""


def test_the_site_that_an_edge_hangs_on_is_named():
    draw = np.random.default_rng(0)
    tables = {}
    for name in ("here", "there", "odd"):
        a, noise = draw.normal(size=(2, 200))
        tables[name] = np.column_stack([a, (2.0 if name == "odd" else 0.0) * a + noise])
    learner = feddag.make_learner("var-sortnregress").fit(tables)
    edges = edge_stability(learner, tables, bootstraps=2).table()

    assert edges["driving_site"].tolist() == ["odd"]
    assert edges["without_it"].tolist() == ["vanishes"]


def test_a_stopped_run_goes_on_and_ends_as_if_it_had_not_been(simulation, learner, tmp_path):
    with pytest.raises(StopError):
        edge_stability(learner, simulation, bootstraps=4, folder=tmp_path, progress=stop_after(3))
    assert len(list(tmp_path.iterdir())) == 3
    told = []
    resumed = edge_stability(learner, simulation, bootstraps=4, folder=tmp_path, progress=told.append)

    assert [tuple(status.figures.values()) for status in told] == [(4, 7), (5, 7), (6, 7), (7, 7)]
    assert told[-1].seconds_left == 0
    whole = edge_stability(learner, simulation, bootstraps=4)
    assert resumed.table().equals(whole.table())


def test_what_is_kept_of_other_data_or_another_seed_does_not_count(simulation, learner, tmp_path):
    edge_stability(learner, simulation, bootstraps=2, folder=tmp_path)
    told = []
    edge_stability(learner, simulation, bootstraps=2, seed=1, folder=tmp_path, progress=told.append)
    other = feddag.simulate(4, mechanism="linear", sites=3, rows=60, edge_probability="exact", seed=3)
    edge_stability(learner, other, bootstraps=2, seed=1, folder=tmp_path, progress=told.append)
    assert len(told) == 2 * (2 + 3)


@pytest.mark.slow
def test_processes_change_nothing(simulation, learner):
    alone = edge_stability(learner, simulation, bootstraps=3)
    together = edge_stability(learner, simulation, bootstraps=3, jobs=2)
    assert alone.table().equals(together.table())


def test_a_number_of_participants_is_lowered_where_a_site_is_left_out(simulation):
    learner = feddag.FedDAG(model="linear", participation=3, it_inner=1, it_fl=1, rho_max=0.002).fit(simulation)
    assert set(edge_stability(learner, simulation, bootstraps=1).without) == {"site-01", "site-02", "site-03"}
    assert learner.participation == 3


def test_a_site_with_too_few_rows_for_a_half_is_named_before_anything_is_learned(learner, simulation):
    few = [simulation.silos[0].with_rows(np.arange(15)), *simulation.silos[1:]]
    with pytest.raises(FeddagError, match=r"'site-01': 15 rows are too few to learn from half .* at least 20"):
        edge_stability(learner, few, bootstraps=1)


def test_half_of_the_rows_are_drawn_none_twice_and_never_make_a_column_constant():
    values = np.column_stack([np.arange(10.0), np.eye(10)[0]])
    for seed in range(20):
        found = draw_half(Silo("here", ("a", "rare"), values), (0, seed)).values
        assert set(map(tuple, found)) <= set(map(tuple, values))
        assert len(found) == len(set(map(tuple, found))) == 5
        assert len(set(found[:, 1])) == 2


@pytest.mark.parametrize("wrong", [{"bootstraps": 0}, {"jobs": 0}, {"seed": -1}])
def test_wrong_numbers_are_refused(simulation, learner, wrong):
    (name,) = wrong
    with pytest.raises(FeddagError, match=f"{name} must be"):
        edge_stability(learner, simulation, **wrong)
