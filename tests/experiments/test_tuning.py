from __future__ import annotations

from dataclasses import replace

import pytest

from feddag.errors import FeddagError
from feddag.experiments import find_experiment
from feddag.experiments.seeds import REPORTED, TUNING, check_tuning, parsed, role_of
from feddag.experiments.settings import Simulated
from feddag.experiments.tuning import tune, tuned_rows

LINEAR = replace(find_experiment("linear"), settings=(Simulated("linear", "ER2", nodes=4, rows=60, sites=2),))


def test_tuning_and_reported_seeds_are_apart():
    assert not set(TUNING) & set(REPORTED)
    assert (role_of(1), role_of(2021), role_of(77)) == ("tuning", "reported", "other")


def test_nothing_is_tuned_on_reported_seeds(store):
    with pytest.raises(FeddagError, match="Seed 2021 is for reporting"):
        check_tuning((1, 2021))
    with pytest.raises(FeddagError, match="Seed 2030 is for reporting"):
        tune(LINEAR, "notears-admm", {"l1": [0.1]}, store, seeds=[2030])
    assert store.results() == []


def test_nothing_is_tuned_by_the_truth_of_real_data(store):
    with pytest.raises(FeddagError, match="whose truth must choose nothing"):
        tune(find_experiment("sachs"), "PC", {"alpha": [0.1]}, store)


def test_the_best_combination_is_kept_and_reported_as_tuned(store):
    points, best, outcome = tune(LINEAR, "NOTEARS", {"l1": [0.05, 50.0]}, store, regime="all", seeds=[1, 2])
    assert outcome.computed == 4
    assert {result.role for result in store.results()} == {"tuning"}
    assert {result.chosen for result in store.results()} == {"grid"}
    assert points[0].mean < points[1].mean
    assert best.parameters == {"l1": 0.05}
    assert store.tuned("linear")["NOTEARS, all"].seeds == (1, 2)
    (row,) = tuned_rows(LINEAR, store)
    assert (row.in_regime, row.parameters) == ("NOTEARS, all", {"l1": 0.05})
    assert tune(LINEAR, "NOTEARS", {"l1": [0.05, 50.0]}, store, regime="all", seeds=[1, 2])[2].computed == 0


def test_a_row_that_is_not_one_is_refused(store):
    with pytest.raises(FeddagError, match="NOTEARS, all; NOTEARS, separate"):
        tune(LINEAR, "NOTEARS", {"l1": [0.1]}, store)
    with pytest.raises(FeddagError, match="does not take 'l2'"):
        tune(LINEAR, "NOTEARS-ADMM", {"l2": [0.1]}, store)
    with pytest.raises(FeddagError, match="Nothing was tuned"):
        tuned_rows(LINEAR, store)


@pytest.mark.parametrize(("text", "seeds"), [("7", (7,)), ("1-3", (1, 2, 3)), ("1,5-6,1", (1, 5, 6))])
def test_seeds_are_read_from_text(text, seeds):
    assert parsed(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "1-", "3-1", "-1"])
def test_seeds_that_are_none_are_refused(text):
    with pytest.raises(FeddagError, match="seeds must be such as"):
        parsed(text)
