"""What holds for every method in every regime; the one property that some lack has a table of those, and of why."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from feddag import FeddagError, make_learner
from feddag.graphs import is_dag
from feddag.learners.registry import METHODS
from feddag.silos import Silo, simulate
from same_graphs import same

TINY = {
    "feddag": {"model": "linear", "it_inner": 40, "it_fl": 20, "it_max": 2, "rho_max": 1.0},
    "admg": {"it_inner": 40, "it_fl": 20, "it_max": 2, "rho_max": 1.0},
    "private-search": {"epsilon": 10.0, "ranges": (-8.0, 8.0), "expected_rows": 370, "noise_seed": 1},
    "mcsl": {"it_inner": 6, "it_fl": 3, "rho_max": 0.1, "hidden_layers": 1, "hidden_units": 2},
    "notears-mlp": {"it_inner": 6, "it_fl": 3, "rho_max": 0.1, "hidden_units": 2},
    "dag-gnn": {"it_inner": 6, "it_fl": 3, "rho_max": 0.1, "hidden_units": 2},
    "notears": {"it_max": 3},
    "notears-admm": {"it_max": 8},
    "notears-mlp-admm": {"it_max": 2, "hidden_units": 1},
}
"""Settings with which a fit takes no time, and is a function of the rows. feddag's masked networks are run as mcsl."""

NOT_EQUIVARIANT = {
    "mcsl": "its initial weights and its masks are drawn by position",
    "notears-mlp": "its initial weights are drawn by position",
    "notears-mlp-admm": "its initial weights are drawn by position",
    "private-search": "its noise is drawn by position",
    "random": "it is drawn by position",
}
"""Methods whose graph does not follow a permutation of the variables, and why."""

# Sites of unequal size share their compiled programs: JAX sees all padded to 128 rows.
SIMULATION = simulate(5, mechanism="linear", sites=3, rows=[122, 124, 128], seed=2)
CASES = [(name, regime) for name, method in METHODS.items() for regime in method.regimes]


def learner(name, regime):
    return make_learner(name, regime, **TINY.get(name, {}))


def assert_same(graph, expected):
    np.testing.assert_array_equal(graph.adjacency, expected.adjacency)
    # as near as an optimiser comes that adds the same numbers in another order
    np.testing.assert_allclose(graph.scores, expected.scores, rtol=1e-2, atol=1e-3)


@pytest.fixture(scope="module")
def fitted():
    """Each case's learner, fitted once."""
    made = {}

    def get(name, regime):
        if (name, regime) not in made:
            made[name, regime] = learner(name, regime).fit(SIMULATION)
        return made[name, regime]

    return get


def test_every_exemption_is_of_a_method():
    assert {*NOT_EQUIVARIANT, *TINY} <= set(METHODS)


@pytest.mark.parametrize(("name", "regime"), CASES)
class TestEveryMethodInEveryRegime:
    def test_finds_a_graph_of_its_kind(self, name, regime, fitted):
        learned = fitted(name, regime)
        directed = learned.adjacency_ & ~learned.adjacency_.T & 1
        assert is_dag(directed)
        leaves_open = METHODS[name].estimator.endswith((":PC", ":GES", ":EvidenceSearch", ":PrivateSearch"))
        assert learned.graph_.is_dag or leaves_open or (name == "admg" and learned.graph_.allows_hidden_causes)
        assert learned.graph_.names == SIMULATION.truth.names
        assert learned.sites_ == tuple(silo.name for silo in SIMULATION.silos)
        assert learned.learned_alone == (regime in ("separate", "voting"))
        np.testing.assert_array_equal(learned.edge_scores_, learned.graph_.scores)

    def test_names_the_edges_that_it_scores(self, name, regime, fitted):
        learned = fitted(name, regime)
        assert (learned.edge_scores_.index.name, learned.edge_scores_.columns.name) == ("cause", "effect")
        for i, cause in enumerate(learned.graph_.names):
            for j, effect in enumerate(learned.graph_.names):
                assert learned.edge_scores_.at[cause, effect] == learned.graph_.scores[i, j]

    def test_has_nothing_to_show_before_it_is_fitted(self, name, regime):
        for shown in (lambda new: new.doubtful_edges, lambda new: new.learned_alone, lambda new: new.tables()):
            with pytest.raises(NotFittedError):
                shown(learner(name, regime))

    def test_sees_no_order_in_the_variables(self, name, regime, fitted):
        if name in NOT_EQUIVARIANT:
            pytest.skip(NOT_EQUIVARIANT[name])
        order = [3, 0, 4, 2, 1]
        names = [SIMULATION.truth.names[k] for k in order]
        permuted = learner(name, regime).fit({silo.name: silo.to_frame()[names] for silo in SIMULATION.silos})
        assert_same(permuted.graph_, fitted(name, regime).graph_.reordered(names))

    def test_is_a_function_of_rows_and_parameters_whatever_sites_are_called(self, name, regime, fitted):
        renamed = [Silo(f"z{k}", silo.columns, silo.values) for k, silo in enumerate(SIMULATION.silos[::-1])][::-1]
        assert same(learner(name, regime).fit(renamed).graph_, fitted(name, regime).graph_)

    def test_sees_no_order_in_the_sites(self, name, regime, fitted):
        assert_same(learner(name, regime).fit(SIMULATION.silos[::-1]).graph_, fitted(name, regime).graph_)

    def test_learns_from_two_variables_and_one_site(self, name, regime):
        first = SIMULATION.silos[0]
        learned = learner(name, regime).fit({"only": first.to_frame().iloc[:, :2]})
        assert learned.graph_.names == first.columns[:2]
        assert learned.sites_ == ("only",)

    def test_is_cloned_pickled_and_restored(self, name, regime, fitted):
        learned = fitted(name, regime)
        fresh = clone(learned)
        assert repr(fresh) == repr(learned)
        assert not hasattr(fresh, "graph_")
        for again in (fresh.restore(*learned.snapshot()), pickle.loads(pickle.dumps(learned))):
            assert same(again.graph_, learned.graph_)
            assert again.communication_ == learned.communication_
            assert (again.sites_, again.seconds_) == (learned.sites_, learned.seconds_)
            assert getattr(again, "site_graphs_", None) == getattr(learned, "site_graphs_", None)
            frames = [_frames(each) for each in (again, learned)]
            assert frames[0].keys() == frames[1].keys()
            assert all(frames[0][site].equals(frames[1][site]) for site in frames[0])

    def test_goes_on_from_its_checkpoint(self, name, regime, fitted, tmp_path):
        class StopError(Exception):
            pass

        def stop(status):
            assert (status.site is None) == (regime in ("federated", "all"))
            raise StopError

        with pytest.raises(StopError):
            learner(name, regime).fit(SIMULATION, progress=stop, checkpoint=tmp_path / "run.npz")
        resumed = learner(name, regime).fit(SIMULATION, checkpoint=tmp_path / "run.npz")
        assert same(resumed.graph_, fitted(name, regime).graph_)
        told = []
        done = learner(name, regime).fit(SIMULATION, checkpoint=tmp_path / "run.npz", progress=told.append)
        assert not told
        assert same(done.graph_, resumed.graph_)

    def test_takes_columns_for_what_they_are_declared_to_be(self, name, regime, fitted):
        tables = {silo.name: silo.to_frame().astype({"x0": "category"}) for silo in SIMULATION.silos}
        learned = learner(name, regime).fit(tables, kinds={"x0": "continuous"})
        assert same(learned.graph_, fitted(name, regime).graph_)

    def test_says_what_it_cannot_learn_from(self, name, regime):
        with pytest.raises(FeddagError, match="a graph needs at least 2 columns"):
            learner(name, regime).fit([SIMULATION.silos[0].values[:, :1]])


def _frames(learned):
    histories = learned.history_ if learned.learned_alone else {"": learned.history_}
    return {site: history.to_frame() for site, history in histories.items()}


@pytest.mark.parametrize("name", ["pc", "ges", "cam", "var-sortnregress", "r2-sortnregress"])
class TestMethodsThatNeedFullRank:
    def test_name_the_column_that_others_determine(self, name):
        values = SIMULATION.silos[0].values
        twice = Silo("s", ("a", "c", "b"), np.column_stack([values[:, 0], values[:, 1], 2 * values[:, 0] + 1]))
        with pytest.raises(FeddagError, match="Site 's': column 'b' is a linear function of columns before it"):
            make_learner(name, "separate").fit([twice])

    def test_ask_for_more_rows_than_columns(self, name):
        few = np.random.default_rng(0).normal(size=(12, 12))
        with pytest.raises(FeddagError, match="12 rows are too few for 12 columns"):
            make_learner(name, "voting").fit([few])
        if name in ("var-sortnregress", "r2-sortnregress"):
            make_learner(name).fit([few, few + few[::-1]])  # together they have enough


def test_a_learner_of_one_table_is_told_to_choose_a_regime():
    plain = METHODS["ges"].learner()()
    with pytest.raises(FeddagError, match=r"GES learns from one table, and there are 3 sites\. Choose a regime"):
        plain.fit(SIMULATION)
    assert plain.fit(SIMULATION.silos[:1]).graph_.names == SIMULATION.truth.names
