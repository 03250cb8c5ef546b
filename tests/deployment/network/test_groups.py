"""Two groups of sites, over a network: what one process finds, with no word of who is in which."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from endpoints_by_call import Net, in_process, study_of

import feddag
from feddag.deployment.site import check_site
from feddag.errors import AssumptionWarning, FeddagError
from feddag.federation.policy import Policy

METHOD = 'name = "search"\nparameters = { sharing = "graph", restarts = 0, groups = 2, seed = 1 }'


def _silos():
    tables = {}
    for k, graph in enumerate(([[0, 1], [0, 0]], [[0, 0], [1, 0]])):
        simulation = feddag.simulate(graph=np.array(graph), mechanism="mim", sites=3, rows=200, seed=4 + k)
        tables |= {f"site-{3 * k + n}": silo.to_frame() for n, silo in enumerate(simulation.silos)}
    return feddag.read_silos(tables)


@pytest.fixture(scope="module")
def silos():
    return _silos()


@pytest.fixture(scope="module")
def net(tmp_path_factory, silos):
    net = Net(tmp_path_factory.mktemp("net"), study_of(METHOD, silos=silos), silos)
    net.learner, _ = net.learn()
    return net


def test_a_network_finds_the_groups_and_graphs_that_one_process_finds(net, silos):
    with pytest.warns(AssumptionWarning):
        here = in_process(net.study, silos)
    assert {(each.sites, *each.graph.edges) for each in here.group_graphs_} == {(3, ("x0", "x1")), (3, ("x1", "x0"))}
    for one, other in zip(net.learner.group_graphs_, here.group_graphs_, strict=True):
        assert (one.sites, one.tells, one.graph, one.dag) == (other.sites, other.tells, other.graph, other.dag)
        numbers = [each.edge_evidence.select_dtypes("number").drop(columns="sites") for each in (one, other)]
        pd.testing.assert_frame_equal(*numbers, atol=1e-6)


def test_each_site_reads_in_its_own_terminal_in_which_group_it_is(net):
    told = {each.partition(":")[0]: each for each in net.told if "this site is in the group of 3 sites" in each}
    assert sorted(told) == [f"site-{k}" for k in range(6)]
    assert all(("speak for x0 -> x1, and those" in told[f"site-{k}"]) == (k < 3) for k in range(6))


def test_a_site_remembers_that_its_table_fell_into_groups(net):
    (path,) = (net.folder / "site-0" / "tables").glob("*/rosters.json")
    kept = json.loads(path.read_bytes())["split"]
    assert kept["members"] == [f"site-{k}" for k in range(6)]
    assert kept["sizes"] == [3, 3]
    assert kept["key"].startswith(net.study.digest)


def test_a_policy_with_larger_groups_refuses_before_anything_leaves(silos):
    study = study_of(METHOD, silos=silos)
    with pytest.raises(FeddagError, match=r"groups of 3 sites, and the fewest .* allows are 4\..*groups = 1"):
        check_site(study, study.silo(silos[0].name, silos[0].to_frame()), Policy(minimum_sites=4))
