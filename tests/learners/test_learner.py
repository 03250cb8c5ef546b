"""What every learner has from its base class, whichever method it follows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint
from feddag.learners import EvidenceSearch, FedDAG, InRegime, Learner, Status
from feddag.learners.factory import make_learner
from feddag.silos import simulate
from same_graphs import same
from toy_learner import Toy

SIMULATION = simulate(3, mechanism="linear", sites=2, rows=20, seed=1)


class CrashError(Exception):
    pass


def test_a_learner_needs_a_fit_of_its_own():
    with pytest.raises(TypeError, match="fit_silos"):
        Learner()  # pyright: ignore[reportAbstractUsage]


def test_a_fit_sets_the_common_attributes():
    learned = Toy().fit(SIMULATION)
    assert learned.sites_ == ("site-01", "site-02")
    assert list(learned.feature_names_in_) == ["x0", "x1", "x2"]
    assert learned.n_features_in_ == 3
    assert learned.seconds_ > 0
    assert not learned.learned_alone
    np.testing.assert_array_equal(learned.adjacency_, learned.graph_.adjacency)
    np.testing.assert_array_equal(learned.edge_scores_, learned.graph_.scores)


def test_a_snapshot_restores_them():
    learned = Toy().fit(SIMULATION)
    again = clone(learned).restore(*learned.snapshot())
    assert again.graph_ == learned.graph_
    assert again.communication_ == learned.communication_
    assert (again.sites_, again.seconds_, again.history_) == (learned.sites_, learned.seconds_, learned.history_)
    np.testing.assert_array_equal(again.edge_scores_, learned.edge_scores_)
    with pytest.raises(NotFittedError):
        Toy().snapshot()


def test_parameters_and_tables_are_checked_first():
    told = []
    with pytest.raises(FeddagError, match="seed must be a whole number"):
        Toy(seed=-1).fit(SIMULATION, progress=told.append)
    with pytest.raises(FeddagError, match="too few"):
        Toy().fit([np.eye(3)], progress=told.append)
    assert not told


def test_a_failed_fit_leaves_nothing():
    learner = Toy()
    with pytest.raises(CrashError):
        learner.fit(SIMULATION, progress=crash)
    assert vars(learner) == learner.get_params()


def crash(status):
    raise CrashError


def test_a_learner_tells_what_it_likes_and_goes_on_where_it_was(tmp_path):
    path, told = tmp_path / "run.npz", []
    with pytest.raises(CrashError):
        Toy().fit(SIMULATION, checkpoint=path, progress=crash)
    resumed = Toy().fit(SIMULATION, checkpoint=path, progress=told.append)

    whole = Toy().fit(SIMULATION)
    assert [status.figures["round"] for status in told] == [2, 3]
    assert all(isinstance(status, Status) and status.seconds_left is None for status in told)
    assert same(resumed.graph_, whole.graph_)
    assert resumed.communication_ == whole.communication_
    assert resumed.seconds_ >= load_checkpoint(path)[0]["seconds"]


def test_no_learner_takes_up_the_run_of_another(tmp_path):
    class Other(Toy):
        pass

    Toy().fit(SIMULATION, checkpoint=tmp_path / "run.npz")
    with pytest.raises(FeddagError, match="belongs to a run with other data or parameters"):
        Other().fit(SIMULATION, checkpoint=tmp_path / "run.npz")


class TestACopy:
    def test_for_fewer_sites_has_no_more_participants_than_sites(self):
        learner = FedDAG(participation=5)
        assert learner.with_sites(3).participation == 3
        assert learner.with_sites(5).participation == learner.participation == 5
        assert FedDAG(participation=0.5).with_sites(3).participation == 0.5

    def test_of_one_thread_leaves_the_learner_as_it_is(self):
        learner = InRegime(FedDAG(workers=4), "separate")
        assert learner.single_threaded().learner.workers == 1
        assert learner.learner.workers == 4
        assert Toy().single_threaded().get_params() == Toy().get_params()


class TestResults:
    def test_are_of_each_site_that_learned_alone(self):
        learned = InRegime(Toy(), "separate").fit(SIMULATION)
        assert learned.results == tuple((graph, graph) for graph in learned.site_graphs_.values())

    @pytest.mark.parametrize("learner", [Toy(), InRegime(Toy(), "voting"), InRegime(Toy(), "all")])
    def test_are_one_otherwise(self, learner):
        assert learner.fit(SIMULATION).results == ((learner.graph_, learner.graph_),)


class TestWhatLeavesASite:
    def test_depends_on_the_parameters(self):
        assert FedDAG("none").leaves_site() == "Nothing."
        assert "vary together" not in EvidenceSearch("graph").leaves_site()
        assert "vary together" in EvidenceSearch("all").leaves_site()

    def test_is_every_row_where_rows_are_pooled_and_a_graph_where_sites_vote(self):
        texts = {regime: InRegime(Toy(), regime).leaves_site() for regime in ("all", "separate", "voting")}
        assert texts["all"].startswith("Every row")
        assert texts["separate"] == "Nothing."
        assert texts["voting"] == "In sums over the sites that answer: the graph that the site has learned alone."

    def test_says_whether_every_site_must_answer(self):
        text = make_learner("notears-admm").leaves_site()
        assert text.startswith("In sums over all sites: the number of rows. In sums over the sites that answer: ")
