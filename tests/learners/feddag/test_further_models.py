"""FedDAG with models other than its own: it runs, is restored, and finds their graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from feddag import FeddagError, make_learner, simulate
from feddag.learners import FedDAG
from same_graphs import same


@pytest.mark.parametrize(
    ("model", "sharing"),
    [("notears-mlp", "all"), ("notears-mlp", "none"), ("dag-gnn", "all"), ("dag-gnn", "graph"), ("dag-gnn", "none")],
)
def test_further_models_run_and_are_restored(model, sharing):
    simulation = simulate(4, mechanism="linear", sites=2, rows=50, seed=1)
    learner = FedDAG(sharing, model, it_inner=6, it_fl=3, rho_max=0.1, seed=1).fit(simulation)
    again = FedDAG(sharing, model, it_inner=6, it_fl=3, rho_max=0.1, seed=1).restore(*learner.snapshot())
    assert same(again.graph_, learner.graph_)
    X = simulation.silos[0].values
    np.testing.assert_array_equal(again.predict(X, "site-01"), learner.predict(X, "site-01"))


def test_a_graph_that_is_part_of_the_mechanisms_cannot_be_shared_alone():
    with pytest.raises(FeddagError, match=r"'notears-mlp' cannot share its graph alone.*sharing='all'"):
        FedDAG("graph", "notears-mlp").fit(simulate(3, sites=2, rows=30, seed=1))


@pytest.fixture(scope="module")
def confounded():
    """Two instruments tell that a hidden variable joins a and b: u -> a <-> b <- w."""
    rng = np.random.default_rng(1)
    tables = {}
    for site in ("here", "there"):
        hidden, u, w, one, other = rng.normal(size=(5, 1500))
        tables[site] = pd.DataFrame({"u": u, "w": w, "a": u + hidden + 0.5 * one, "b": 3 * (w + hidden + 0.5 * other)})
    return tables


@pytest.fixture(scope="module")
def learned(confounded):
    """The ADMG of these tables."""
    return make_learner("admg", it_max=15).fit(confounded)


def test_the_admg_of_a_confounded_pair_has_an_edge_for_the_hidden_cause(learned):
    assert ("a", "b") in learned.graph_.bidirected_edges
    # whether u acts on a, or is joined to it as well, no data with normal noise can tell
    assert [str(edge) for edge in learned.graph_.to_pag().marked_edges] == ["u o-> a", "w o-> b", "a <-> b"]
    again = FedDAG("all", "admg", l1=0.02, it_max=15).restore(*learned.snapshot())
    assert again.graph_ == learned.graph_
    assert again.site_graphs_ == learned.site_graphs_


def test_an_admg_does_not_depend_on_units(confounded, learned):
    other_units = {site: table * [1000.0, 0.01, 50.0, 1.0] for site, table in confounded.items()}
    found = make_learner("admg", it_max=15).fit(other_units).graph_
    assert found == learned.graph_
    np.testing.assert_allclose(found.scores, learned.graph_.scores, atol=1e-3)


def test_an_ancestral_graph_joins_no_variable_to_one_that_it_causes_even_if_the_descent_ends_early():
    """A path a -> b -> c beside a hidden cause of a and c, which a bow-free graph may have."""
    rng = np.random.default_rng(2)
    tables = []
    for _ in range(2):
        hidden, a, b, c = rng.normal(size=(4, 1000))
        a = a + hidden
        b = b + a
        tables.append(pd.DataFrame({"a": a, "b": b, "c": c + b + 2 * hidden}))
    known = {"required": [("a", "b"), ("b", "c")], "forbidden": [("a", "c")]}
    free = make_learner("admg", it_max=15, **known).fit(tables).graph_
    assert free.bidirected_edges == [("a", "c")]
    for it_max in (1, 15):
        found = make_learner("admg", constraint="ancestral", it_max=it_max, **known).fit(tables).graph_
        paths = nx.transitive_closure(nx.DiGraph(found.edges))
        assert not any(paths.has_edge(*pair) or paths.has_edge(*pair[::-1]) for pair in found.bidirected_edges)


def test_a_constraint_on_edges_that_a_model_does_not_have_is_refused():
    with pytest.raises(FeddagError, match="constraint='ancestral' is for edges <->"):
        FedDAG("all", "linear", constraint="ancestral").fit(simulate(3, sites=2, rows=30, seed=1))


def test_knowledge_about_an_admg_is_kept(confounded):
    forbidden = make_learner("admg", it_max=15, forbidden=[("u", "a")]).fit(confounded).graph_
    assert ("u", "a") not in forbidden.edges
    required = make_learner("admg", it_max=15, required=[("a", "b")]).fit(confounded).graph_
    assert ("a", "b") in required.edges
    assert ("a", "b") not in required.bidirected_edges
