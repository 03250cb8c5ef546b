"""Methods by name."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from importlib.metadata import metadata

import pytest

from feddag import FedDAG, FeddagError, make_learner, methods
from feddag.learners import Learner
from feddag.learners.factory import leaves_site, method_of
from feddag.learners.registry import METHODS, REGIMES, Method


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_is_a_learner_where_the_table_says_it_is(self, name):
        made = make_learner(name)
        assert isinstance(made, Learner)
        assert f"{type(made.inner).__module__}:{type(made.inner).__qualname__}" == METHODS[name].estimator
        assert made.regime == METHODS[name].regimes[0]
        assert method_of(made).name == name

    def test_runs_in_its_regimes_and_no_other(self, name):
        for regime in REGIMES:
            if regime in METHODS[name].regimes:
                assert make_learner(name, regime).regime == regime
            else:
                known = ", ".join(map(repr, METHODS[name].regimes))
                with pytest.raises(FeddagError) as caught:
                    make_learner(name, regime)
                assert str(caught.value) == f"The method {name!r} runs in the regime {known}. Got {regime!r} instead."

    def test_has_a_constraint_for_every_parameter(self, name):
        parameters = make_learner(name).inner.get_params()
        constraints = METHODS[name].learner().parameter_constraints
        assert constraints.keys() == parameters.keys()
        assert all(constraints[each].accepts(value) for each, value in parameters.items())

    def test_is_described_in_single_lines(self, name):
        method = METHODS[name]
        texts = [method.summary, method.assumptions, method.reference, *leaves_site(method).values()]
        assert all(text.endswith(".") and "\n" not in text for text in texts)
        assert method.extra is None or method.extra in (metadata("feddag").get_all("Provides-Extra") or [])

    def test_stands_for_parameters_that_its_learner_has(self, name):
        METHODS[name].check_names(METHODS[name].defaults)


def test_parameters_reach_the_learner():
    made = make_learner("feddag", sharing="all", seed=3)
    assert isinstance(made, FedDAG)
    assert made.get_params() == FedDAG("all", seed=3).get_params()


def test_a_name_can_stand_for_parameters(monkeypatch):
    separate = replace(METHODS["feddag"], name="separate", defaults={"sharing": "none"})
    monkeypatch.setitem(METHODS, "separate", separate)

    assert make_learner("separate").sharing == "none"
    assert make_learner("separate", sharing="all").sharing == "all"
    assert separate.parameters()["sharing"].default == "none"
    assert method_of(FedDAG(sharing="none")).name == "separate"
    assert method_of(FedDAG()).name == "feddag"


def test_a_regime_decides_between_methods_that_share_a_learner():
    assert method_of(FedDAG()).name == "feddag"
    assert method_of(make_learner("feddag", "all")).name == "mcsl"
    with pytest.raises(FeddagError, match="PC is no registered method for the regime 'federated'"):
        method_of(METHODS["pc"].learner()())


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(FeddagError) as caught:
        make_learner("FedDag")
    names = ", ".join(METHODS)
    assert str(caught.value) == f"method must be one of {names}. Got 'FedDag' instead. Did you mean 'feddag'?"
    with pytest.raises(FeddagError, match=r"Got 'magic' instead\.$"):
        make_learner("magic")


def test_an_unknown_parameter_is_answered_with_the_known_ones():
    with pytest.raises(FeddagError) as caught:
        make_learner("feddag", sharing="all", speed=3)
    known = ", ".join(inspect.signature(FedDAG).parameters)
    assert str(caught.value) == f"The method 'feddag' does not take 'speed'. It takes {known}."


def test_the_table_has_a_row_for_every_method():
    table = methods()
    assert list(table.index) == list(METHODS)
    assert [table.index.name, *table.columns] == [*(each.name for each in fields(Method)), "leaves_site"]
    assert table.loc["feddag", "reference"] == METHODS["feddag"].reference
