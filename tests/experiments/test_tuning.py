from __future__ import annotations

from dataclasses import replace

import pytest

from feddag.errors import FeddagError
from feddag.experiments import find_experiment
from feddag.experiments.seeds import REPORTED, TUNING, check_tuning, parse_seeds, role_of
from feddag.experiments.settings import Simulated
from feddag.experiments.tuning import tune, tuned_parts

LINEAR = replace(find_experiment("linear"), settings=(Simulated("linear", "ER2", nodes=4, rows=60, sites=2),))


def test_tuning_and_reported_seeds_are_apart():
    assert not set(TUNING) & set(REPORTED)
    assert (role_of(1), role_of(2021), role_of(77)) == ("tuning", "reported", "other")


def test_nothing_is_tuned_on_reported_seeds(store):
    with pytest.raises(FeddagError, match="Seed 2021 is for reporting"):
        check_tuning((1, 2021))
    with pytest.raises(FeddagError, match="Seed 77 is not one of those"):
        check_tuning((1, 77))
    with pytest.raises(FeddagError, match="Seed 2030 is for reporting"):
        tune(LINEAR, "notears-admm", {"l1": [0.1]}, store, seeds=[2030])
    assert store.results() == []


def test_nothing_is_tuned_by_the_truth_of_real_data(store):
    with pytest.raises(FeddagError, match="whose truth must choose nothing"):
        tune(find_experiment("sachs"), "PC", {"alpha": [0.1]}, store)


def test_the_best_combination_is_kept_and_reported_as_tuned(store):
    choice = tune(LINEAR, "NOTEARS", {"l1": [0.05, 50.0]}, store, regime="all", seeds=[1, 2])
    assert choice.outcome.computed == 4
    assert {result.role for result in store.results()} == {"tuning"}
    assert {result.chosen for result in store.results()} == {"grid"}
    assert choice.points[0].mean < choice.points[1].mean
    assert choice.best.parameters == {"l1": 0.05}
    (kept,) = store.tuned("linear")
    assert (kept.row, kept.data, kept.nodes, kept.seeds) == ("NOTEARS, all", "raw", 4, (1, 2))
    (part,) = tuned_parts(LINEAR, store)
    (row,) = part.rows
    assert (row.in_regime, row.parameters) == ("NOTEARS, all", {"l1": 0.05})
    again = tune(LINEAR, "NOTEARS", {"l1": [0.05, 50.0]}, store, regime="all", seeds=[1, 2])
    assert (again.outcome.computed, again.replaced) == (0, [])
    otherwise = tune(LINEAR, "NOTEARS", {"l1": [50.0]}, store, regime="all", seeds=[1, 2])
    assert (otherwise.outcome.computed, otherwise.replaced) == (0, [kept])


def test_a_row_that_is_not_one_is_refused(store):
    with pytest.raises(FeddagError, match="NOTEARS, all; NOTEARS, separate"):
        tune(LINEAR, "NOTEARS", {"l1": [0.1]}, store)
    with pytest.raises(FeddagError, match=r"'NOTEARS' has NOTEARS, all; NOTEARS, separate\. Choose by --regime"):
        tune(LINEAR, "NOTEARS", {"l1": [0.1]}, store, regime="voting")
    with pytest.raises(FeddagError, match="participation varies a parameter of 'GS-FedDAG'"):
        tune(find_experiment("participation"), "GS-FedDAG", {"l1": [0.1]}, store)
    with pytest.raises(FeddagError, match="does not take 'l2'"):
        tune(LINEAR, "NOTEARS-ADMM", {"l2": [0.1]}, store)
    with pytest.raises(FeddagError, match="Nothing was tuned"):
        tuned_parts(LINEAR, store)
    with pytest.raises(FeddagError, match="no value for 'l1'"):
        tune(LINEAR, "NOTEARS-ADMM", {"l1": []}, store)


RANDOM = find_experiment("linear").restrict(methods=["random"])


def _tuned(store, edges_per_node, **where):
    tune(RANDOM.restrict(**where), "random", {"edges_per_node": [edges_per_node]}, store, seeds=[1])


def test_what_was_tuned_on_other_data_or_nodes_is_not_taken(store):
    _tuned(store, 0.5, nodes=[10], data="standardised")
    told = "random was tuned on standardised data of 10 nodes, and not on"
    with pytest.raises(FeddagError, match=f"{told} raw data of 10 nodes"):
        tuned_parts(RANDOM.restrict(nodes=[10]), store)
    with pytest.raises(FeddagError, match=f"{told} standardised data of 20 nodes"):
        tuned_parts(RANDOM.restrict(nodes=[10, 20], data="standardised"), store)
    (part,) = tuned_parts(RANDOM.restrict(nodes=[10], data="standardised"), store)
    assert {cell.parameters["edges_per_node"] for cell in part.cells([2021])} == {0.5}


def test_each_number_of_nodes_has_its_own_tuned_parameters(store):
    _tuned(store, 0.5, nodes=[10, 20])
    _tuned(store, 2.0, nodes=[10])
    parts = tuned_parts(RANDOM.restrict(nodes=[10, 20]), store)
    cells = [cell for part in parts for cell in part.cells([2021])]
    assert {(cell.setting.nodes, cell.parameters["edges_per_node"]) for cell in cells} == {(10, 2.0), (20, 0.5)}
    assert len(cells) == len(list(RANDOM.restrict(nodes=[10, 20]).cells([2021])))


def test_a_regime_that_was_tuned_elsewhere_is_left_out(store):
    for regime, data in (("all", "raw"), ("separate", "standardised")):
        part = LINEAR.restrict(data=data)
        tune(part, "NOTEARS", {"l1": [0.05]}, store, regime=regime, seeds=[1])
    (part,) = tuned_parts(LINEAR.restrict(methods=["NOTEARS"], data="raw"), store)
    assert [row.in_regime for row in part.rows] == ["NOTEARS, all"]


@pytest.mark.parametrize(("text", "seeds"), [("7", (7,)), ("1-3", (1, 2, 3)), ("1,5-6,1", (1, 5, 6))])
def test_seeds_are_read_from_text(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "1-", "3-1", "-1", "2021,5-3", "1,,2"])
def test_seeds_that_are_none_are_refused(text):
    with pytest.raises(FeddagError, match="seeds must be such as"):
        parse_seeds(text)
