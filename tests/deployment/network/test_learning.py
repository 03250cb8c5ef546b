"""What is learned over a network is what is learned in one process."""

from __future__ import annotations

import endpoints_by_call
import numpy as np
import pandas as pd
import pytest
from endpoints_by_call import ANY_SITES, LINEAR, Net, in_process, study_of

from feddag import FeddagError, simulate
from feddag.deployment.cells import experiments_together
from feddag.study import Study

METHODS = [
    LINEAR,
    'name = "feddag"\nparameters = { sharing = "graph", hidden_layers = 1, it_max = 1, it_inner = 20, it_fl = 10 }',
    'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 2, participation = 3 }',
    'name = "notears-admm"\nparameters = { it_max = 20 }',
    'name = "notears"',
    'name = "search"\nparameters = { restarts = 0 }',
    'name = "search"\nparameters = { restarts = 0, latent = "allow" }',
    'name = "notears"\nregime = "voting"',
]


@pytest.mark.parametrize(
    ("method", "secure"), [*((method, True) for method in METHODS), (METHODS[0], False), (METHODS[5], False)]
)
def test_a_network_gives_what_one_process_gives(tmp_path, method, secure):
    study = study_of(method, secure=secure, more=ANY_SITES if "participation" in method else "")
    here = in_process(study)
    there, _ = Net(tmp_path, study).learn()
    # NOTEARS stops where its tolerance lets it, and the last digit of a sum decides where
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if "notears" in method else {"rtol": 1e-5, "atol": 1e-7}
    np.testing.assert_allclose(there.edge_scores_, here.edge_scores_, **tolerance)
    np.testing.assert_array_equal(there.adjacency_, here.adjacency_)


@pytest.mark.parametrize("sharing", ["auto", "graph", "all"])
def test_a_network_checks_assumptions_as_one_process_does(tmp_path, sharing):
    study = study_of(f'name = "search"\nparameters = {{ restarts = 0, sharing = "{sharing}" }}')
    here = in_process(study)
    there, _ = Net(tmp_path, study).learn()
    np.testing.assert_allclose(there.edge_scores_, here.edge_scores_, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(there.adjacency_, here.adjacency_)
    assert {"checks", "hidden causes"} <= {each.stage for each in there.history_.rounds}
    pd.testing.assert_frame_equal(*(learner.tables()["checks"] for learner in (there, here)), atol=1e-6)
    assert there.failed_checks == here.failed_checks


@pytest.mark.parametrize("scale", ["site", "federated"])
def test_units_are_agreed_on_as_the_study_says(tmp_path, scale):
    method = 'name = "search"\nparameters = { restarts = 0, noise = "equal" }'
    here, in_given_units = (
        in_process(study_of(method, more=f'[data]\nscale = "{each}"\n')).edge_scores_ for each in (scale, "none")
    )
    there, _ = Net(tmp_path, study_of(method, more=f'[data]\nscale = "{scale}"\n')).learn()
    np.testing.assert_allclose(there.edge_scores_, here, rtol=1e-5, atol=1e-7)
    assert not np.allclose(here, in_given_units, rtol=0.1)


@pytest.mark.parametrize(
    ("method", "rows"),
    [
        ('name = "notears"', 300),
        ('name = "notears-admm"\nparameters = { it_max = 2 }', 300),
        ('name = "search"\nparameters = { restarts = 0, sharing = "all" }', 300),
        (LINEAR, None),  # averages parameters, and never asks for rows
    ],
)
def test_the_record_holds_the_sum_of_rows_if_the_method_asked_for_it(tmp_path, method, rows):
    net = Net(tmp_path, study_of(method))
    assert net.run(net.server()).record["federation"]["rows"] == rows


def test_rounds_of_changing_sites_are_refused_before_anything_leaves(tmp_path):
    study = study_of('name = "feddag"\nparameters = { sharing = "all", model = "linear", participation = 3 }')
    with pytest.raises(FeddagError, match=r"feddag\.solve .* another 3 of 4 sites.* minimum_sites = 1"):
        Net(tmp_path, study)


@pytest.mark.parametrize(
    ("method", "secure"),
    [
        ('name = "search"\nparameters = { restarts = 0 }', True),
        ('name = "search"\nparameters = { restarts = 0, sharing = "graph" }', False),
        ('name = "search"\nparameters = { restarts = 0, sharing = "all" }', True),
        (LINEAR, False),
    ],
)
def test_experiments_count_over_a_network_as_in_one_process(tmp_path, method, secure):
    document = study_of(method, secure=secure).document()
    observed = in_process(Study.of(document))
    document["sites"]["site-02"]["intervened"] = ["x1"]
    document["sites"]["site-03"]["changed"] = ["x2"]
    study = Study.of(document)
    together = experiments_together(study, 3)
    assert bool(together) == secure  # a sum about one of these two sites alone would tell of it
    here = in_process(study, experiments_together=together)
    there, _ = Net(tmp_path, study).learn()
    np.testing.assert_allclose(there.edge_scores_, here.edge_scores_, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(there.adjacency_, here.adjacency_)
    assert (here.edge_scores_ != observed.edge_scores_).any(axis=None)


def test_a_site_reads_in_its_own_terminal_where_the_graph_does_not_fit(tmp_path, monkeypatch):
    varying = simulate(4, mechanism="gp", sites=4, rows=300, varying=1, seed=5)
    monkeypatch.setattr(endpoints_by_call, "SIMULATION", varying)
    edges = ", ".join(f'["{cause}", "{effect}"]' for cause, effect in _absent(varying))
    study = study_of('name = "search"\nparameters = { restarts = 0 }', more=f"[knowledge]\nforbidden = [{edges}]\n")
    net = Net(tmp_path, study)
    there, _ = net.learn()
    told = {line.split(":")[0] for line in net.told if "the rows here do not speak for" in line}
    here = in_process(study).edge_evidence_
    lacking = here.sites.lt(4)
    assert len(told) == 3
    assert here.sites[lacking].tolist() == [1]
    np.testing.assert_array_equal(there.edge_evidence_.sites[lacking], [np.nan])  # 3 are the fewest to be told of
    np.testing.assert_array_equal(there.edge_evidence_.sites[~lacking], 4)


def _absent(simulation):
    """List the edges that the common graph does not have."""
    names = simulation.truth.names
    return [(i, j) for i in names for j in names if i != j and (i, j) not in simulation.truth.edges]
