"""FedDAG as its user meets it: what it finds, what decides the result, and what it says about mistakes."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from feddag.errors import FeddagError
from feddag.graphs import is_dag, shd, threshold_to_dag
from feddag.learners import FedDAG
from feddag.learners.feddag.augmented_lagrangian import Schedule, published_pair
from feddag.learners.feddag.local_solver import Objective
from feddag.learners.feddag.outer_loop import Plan
from feddag.models import MaskedMLP
from feddag.models.pytrees import flatten
from feddag.silos import simulate
from same_graphs import same

# One small setting for all tests that need a fit, not a good one: its programs are compiled once.
TINY = {"it_inner": 10, "it_fl": 5, "it_max": 2, "rho_max": 1.0, "hidden_layers": 1, "hidden_units": 4}
COLUMNS = ["age", "dose", "size"]


def site(rows: int, seed: int) -> pd.DataFrame:
    """age → dose → size, nonlinear."""
    draw = np.random.default_rng(seed)
    age = draw.normal(size=rows)
    dose = np.sin(2 * age) + 0.5 * draw.normal(size=rows)
    return pd.DataFrame({"age": age, "dose": dose, "size": dose**2 + 0.5 * draw.normal(size=rows)})


SILOS = {"north": site(20, 1), "south": site(22, 2), "west": site(24, 3)}


def fitted(silos=SILOS, **parameters) -> FedDAG:
    return FedDAG(**{**TINY, **parameters}).fit(silos)


@pytest.fixture(scope="module")
def learner() -> FedDAG:
    return fitted()


def assert_same_result(one: FedDAG, other: FedDAG) -> None:
    np.testing.assert_array_equal(one.U_, other.U_)
    np.testing.assert_array_equal(one.edge_scores_, other.edge_scores_)
    assert one.graph_ == other.graph_
    for ours, theirs in zip(one.mechanisms_.values(), other.mechanisms_.values(), strict=True):
        for name, array in flatten(ours).items():
            np.testing.assert_array_equal(array, flatten(theirs)[name])


def test_a_fit_that_diverges_stops_and_names_the_site():
    huge = {name: frame * 1e30 for name, frame in SILOS.items()}
    with pytest.raises(FeddagError, match=r"Site '\w+': the loss is (inf|nan) after round 1\. Bring the columns"):
        fitted(huge)


class TestWhatItFinds:
    @pytest.mark.parametrize("acyclicity", ["trace-exponential", "log-det"])
    def test_a_linear_chain_over_three_sites(self, acyclicity):
        W = np.zeros((4, 4))
        W[2, 0], W[0, 3], W[3, 1] = 1.5, -1.2, 1.0
        draw = np.random.default_rng(0)
        silos = [draw.normal(size=(n, 4)) @ np.linalg.inv(np.eye(4) - W) for n in (150, 200, 250)]
        learner = FedDAG("all", "linear", acyclicity=acyclicity, it_inner=300, it_fl=100).fit(silos)
        np.testing.assert_array_equal(learner.adjacency_, W != 0)
        np.testing.assert_allclose(learner.U_[W != 0], W[W != 0], atol=0.25)

    def test_a_nonlinear_cause_over_two_sites(self):
        """The effect stands first, so that a graph in the order of the columns would be wrong."""
        draw = np.random.default_rng(0)
        cause = 1.5 * draw.normal(size=(2, 80))
        effect = 2 * np.sin(2 * cause) + 0.5 * draw.normal(size=(2, 80))
        silos = [np.column_stack(columns) for columns in zip(effect, cause, strict=True)]
        learner = FedDAG(it_inner=200, it_fl=100, hidden_layers=1, hidden_units=8).fit(silos)
        assert learner.graph_.edges == [("x1", "x0")]
        assert learner.edge_scores_.at["x1", "x0"] > 0.9
        assert learner.edge_scores_.at["x0", "x1"] < 0.1

    def test_the_graph_is_a_dag_even_where_the_run_ends_too_early(self):
        learner = fitted(threshold=0.01)
        assert (learner.graph_.scores > 0.01).sum() > 3  # too many edges for a DAG of three nodes
        assert is_dag(learner.adjacency_)

    @pytest.mark.slow
    def test_ten_nodes_over_ten_heterogeneous_sites(self):
        simulation = simulate(10, heterogeneous=True, seed=1)
        assert shd(FedDAG(seed=1).fit(simulation).graph_, simulation.truth) <= 4


class TestTheResult:
    def test_the_graph_is_drawn_from_the_scores(self, learner):
        np.testing.assert_array_equal(learner.adjacency_, threshold_to_dag(learner.edge_scores_, 0.5))
        np.testing.assert_array_equal(learner.graph_.scores, learner.edge_scores_)

    def test_names_are_kept(self, learner):
        assert learner.graph_.names == tuple(COLUMNS)
        assert learner.feature_names_in_.tolist() == COLUMNS
        assert learner.n_features_in_ == 3
        assert learner.sites_ == ("north", "south", "west")
        assert list(learner.mechanisms_) == list(learner.site_graphs_) == list(SILOS)
        assert all(graph.names == tuple(COLUMNS) for graph in learner.site_graphs_.values())
        assert list(learner.communication_.sent) == list(SILOS)
        assert {"loss[north]", "fit[west]"} <= set(learner.history_.to_frame())

    def test_sharing_the_graph_gives_every_site_the_same_one_and_mechanisms_of_its_own(self, learner):
        for params in learner.mechanisms_.values():
            np.testing.assert_array_equal(params["graph"], learner.U_)
        north, south = (flatten(learner.mechanisms_[name]["mechanism"]) for name in ("north", "south"))
        assert not any(np.array_equal(north[name], south[name]) for name in north)

    def test_sharing_all_gives_every_site_the_same_mechanisms(self):
        learner = fitted(sharing="all")
        north, south = (flatten(learner.mechanisms_[name]) for name in ("north", "south"))
        assert all(np.array_equal(north[name], south[name]) for name in north)

    def test_history_has_a_round_per_aggregation_and_a_graph_per_sub_problem(self, learner):
        rounds = learner.history_.rounds
        assert [record.round for record in rounds] == list(range(1, len(rounds) + 1))
        assert rounds[-1].step == 5 * len(rounds)
        assert len(learner.history_.graphs) == rounds[-1].sub_problem == len(rounds) / 2
        np.testing.assert_array_equal(learner.history_.graphs[-1], learner.U_)
        assert all(record.sites.l1_distance > 0 for record in rounds)  # before averaging, sites differ

    def test_predictions_use_the_parents_in_the_learned_graph_alone(self):
        learner = fitted(threshold=0.01)
        assert learner.adjacency_.sum() == 3
        X = SILOS["north"].to_numpy()
        before = learner.predict(X, "north")
        for parent in range(3):
            changed = X.copy()
            changed[:, parent] += 10
            moved = (learner.predict(changed, "north") != before).any(axis=0)
            np.testing.assert_array_equal(moved, learner.adjacency_[parent])

    def test_predictions_are_the_sites_own(self, learner):
        X = SILOS["north"]
        assert learner.predict(X, "north").shape == X.shape
        assert not np.array_equal(learner.predict(X, "north"), learner.predict(X, "south"))

    def test_linear_predictions_start_from_the_sites_means_whatever_rows_are_asked_for(self):
        shifted = {name: frame + 5 for name, frame in SILOS.items()}
        learner = fitted(shifted, model="linear", threshold=0.01)
        mean = shifted["north"].mean().to_numpy()
        W = learner.U_ * learner.adjacency_
        expected = mean + (shifted["north"].to_numpy() - mean) @ W
        together = learner.predict(shifted["north"], "north")
        np.testing.assert_allclose(together, expected, rtol=1e-4)
        np.testing.assert_allclose(learner.predict(shifted["north"].iloc[:1], "north"), together[:1], rtol=1e-5)

    def test_predictions_find_a_frames_columns_by_name(self, learner):
        X = SILOS["north"]
        np.testing.assert_array_equal(learner.predict(X[["size", "age", "dose"]], "north"), learner.predict(X, "north"))
        with pytest.raises(FeddagError, match=r"X lacks the columns 'dose'\."):
            learner.predict(X[["size", "age"]], "north")

    def test_predictions_refuse_what_they_cannot_use(self, learner):
        with pytest.raises(FeddagError, match=r"site must be one of north, south, west\. Got 'east' instead\."):
            learner.predict(SILOS["north"], "east")
        with pytest.raises(FeddagError, match=r"X must have 3 columns\. Got shape \(20, 2\) instead\."):
            learner.predict(SILOS["north"].to_numpy()[:, :2], "north")
        with pytest.raises(NotFittedError):
            FedDAG().predict(SILOS["north"], "north")

    def test_a_snapshot_becomes_the_same_fitted_estimator(self, learner):
        again = FedDAG(**TINY).restore(*learner.snapshot())
        assert_same_result(learner, again)
        assert again.history_.rounds == learner.history_.rounds
        assert again.communication_ == learner.communication_
        np.testing.assert_array_equal(again.predict(SILOS["west"], "west"), learner.predict(SILOS["west"], "west"))


class TestCommunication:
    def test_sharing_the_graph_sends_d_times_d_numbers_of_four_bytes_a_round(self, learner):
        size = len(learner.history_.rounds) * 3 * 3 * 4
        assert learner.communication_.sent == dict.fromkeys(SILOS, size)
        assert learner.communication_.received == dict.fromkeys(SILOS, size)

    def test_sharing_all_sends_every_parameter(self):
        learner = fitted(sharing="all")
        parameters = 9 + 3 * (4 * 3 + 4 + 4 + 1)  # U; then one hidden layer of 4 and the output, per node
        size = len(learner.history_.rounds) * parameters * 4
        assert learner.communication_.sent == dict.fromkeys(SILOS, size)
        assert learner.communication_.received == dict.fromkeys(SILOS, size)

    @pytest.mark.parametrize(("participation", "drawn"), [(1, 1), (2, 2), (0.5, 2), (0.1, 1), (1.0, 3)])
    def test_only_the_drawn_sites_send_and_all_receive(self, participation, drawn):
        learner = fitted(participation=participation)
        rounds = len(learner.history_.rounds)
        assert sum(learner.communication_.sent.values()) == rounds * drawn * 36
        assert learner.communication_.received == dict.fromkeys(SILOS, rounds * 36)

    def test_a_share_may_come_in_numpys_types(self):
        assert_same_result(fitted(participation=np.float32(0.5)), fitted(participation=2))

    def test_alone_nothing_is_sent(self):
        learner = fitted(sharing="none")
        assert not learner.communication_.sent
        assert not learner.communication_.received


class TestAlone:
    @pytest.fixture(scope="class")
    @classmethod
    def alone(cls) -> FedDAG:
        return fitted(sharing="none")

    def test_a_site_learns_what_it_would_as_the_only_one(self, alone):
        single = fitted({"north": SILOS["north"]}, workers=1)
        np.testing.assert_array_equal(alone.mechanisms_["north"]["graph"], single.U_)
        assert same(alone.site_graphs_["north"], single.graph_)
        assert [r.h for r in alone.history_["north"].rounds] == [r.h for r in single.history_.rounds]

    def test_other_sites_data_do_not_matter(self, alone):
        among_others = fitted({"other": site(23, 9), "south": SILOS["south"]}, sharing="none")
        assert among_others.site_graphs_["south"] == alone.site_graphs_["south"]
        for name, array in flatten(among_others.mechanisms_["south"]).items():
            np.testing.assert_array_equal(array, flatten(alone.mechanisms_["south"])[name])

    def test_the_graph_is_drawn_from_the_mean_of_the_sites_scores(self, alone):
        mean = np.mean([graph.scores for graph in alone.site_graphs_.values()], axis=0)
        np.testing.assert_allclose(alone.edge_scores_, mean)
        np.testing.assert_array_equal(alone.adjacency_, threshold_to_dag(mean, 0.5))

    def test_every_site_has_a_history(self, alone):
        assert list(alone.history_) == list(SILOS)

    def test_participation_is_no_matter(self, alone):
        assert_same_result(fitted(sharing="none", participation=2), alone)

    def test_a_snapshot_becomes_the_same_fitted_estimator(self, alone):
        again = FedDAG(**TINY, sharing="none").restore(*alone.snapshot())
        assert_same_result(alone, again)
        assert {name: history.rounds for name, history in again.history_.items()} == {
            name: history.rounds for name, history in alone.history_.items()
        }


class TestWhatDecidesTheResult:
    def test_data_parameters_and_seed(self, learner):
        assert_same_result(fitted(), learner)

    @pytest.mark.parametrize(
        "other",
        [
            {"seed": 1},
            {"sharing": "all"},
            {"participation": 2},
            {"weighting": "rows"},
            {"rho_init": 0.5},
            {"alpha_init": 0.5},
        ],
        ids=str,
    )
    def test_each_of_these(self, learner, other):
        assert not np.array_equal(fitted(**other).U_, learner.U_)

    def test_not_the_number_of_workers(self):
        assert_same_result(fitted(workers=1), fitted(workers=2))

    def test_not_the_order_of_later_sites_columns(self, learner):
        shuffled = {**SILOS, "south": SILOS["south"][["size", "age", "dose"]]}
        assert_same_result(fitted(shuffled), learner)

    def test_not_the_sites_names(self, learner):
        renamed = fitted(dict(zip(("west", "north", "east"), SILOS.values(), strict=True)))
        assert_same_result(renamed, learner)

    def test_not_the_rows_order_within_a_site(self, learner):
        turned = fitted({name: table[::-1] for name, table in SILOS.items()})
        np.testing.assert_allclose(turned.U_, learner.U_, atol=1e-4)

    def test_not_the_form_of_the_tables(self, learner, tmp_path):
        forms = {"north": tmp_path / "n.csv", "south": tmp_path / "s.tsv", "west": tmp_path / "w.parquet"}
        SILOS["north"].to_csv(forms["north"], index=False)
        SILOS["south"].to_csv(forms["south"], index=False, sep="\t")
        SILOS["west"].to_parquet(forms["west"])
        assert_same_result(fitted(forms), learner)
        assert_same_result(fitted(list(forms.values())), learner)
        assert_same_result(fitted(list(SILOS.values())), learner)
        arrays = fitted([table.to_numpy() for table in SILOS.values()])
        np.testing.assert_array_equal(arrays.U_, learner.U_)

    def test_a_simulation_is_its_tables(self):
        simulation = simulate(3, edges_per_node=1, sites=2, rows=24)
        tables = {silo.name: silo.to_frame() for silo in simulation.silos}
        assert_same_result(fitted(simulation), fitted(tables))

    def test_an_earlier_fit_of_the_same_estimator_leaves_no_trace(self, learner):
        again = FedDAG(**TINY).fit(list(SILOS.values())[:2])
        assert_same_result(again.fit(SILOS), learner)


class TestAsAnEstimator:
    def test_a_clone_has_the_parameters_and_nothing_learned(self, learner):
        copy = clone(learner)
        assert copy.get_params() == learner.get_params()
        assert not hasattr(copy, "graph_")

    def test_every_parameter_has_a_constraint_and_passes_it_by_default(self):
        parameters = FedDAG().get_params()
        assert set(FedDAG.parameter_constraints) == set(parameters)
        assert all(FedDAG.parameter_constraints[name].accepts(value) for name, value in parameters.items())

    def test_every_parameter_reaches_the_plan(self):
        chosen = {
            "alpha_init": 0.1,
            "rho_init": 0.2,
            "rho_max": 3.0,
            "beta": 4.0,
            "gamma": 0.5,
            "h_tol": 0.6,
            "it_max": 7,
            "rho_update": "once",
        }
        learner = FedDAG(
            "all",
            acyclicity="log-det",
            participation=2,
            it_inner=8,
            it_fl=3,
            l1=0.9,
            learning_rate=0.11,
            temperature=0.12,
            hidden_layers=3,
            hidden_units=5,
            threshold=0.7,
            seed=14,
            patience=4,
            **chosen,
        )
        model = MaskedMLP(layers=3, units=5, temperature=0.12)
        assert learner.plan("abcdef", sites=4) == Plan(
            nodes=6,
            objective=Objective(model, "log-det", l1=0.9, learning_rate=0.11),
            schedule=Schedule(**chosen),
            phases=(3, 3, 2),
            participants=2,
            sharing="all",
            threshold=0.7,
            seed=14,
            patience=4,
        )

    @pytest.mark.parametrize(("sharing", "column"), [("graph", "graph"), ("all", "all"), ("none", "graph")])
    def test_without_them_rho_init_and_beta_are_the_published_pair(self, sharing, column):
        schedule = FedDAG(sharing).plan([f"x{k}" for k in range(20)], sites=4).schedule
        assert (schedule.rho_init, schedule.beta) == published_pair(20, column)

    def test_parameters_can_be_set(self, learner):
        assert_same_result(FedDAG().set_params(**TINY).fit(SILOS), learner)

    def test_a_fitted_estimator_survives_pickling(self, learner):
        again = pickle.loads(pickle.dumps(learner))
        assert_same_result(again, learner)
        X = SILOS["south"]
        np.testing.assert_array_equal(again.predict(X, "south"), learner.predict(X, "south"))

    def test_progress_is_told_of_every_round(self, learner):
        told = []
        FedDAG(**TINY).fit(SILOS, progress=told.append)
        assert all(status.site is None for status in told)
        assert [status.figures for status in told] == [
            {
                "sub_problem": record.sub_problem,
                "step": record.step,
                "rho": record.rho,
                "h": record.h,
                "edges": record.edges,
            }
            for record in learner.history_.rounds
        ]

    def test_progress_is_told_which_site_learns_alone(self):
        told = set()
        FedDAG(**TINY, sharing="none").fit(SILOS, progress=lambda status: told.add(status.site))
        assert told == set(SILOS)


WRONG = {
    "sharing": ["mechanisms", None],
    "model": ["tree", 1],
    "constraint": ["arid"],
    "acyclicity": ["spectral"],
    "participation": [0, 0.0, 1.5, -1, True, "all"],
    "weighting": ["columns"],
    "alpha_init": [-1, "0"],
    "rho_init": [0, -1],
    "rho_max": [0, float("inf"), None],
    "beta": [1, 0.5],
    "gamma": [0, 1],
    "h_tol": [0, -1e-10],
    "it_max": [0, 1.5],
    "it_inner": [0, 10.0],
    "it_fl": [0, None],
    "rho_update": ["twice"],
    "patience": [0, 1.5],
    "l1": [-0.1, float("nan")],
    "learning_rate": [0],
    "temperature": [0],
    "hidden_layers": [0],
    "hidden_units": [0, 2.5],
    "threshold": [0, -1],
    "required": ["dose", [("dose",)]],
    "forbidden": [3],
    "tiers": ["dose"],
    "exogenous": ["dose", [1]],
    "seed": [-1, 1.0, 2**32],
    "workers": [0],
}


class TestMistakes:
    def test_every_parameter_is_tried(self):
        assert set(WRONG) == set(FedDAG.parameter_constraints)

    @pytest.mark.parametrize(("name", "value"), [(name, value) for name, wrong in WRONG.items() for value in wrong])
    def test_a_wrong_parameter_is_named_with_what_it_must_be(self, name, value):
        with pytest.raises(FeddagError) as caught:
            FedDAG(**{name: value}).fit(SILOS)
        assert (
            str(caught.value) == f"{name} must be {FedDAG.parameter_constraints[name].wording}. Got {value!r} instead."
        )

    def test_more_participants_than_sites(self):
        with pytest.raises(FeddagError) as caught:
            FedDAG(participation=4).fit(SILOS)
        assert str(caught.value) == "participation must be at most the number of sites, 3. Got 4 instead."

    def test_a_bad_table_is_refused_before_anything_is_learned(self):
        broken = SILOS["south"].assign(dose=np.nan)
        told = []
        with pytest.raises(FeddagError, match=r"Site 'south', column 'dose': all 22 values are missing"):
            FedDAG(**TINY).fit({**SILOS, "south": broken}, progress=told.append)
        assert not told

    def test_a_failed_fit_says_nothing_learned(self):
        learner = FedDAG(**TINY)
        with pytest.raises(FeddagError):
            learner.fit([])
        with pytest.raises(NotFittedError):
            learner.predict(SILOS["north"], "north")
