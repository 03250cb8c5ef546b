"""Directions that rest on independences, with data in which a weak edge makes causes look independent."""

from __future__ import annotations

import numpy as np
import pytest

from feddag import EvidenceSearch
from feddag.learners.search import independences
from feddag.silos import Silo

SITES, ROWS = 2, 300


def silos_of(weights, seed):
    """Straight lines with normal noise, each variable caused by some before it."""
    rng, sites = np.random.default_rng(seed), []
    for site in range(SITES):
        table = np.zeros((ROWS, len(weights)))
        for node, causes in enumerate(weights):
            table[:, node] = table @ np.pad(causes, (0, len(weights) - len(causes))) + rng.normal(size=ROWS)
        sites.append(Silo(f"s{site}", tuple("abc"), table))
    return sites


def learn(silos):
    return EvidenceSearch("graph", workers=1, restarts=0).fit(silos)


def sure(learned):
    evidence = learned.edge_evidence_
    return {(each.cause, each.effect) for each in evidence[evidence.directed].itertuples()}


@pytest.fixture(scope="module")
def misleading():
    """a -> b -> c and a -> c, which nearly cancels: a and c look almost independent, as two causes of b would be."""
    return silos_of([[], [1.0], [-0.25, 0.4]], 10)


def test_causes_that_may_depend_on_each_other_a_little_tell_no_direction(misleading):
    assert sure(learn(misleading)) == set()


def test_without_a_look_at_weak_dependences_the_search_is_sure_and_wrong(misleading, monkeypatch):
    monkeypatch.setattr(independences, "SUSPECT", np.inf)
    assert ("c", "b") in sure(learn(misleading))


def test_independent_causes_of_one_effect_still_tell_their_directions():
    found = [sure(learn(silos_of([[], [0.0], [0.7, 0.7]], seed))) for seed in range(6)]
    assert all(each <= {("a", "c"), ("b", "c")} for each in found)
    assert sum(map(bool, found)) >= 4


def products(seed):
    """Two independent causes of one effect: a -> c <- b, with their product."""
    rng = np.random.default_rng(seed)
    a, b, noise = rng.normal(size=(3, ROWS))
    return Silo(f"s{seed}", tuple("abc"), np.column_stack([a, b, a + b + a * b + 0.7 * noise]))


def test_causes_that_tell_about_each_other_only_through_their_effect_have_no_sure_edge():
    learned = EvidenceSearch("graph", workers=1, restarts=0, tiers=[["c"], ["a", "b"]]).fit(
        [products(seed) for seed in range(2)]
    )
    evidence = learned.edge_evidence_.set_index(["cause", "effect"])
    between = evidence[[set(edge) == {"a", "b"} for edge in evidence.index]]
    assert len(between) == 1
    assert between.absent.iloc[0] > 5 * between.absent_error.iloc[0]
    assert not between.present.iloc[0]
