"""What a learner is told of the graph holds in its result, and all the way to it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddag import FeddagError, make_learner, simulate
from feddag.federation import Task
from feddag.graphs import is_dag, threshold_to_dag
from feddag.learners.feddag import FedDAG
from feddag.learners.feddag.local_solver import SOLVE, Objective
from feddag.learners.knowledge import CONSTRAINTS, Knowledge
from feddag.learners.registry import METHODS
from feddag.models import DAGGNN, NOTEARSMLP, Linear, MaskedMLP
from same_graphs import same

SIMULATION = simulate(5, mechanism="linear", sites=2, rows=80, seed=2)
NAMES = SIMULATION.truth.names
FEW_STEPS = {"it_inner": 20, "it_fl": 10, "it_max": 3, "rho_max": 1e3}
TINY = {
    "feddag": {**FEW_STEPS, "model": "linear"},
    "mcsl": {**FEW_STEPS, "hidden_layers": 1, "hidden_units": 3},
    "notears-mlp": {**FEW_STEPS, "hidden_units": 3},
    "dag-gnn": {**FEW_STEPS, "hidden_units": 3},
    "search": {"restarts": 0},
    "private-search": {"epsilon": 10.0, "ranges": (-8.0, 8.0), "expected_rows": 160, "noise_seed": 1},
}
TOLD = [name for name, method in METHODS.items() if set(CONSTRAINTS) <= set(method.parameters())]
CASES = [(name, regime) for name in TOLD for regime in METHODS[name].regimes]


def against(truth):
    """Of a true edge the reverse is required, the next is forbidden, and an effect is said to have no causes."""
    (cause, effect), other, *_ = truth.edges
    exogenous = next(name for _, name in truth.edges if name != cause)
    return {"required": [(effect, cause)], "forbidden": [other], "exogenous": [exogenous]}


def test_the_methods_that_can_be_told():
    assert {"feddag", "search", "mcsl", "notears-mlp", "dag-gnn", "notears"} <= set(TOLD)


@pytest.mark.parametrize(("name", "regime"), CASES)
class TestEveryMethodThatCanBeTold:
    def test_keeps_what_is_required_and_leaves_out_what_cannot_be(self, name, regime):
        known = against(SIMULATION.truth)
        learned = make_learner(name, regime, **TINY.get(name, {}), **known).fit(SIMULATION)
        for graph in (learned.graph_, *getattr(learned, "site_graphs_", {}).values()):
            assert set(known["required"]) <= set(graph.edges)
            possible = {*graph.edges, *(turned for a, b in graph.undirected_edges for turned in ((a, b), (b, a)))}
            assert not set(known["forbidden"]) & possible
            assert not [edge for edge in possible if edge[1] in known["exogenous"]]
            assert is_dag(graph.adjacency & ~graph.adjacency.T & 1)

    def test_refuses_what_contradicts_itself(self, name, regime):
        for known, message in [
            ({"required": [NAMES[:2]], "forbidden": [NAMES[:2]]}, "is required, and forbidden"),
            ({"required": [NAMES[:2]], "exogenous": [NAMES[1]]}, "is required, and forbidden"),
            ({"required": [NAMES[:2]], "tiers": [[NAMES[1]], [NAMES[0]]]}, "is required, and forbidden"),
            ({"required": [NAMES[:2], NAMES[1::-1]]}, "The required edges form a cycle"),
            ({"exogenous": ["nowhere"]}, "'nowhere', which is not a variable"),
            ({"tiers": "ab"}, "tiers must be a list of"),
        ]:
            with pytest.raises(FeddagError, match=message):
                make_learner(name, regime, **known).fit(SIMULATION)


def test_an_impossible_edge_is_that_against_required_ones_too():
    known = Knowledge.of("abcd", [("a", "b"), ("b", "c")], [("a", "d")], [["c"], ["d"]], ["a"])
    assert {("abcd"[i], "abcd"[j]) for i, j in np.argwhere(known.impossible) if i != j} == {
        *(("b", "a"), ("c", "a"), ("d", "a")),
        *(("c", "b"), ("a", "d"), ("d", "c")),
    }
    assert np.argwhere(known.certain).tolist() == [[0, 1], [1, 2]]
    assert known.impossible.diagonal().all()
    assert not known.silent
    assert Knowledge.of("abcd", (), (), [["a"], []]).silent


def test_a_cycle_is_cut_elsewhere_than_at_a_required_edge():
    scores = np.array([[0, 0.1, 0], [0, 0, 0.9], [0.8, 0, 0]])
    kept = scores == 0.1
    assert np.argwhere(threshold_to_dag(scores, 0.3)).tolist() == [[1, 2], [2, 0]]
    assert np.argwhere(threshold_to_dag(scores, 0.3, kept)).tolist() == [[0, 1], [1, 2]]


MODELS = [MaskedMLP(1, 3), Linear(), NOTEARSMLP(3), DAGGNN(3)]
KNOWN = Knowledge.of("abcde", [("a", "b"), ("c", "d")], [("e", "a")], [], ["c"])


@pytest.fixture(scope="module")
def gradient(model):
    """Of the loss, by edge, given the weight of the sparsity term."""
    params = jax.tree.map(jnp.asarray, model.init(np.random.default_rng(0), 5))
    draw = np.random.default_rng(1).normal(size=np.shape(params["graph"]))
    params["graph"] = jnp.asarray(draw, jnp.float32)
    data = jax.device_put(model.prepare(SIMULATION.silos[0].values))

    @jax.jit
    def loss(params, l1):
        objective = Objective(model, "log-det", l1, 0.03, KNOWN)
        return objective(params, data, jnp.float32(1.0), jnp.float32(2.0), jax.random.key(3))[0]

    derivative = jax.jit(jax.grad(loss))

    def at(l1):
        found = np.abs(derivative(params, l1)["graph"])
        return found.sum(axis=1).T if found.ndim == 3 else found

    return at


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__, scope="module")
class TestObjectiveWithKnowledge:
    def test_no_gradient_reaches_an_impossible_edge_and_all_others_have_one(self, model, gradient):
        found = gradient(0.5)
        fixed = KNOWN.impossible | (KNOWN.certain if isinstance(model, MaskedMLP) else False)
        assert np.isfinite(found).all()
        assert not found[fixed].any()
        assert (found[~fixed] > 0).all()

    def test_required_edges_are_free_of_the_sparsity_charge(self, gradient):
        changed = gradient(0.5) != gradient(0.0)
        np.testing.assert_array_equal(changed, ~KNOWN.impossible & ~KNOWN.certain)

    def test_a_cycle_through_a_required_edge_counts_however_small_its_weight(self, model):
        params = model.init(np.random.default_rng(0), 5)
        adjacency = jnp.zeros((5, 5)).at[1, 4].set(0.5).at[4, 0].set(0.5)
        assert Objective(model, "log-det", 0.0, 0.03).h(params, adjacency) == 0
        assert Objective(model, "log-det", 0.0, 0.03, KNOWN).h(params, adjacency) > 0.0


def test_a_mask_is_certain_in_every_round_and_what_leaves_a_site_is_finite():
    known = against(SIMULATION.truth)
    learned = FedDAG(**TINY["mcsl"], **known).fit(SIMULATION)
    certain = learned.knowledge_of(NAMES).certain
    assert (learned.graph_.scores[certain] == 1).all()
    assert (learned.graph_.scores[learned.knowledge_of(NAMES).impossible] == 0).all()
    assert all(np.isposinf(graph[certain]).all() for graph in learned.history_.graphs)
    numbers = {"steps": FEW_STEPS["it_fl"], "alpha": 0.0, "rho": 1.0, "h": 1.0}
    task = Task(SOLVE.name, 0, numbers, {"graph": np.zeros((5, 5), np.float32)}, (0,))
    assert np.isfinite(learned.site(SIMULATION.silos[0], 0).answer(task).arrays["graph"]).all()
    again = FedDAG(**TINY["mcsl"], **known).restore(*learned.snapshot())
    assert same(again.graph_, learned.graph_)
    values = SIMULATION.silos[0].values
    site_name = SIMULATION.silos[0].name
    np.testing.assert_array_equal(again.predict(values, site_name), learned.predict(values, site_name))
    assert np.isfinite(learned.predict(values, site_name)).all()


def test_knowledge_that_says_nothing_changes_no_bit():
    plain = FedDAG(**TINY["mcsl"]).fit(SIMULATION)
    told = FedDAG(**TINY["mcsl"], tiers=[NAMES], forbidden=[]).fit(SIMULATION)
    np.testing.assert_array_equal(plain.U_, told.U_)
