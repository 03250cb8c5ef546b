"""Promises of `simulate` where mechanisms differ by site, or variables are hidden."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.silos.simulation import simulate


class TestSitesThatDiffer:
    CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])

    def drawn(self, **options):
        return simulate(graph=self.CHAIN, mechanism="linear", sites=3, rows=4000, seed=1, **options)

    @staticmethod
    def mechanisms(silo):
        """Weight, mean and deviation of each variable's regression on the one before it."""
        found = []
        for node in range(3):
            columns = [np.ones(silo.rows), *([silo.values[:, node - 1]] if node else [])]
            design = np.column_stack(columns)
            fit = np.linalg.lstsq(design, silo.values[:, node], rcond=None)[0]
            found.append([*fit, np.std(silo.values[:, node] - design @ fit)])
        return found

    def differing(self, simulation, reference):
        """Name the variables whose regression differs from that of the common mechanism, site by site."""
        common = self.mechanisms(reference.silos[0])
        return [
            {
                silo.columns[node]
                for node, found in enumerate(self.mechanisms(silo))
                if np.abs(np.subtract(found, common[node])).max() > 0.25
            }
            for silo in simulation.silos
        ]

    @pytest.mark.parametrize("options", [{"shifted": 1}, {"shifted": 2, "shift": "mean"}, {"interventions": 1}])
    def test_only_the_named_mechanisms_differ(self, options):
        simulation = self.drawn(**options)
        named = [set(site["own"]) for site in simulation.drawn["sites"]]
        assert self.differing(simulation, self.drawn()) == named
        assert {len(each) for each in named} == {options.get("shifted", 1)}

    def test_a_mean_shifts_alone(self):
        simulation, common = self.drawn(shifted=1, shift="mean"), self.mechanisms(self.drawn().silos[0])
        for silo, site in zip(simulation.silos, simulation.drawn["sites"], strict=True):
            node = silo.columns.index(*site["own"])
            shifted = np.abs(np.subtract(self.mechanisms(silo)[node], common[node])) > 0.25
            assert shifted.tolist() == [True] + [False] * (len(shifted) - 1)

    def test_an_experiment_cuts_a_variable_off_from_its_causes(self):
        first, second, _ = self.drawn(interventions={"site-01": ["x1"]}).silos
        assert abs(np.corrcoef(first.values.T)[0, 1]) < 0.05 < abs(np.corrcoef(second.values.T)[0, 1])
        assert first.targets.all(axis=0).tolist() == [False, True, False]
        assert not second.targets.any()

    def test_some_sites_have_a_further_edge(self):
        simulation = self.drawn(varying=1)
        graphs = [np.array(site["graph"]) for site in simulation.drawn["sites"]]
        assert [int((graph - self.CHAIN).sum()) for graph in graphs] == [1, 0, 0]
        values = simulation.silos[0].values
        design = np.column_stack([np.ones(len(values)), values[:, :2]])
        assert abs(np.linalg.lstsq(design, values[:, 2], rcond=None)[0][1]) > 0.4

    def test_other_draws_stay_as_they_are(self):
        plain, shifted = simulate(4, sites=2, rows=50, seed=3), simulate(4, sites=2, rows=50, shifted=0, seed=3)
        assert plain.drawn == shifted.drawn
        assert "shifted" not in plain.drawn["parameters"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"shifted": 1, "heterogeneous": True}, "shifted must be left out"),
            ({"varying": 11}, "varying must be at most the number of sites"),
            ({"interventions": {"site-99": ["x1"]}}, "interventions has 'site-99'"),
            ({"interventions": {"site-01": ["y"]}}, "interventions has 'y'"),
        ],
    )
    def test_what_cannot_be_is_refused(self, options, message):
        with pytest.raises(FeddagError, match=message):
            simulate(4, **options)


def test_hidden_variables_join_observed_ones_that_have_no_edge():
    simulation = simulate(10, hidden=3, sites=2, rows=50, seed=4)
    truth, admg = simulation.truth, simulation.admg
    assert list(simulation.hidden) == ["hidden-1", "hidden-2", "hidden-3"]
    assert admg.edges == truth.edges
    joined = {frozenset(pair) for pair in admg.bidirected_edges}
    expected = {
        frozenset(pair) for effects in simulation.hidden.values() for pair in itertools.combinations(effects, 2)
    }
    assert joined == expected
    assert all(2 <= len(effects) <= 3 for effects in simulation.hidden.values())
    assert not joined & {frozenset(edge) for edge in truth.edges}
    assert simulation.pag == admg.to_pag()
    assert simulation.silos[0].columns == truth.names
    assert simulation.drawn["hidden"] == {name: list(effects) for name, effects in simulation.hidden.items()}


def test_hidden_variables_keep_the_graph_and_what_they_do_not_act_on():
    without = simulate(8, mechanism="linear", sites=1, rows=30, seed=2)
    with_some = simulate(8, mechanism="linear", sites=1, rows=30, seed=2, hidden=2)
    assert without.truth == with_some.truth
    assert "hidden" not in without.drawn["parameters"]
    touched = {name for effects in with_some.hidden.values() for name in effects}
    touched |= {below for name in touched for below in with_some.truth.descendants(name)}
    for k, name in enumerate(without.truth.names):
        same = np.array_equal(without.silos[0].values[:, k], with_some.silos[0].values[:, k])
        assert same == (name not in touched)


def test_a_hidden_variable_makes_its_effects_dependent():
    simulation = simulate(graph=np.zeros((3, 3)), mechanism="linear", hidden=1, sites=1, rows=4000, seed=1)
    correlation = np.corrcoef(simulation.silos[0].values.T)
    for i, j in itertools.combinations(range(3), 2):
        pair = tuple(simulation.truth.names[k] for k in (i, j))
        assert (abs(correlation[i, j]) > 0.1) == (pair in simulation.admg.bidirected_edges)


def test_sites_may_differ_where_variables_are_hidden():
    options = {"hidden": 2, "shifted": 2, "varying": 1, "interventions": 1, "sites": 3, "rows": 40, "seed": 3}
    simulation = simulate(6, **options)
    names = set(simulation.truth.names)
    assert all(set(site["own"]) <= names for site in simulation.drawn["sites"])
    assert np.array(simulation.drawn["sites"][0]["graph"]).shape == (6, 6)
    assert simulation.silos[0].targets.shape == (40, 6)


def test_a_full_graph_has_no_room_for_hidden_variables():
    with pytest.raises(FeddagError, match="hidden=1 needs two observed variables without an edge"):
        simulate(graph=np.triu(np.ones((3, 3)), k=1), hidden=1)
