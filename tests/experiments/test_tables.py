from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.experiments import published
from feddag.experiments.experiment import _read, experiments, find_experiment
from feddag.experiments.seeds import REPORTED
from feddag.experiments.settings import UNEQUAL_NOISE, Real, Simulated, with_data

TINY = Simulated("linear", "ER2", nodes=4, rows=40, sites=2)


def test_every_published_figure_has_an_experiment():
    covered = set()
    for experiment in experiments().values():
        for setting in experiment.settings:
            for row in experiment.rows:
                if setting.published is None or row.published_as is None:
                    continue
                share = float(row.parameters.get("participation", 1.0))
                covered |= {
                    published.Key(table, *setting.published, share, row.regime, row.published_as, metric)
                    for table in experiment.published
                    for metric in experiment.metrics
                }
    assert len(published.figures()) == 920
    assert set(published.figures()) <= covered


@pytest.mark.parametrize("name", experiments())
def test_an_experiment_refers_to_what_exists(name):
    experiment = experiments()[name]
    assert {key.table for key in published.figures()} >= set(experiment.published)
    assert {"empty", "random", "var-sortnregress", "r2-sortnregress"} <= {row.method for row in experiment.rows}
    assert len({row.in_regime for row in experiment.rows}) == len(experiment.rows)
    assert set(experiment.seeds) <= set(REPORTED)
    for row in experiment.rows:
        row.cell(experiment.settings[0], 1).check()
        found = [experiment.figure(setting, row, "SHD") for setting in experiment.settings]
        paper_has_it = row.published_as is not None and row.method != "search"
        assert any(found) == bool(experiment.published and paper_has_it)


def test_hidden_variables_are_part_of_a_setting_and_of_its_truth():
    hidden = replace(TINY, nodes=6, hidden=1)
    assert "hidden" not in TINY.identity()
    assert hidden.identity()["hidden"] == 1
    assert replace(Simulated(), hidden=2).published is None
    assert hidden.title.endswith(", 1 hidden")
    drawn = hidden.draw(1)
    assert drawn.truth.bidirected_edges
    assert len(drawn.silos[0].columns) == len(drawn.truth.names) == 6


def test_sites_that_differ_are_part_of_a_setting():
    differing = replace(TINY, shifted=1, varying=1, interventions=2)
    assert not {"shifted", "varying", "interventions"} & TINY.identity().keys()
    assert {"shifted": 1, "varying": 1, "interventions": 2}.items() <= differing.identity().items()
    assert replace(Simulated(), shifted=1).published is None
    assert differing.title.endswith(", 1 of each site's own, a further edge at 1, 2 set at each")
    assert differing.draw(1).digest() != TINY.draw(1).digest()


def test_a_figure_of_the_paper_stands_where_it_should():
    experiment = find_experiment("participation")
    row = next(row for row in experiment.rows if row.parameters.get("participation") == 0.2)
    figure = experiment.figure(Simulated("mixed", "ER2", 20), row, "SHD")
    assert (figure.mean, figure.deviation) == (8.2, 5.4)
    assert experiment.figure(Simulated("mixed", "ER2", 20, data="standardised"), row, "SHD") is None


def test_the_same_cell_in_two_tables_is_one():
    keys = [
        {cell.key for cell in find_experiment(name).restrict(methods=["GS-FedDAG"]).cells([2021])}
        for name in ("gp", "functions-10", "optimisation")
    ]
    assert keys[0] & keys[1] & keys[2]
    assert len(set.union(*keys)) < sum(map(len, keys))


def test_a_default_that_is_spelled_out_is_the_same_cell():
    cell = find_experiment("gp").restrict(methods=["GS-FedDAG"]).rows[0].cell(TINY, 1)
    assert replace(cell, parameters={}).key == cell.key
    assert replace(cell, parameters={"sharing": "all"}).key != cell.key
    assert replace(cell, parameters={"participation": 1}).key != cell.key


def test_any_registered_method_takes_part(toy):
    part = find_experiment("linear").restrict(methods=[toy, "NOTEARS"])
    assert [row.in_regime for row in part.rows] == ["toy, federated", "NOTEARS, all", "NOTEARS, separate"]
    assert toy in {row.method for row in find_experiment("linear").further_rows()}


def test_a_part_is_chosen_by_nodes_and_data():
    part = find_experiment("linear").restrict(nodes=[10], data="standardised")
    assert {(setting.nodes, setting.data) for setting in part.settings} == {(10, "standardised")}
    with pytest.raises(FeddagError, match=r"10, 20 nodes\. Got \[7\]"):
        find_experiment("linear").restrict(nodes=[7])
    with pytest.raises(FeddagError, match="Did you mean 'NOTEARS'"):
        find_experiment("linear").restrict(methods=["NOTEAR"])
    with pytest.raises(FeddagError, match="Real data have the noise they have"):
        find_experiment("sachs").restrict(data="unequal-noise")


def test_other_data_are_beyond_the_paper():
    linear = find_experiment("linear")
    part = linear.restrict(data="standardised")
    assert (part.title, part.place) == ("Linear models, homogeneous data, standardised", "Beyond the paper")
    assert part.about == "Here on standardised data, which the paper has not."
    assert linear.restrict(data="raw") == linear
    assert find_experiment("fmri9").restrict(data="standardised") == find_experiment("fmri9")


def test_sites_share_a_fixed_total():
    assert {setting.sites * setting.rows for setting in find_experiment("sites").settings} == {6000}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("title = ", "is not TOML"),
        ("tittle = 'x'", "has 'tittle', which is none of"),
        ("[rows]\nfederated = ['nobody']", "'nobody' is not a row"),
        ("[rows]\nalone = ['PC']", "by regime"),
        ("reference = 'CAM'\n[rows]\nall = ['PC']", "the reference 'CAM' is none of its rows"),
    ],
)
def test_a_mistake_in_a_file_is_named(text, complaint):
    with pytest.raises(FeddagError, match=complaint):
        _read("mine", text)


def test_an_unknown_experiment_is_answered_with_the_likely_one():
    with pytest.raises(FeddagError, match="Did you mean 'linear'"):
        find_experiment("lineer")


def test_the_three_kinds_of_data():
    raw, standardised, unequal = (with_data(TINY, data).draw(1) for data in ("raw", "standardised", "unequal-noise"))
    assert raw.truth == standardised.truth == unequal.truth
    for before, after in zip(raw.silos, standardised.silos, strict=True):
        np.testing.assert_allclose(after.values.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(after.values.std(axis=0), 1)
        np.testing.assert_allclose(np.corrcoef(before.values.T), np.corrcoef(after.values.T))
    roots = np.flatnonzero(unequal.truth.adjacency.sum(axis=0) == 0)
    deviations = np.concatenate([silo.values for silo in unequal.silos]).std(axis=0)[roots]
    assert ((deviations > UNEQUAL_NOISE[0] * 0.7) & (deviations < UNEQUAL_NOISE[1] * 1.3)).all()


def test_the_digest_tells_data_apart():
    assert TINY.draw(1).digest() == TINY.draw(1).digest() != TINY.draw(2).digest()


def test_a_method_without_chance_runs_once_on_real_data():
    part = find_experiment("sachs").restrict(methods=["PC", "random"])
    counted = [cell.method for cell in part.cells([1, 2, 3]) if cell.setting == Real("sachs")]
    assert sorted(counted) == ["pc", "random", "random", "random"]


def test_an_edge_into_the_stimulus_is_known_to_be_wrong():
    drawn = Real("fmri9", data="standardised").draw(0)
    assert (drawn.truth, drawn.exogenous) == (None, ("I",))
    assert len(drawn.silos) == 9


def test_what_is_not_bundled_is_asked_for():
    with pytest.raises(FeddagError, match="--folder FOLDER"):
        Real("hippocampus").draw(0)
