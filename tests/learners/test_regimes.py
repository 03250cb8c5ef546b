"""Any learner on pooled rows, at every site alone, or by vote."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from feddag import FedDAG, FeddagError, load, make_learner, simulate
from feddag.graphs import ballot, majority, threshold_to_dag
from feddag.learners.notears import NOTEARS
from feddag.learners.regimes import InRegime
from feddag.runs import Run
from same_graphs import same
from toy_learner import Toy

SIMULATION = simulate(4, mechanism="linear", sites=3, rows=[40, 60, 80], seed=1)
QUICK = {"model": "linear", "it_inner": 20, "it_fl": 10, "rho_max": 1.0}


def test_all_learns_from_one_table_of_all_rows():
    rows = np.concatenate([silo.values for silo in SIMULATION.silos])
    learned = InRegime(FedDAG(**QUICK), "all").fit(SIMULATION)
    alone = FedDAG(**QUICK).fit({"one": pd.DataFrame(rows, columns=SIMULATION.truth.names)})
    assert same(learned.graph_, alone.graph_)
    assert learned.history_.to_frame()["h"].equals(alone.history_.to_frame()["h"])
    assert learned.communication_.sent == {"site-01": 8 * 4 * 40, "site-02": 8 * 4 * 60, "site-03": 8 * 4 * 80}
    assert not hasattr(learned, "site_graphs_")


def test_separate_sites_learn_what_they_would_learn_alone():
    learned = InRegime(NOTEARS(), "separate").fit(SIMULATION)
    alone = {silo.name: NOTEARS().fit([silo]) for silo in SIMULATION.silos}
    assert all(same(learned.site_graphs_[site], each.graph_) for site, each in alone.items())
    assert learned.learners_.keys() == learned.history_.keys() == alone.keys()
    assert learned.communication_.sent == {}
    mean = np.mean([each.edge_scores_ for each in alone.values()], axis=0)
    np.testing.assert_array_equal(learned.edge_scores_, mean)
    np.testing.assert_array_equal(learned.adjacency_, threshold_to_dag(mean, 0.3))


@pytest.mark.parametrize("learner", [NOTEARS(), Toy(threshold=0.2)], ids=["directed", "undirected"])
def test_voting_counts_the_graphs_of_the_sites(learner):
    learned = InRegime(learner, "voting").fit(SIMULATION)
    ballots = [ballot(graph.adjacency) for graph in learned.site_graphs_.values()]
    assert same(learned.graph_, majority(*np.sum(ballots, axis=0), 3, SIMULATION.truth.names))
    assert learned.communication_.sent == dict.fromkeys(learned.sites_, 2 * 8 * 16)


def test_separate_scores_that_do_not_decide_leave_the_graph_to_a_vote():
    separate, voting = (InRegime(Toy(threshold=0.2), regime).fit(SIMULATION) for regime in ("separate", "voting"))
    np.testing.assert_array_equal(separate.adjacency_, voting.adjacency_)
    assert not np.array_equal(separate.edge_scores_, voting.edge_scores_)


def test_separate_feddag_is_as_good_as_its_own_way_to_share_nothing():
    learned = InRegime(FedDAG(**QUICK), "separate").fit(SIMULATION)
    own = FedDAG(sharing="none", **QUICK).fit(SIMULATION)
    assert same(learned.graph_, own.graph_)  # the linear model draws nothing at random
    nested = InRegime(FedDAG(sharing="none", **QUICK), "separate").fit(SIMULATION)
    assert same(nested.graph_, own.graph_)
    assert nested.history_.keys() == own.history_.keys()


def test_what_the_learner_cannot_do_is_told_before_it_begins():
    with pytest.raises(FeddagError, match="participation must be at most the number of sites, 1"):
        InRegime(FedDAG(participation=2), "separate").fit(SIMULATION)
    with pytest.raises(FeddagError, match="l1 must be a number of at least 0"):
        InRegime(NOTEARS(l1=-1), "all").fit(SIMULATION)
    with pytest.raises(FeddagError, match="regime must be one of 'all', 'separate', 'voting'"):
        InRegime(NOTEARS(), "federated").fit(SIMULATION)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FeddagError, match="learner must be a learner"):
        InRegime("notears", "all").fit(SIMULATION)  # pyright: ignore[reportArgumentType]


def test_the_learner_itself_stays_unfitted_and_its_parameters_can_be_set():
    regime = InRegime(NOTEARS(), "voting").set_params(learner__l1=0.2)
    regime.fit(SIMULATION)
    assert vars(regime.learner) == NOTEARS(l1=0.2).get_params()
    assert all(each.get_params()["l1"] == 0.2 for each in regime.learners_.values())


def test_sites_that_were_done_are_not_learned_again(tmp_path):
    class StopError(Exception):
        pass

    told = []

    def stop_in_the_second(status):
        told.append(status.site)
        if status.site == "site-02":
            raise StopError

    learner = InRegime(Toy(it_max=2), "voting")
    with pytest.raises(StopError):
        learner.fit(SIMULATION, progress=stop_in_the_second, checkpoint=tmp_path / "c.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c-1.npz", "c-2.npz"]
    learner.fit(SIMULATION, progress=lambda status: told.append(status.site), checkpoint=tmp_path / "c.npz")
    assert told == ["site-01", "site-01", "site-02", "site-02", "site-03", "site-03"]


@pytest.mark.parametrize(("method", "regime"), [("mcsl", "separate"), ("feddag", "voting"), ("notears", "all")])
def test_a_run_keeps_method_and_regime(method, regime, tmp_path):
    SIMULATION.write(tmp_path / "data")
    sources = sorted((tmp_path / "data").glob("site-*.csv"))
    made = make_learner(method, regime, **({} if method == "notears" else QUICK))
    silos = made.check(sources)
    learned = Run.start(tmp_path / "run", made, silos, sources, method).learn()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["method"], record["regime"]) == (method, regime)
    loaded = load(tmp_path / "run")
    assert isinstance(loaded, InRegime)
    assert json.loads(json.dumps(loaded.learner.get_params())) == record["parameters"]
    assert same(loaded.graph_, learned.graph_)
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    assert ("site" in history) == (regime != "all")
    assert not list((tmp_path / "run").glob("checkpoint*"))
