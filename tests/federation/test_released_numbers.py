"""A site counts the numbers that have left its table, and ends where its policy says, whatever happens meanwhile."""

from __future__ import annotations

import pytest

from feddag import EvidenceSearch, FedDAG, simulate
from feddag.errors import FeddagError
from feddag.federation.counting import CountingFederation
from feddag.federation.released_numbers import NumberBudget
from same_graphs import same


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory" / "numbers.json"


def test_every_answer_counts_once(path):
    budget = NumberBudget(path, values=100, limit=1.0)
    budget.charge("a", 60)
    budget.charge("a", 60)
    budget.charge("b", 40)
    assert (budget.numbers, budget.per_value) == (100, 1.0)


def test_an_answer_beyond_the_limit_is_refused_and_not_charged(path):
    budget = NumberBudget(path, values=100, limit=0.5)
    budget.charge("a", 50)
    with pytest.raises(FeddagError, match=r"has 1 numbers, and 50 .* 100 values .* maximum_numbers_per_value = 0.5"):
        budget.charge("b", 1)
    budget.charge("a", 50)
    assert budget.numbers == NumberBudget(path, values=100, limit=0.5).numbers == 50


def test_the_count_spans_restarts_and_studies_of_the_table(path):
    NumberBudget(path, values=100, limit=1.0).charge("a", 60)
    one, other = (NumberBudget(path, values=100, limit=1.0) for _ in range(2))
    one.charge("b", 30)
    with pytest.raises(FeddagError, match="and 90 have left"):
        other.charge("c", 30)


def test_without_a_limit_all_is_counted(path):
    budget = NumberBudget(path, values=1, limit=None)
    budget.charge("a", 10**9)
    assert budget.per_value == 10**9


@pytest.mark.parametrize("text", ["", "[]", '{"charged": 3}', '{"charged": {"a": -5}}', '{"charged": {"a": "b"}}'])
def test_a_damaged_count_is_no_count(path, text):
    NumberBudget(path, values=100, limit=1.0).charge("a", 1)
    path.write_text(text)
    with pytest.raises(FeddagError, match=r"numbers\.json .*changed or damaged\. Restore"):
        NumberBudget(path, values=100, limit=1.0)


def counted(learner, simulation):
    silos = learner.check(simulation)
    with learner.in_process(silos) as federation:
        counting = CountingFederation(federation)
        learner.fit_federation(counting, silos[0].columns)
    return counting


def test_a_counting_federation_learns_the_same_and_counts_every_sum():
    simulation = simulate(4, mechanism="gp", sites=3, rows=120, seed=1)
    learner, alone = EvidenceSearch(restarts=0), EvidenceSearch(restarts=0).fit(simulation)
    counting = counted(learner, simulation)
    assert same(learner.graph_, alone.graph_)
    assert counting.ledger.sent == alone.communication_.sent
    assert counting.total == sum(alone.communication_.sent.values()) // 3 // 8


def test_a_sum_that_comes_back_bit_for_bit_counts_once():
    simulation = simulate(4, mechanism="gp", sites=3, rows=120, seed=1)
    learner = EvidenceSearch(restarts=0)
    silos = learner.check(simulation)
    with learner.in_process(silos) as federation:
        counting = CountingFederation(federation)
        for _ in range(2):
            learner.fit_federation(counting, silos[0].columns)
    assert counting.numbers == counted(EvidenceSearch(restarts=0), simulation).numbers


def test_graphs_take_fewer_numbers_than_mechanisms():
    simulation = simulate(4, mechanism="gp", sites=3, rows=120, seed=1)
    small = {"hidden_layers": 1, "it_max": 1, "it_inner": 20, "it_fl": 10}  # a network that compiles quickly
    by_sharing = [counted(FedDAG(sharing=sharing, **small), simulation).total for sharing in ("graph", "all")]
    assert by_sharing[1] > 10 * by_sharing[0]
