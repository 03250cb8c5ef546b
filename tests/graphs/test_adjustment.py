"""What is adjusted for tells the effect of the model, and what is refused cannot be told by any regression."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph, NotIdentifiedError, adjustment_set, project, votable

NODES, OBSERVED = 8, 6


def model(seed):
    """Draw a linear model; the last variables are hidden."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(NODES)
    weights = np.zeros((NODES, NODES))
    weights[np.ix_(order, order)] = np.triu(rng.uniform(0.5, 1.5, (NODES, NODES)), k=1)
    weights *= rng.random((NODES, NODES)) < 0.4
    total = np.linalg.inv(np.eye(NODES) - weights)
    graph = CausalGraph.from_marks(project((weights != 0).astype(np.int8), range(OBSERVED)))
    return graph, total, total.T @ total


def slope(covariance, cause, effect, given):
    columns = [cause, *given]
    return np.linalg.solve(covariance[np.ix_(columns, columns)], covariance[columns, effect])[0]


@pytest.mark.parametrize("seed", range(30))
def test_of_an_admg_a_set_is_found_if_and_only_if_some_regression_tells_the_effect(seed):
    graph, total, covariance = model(seed)
    for cause, effect in itertools.permutations(range(OBSERVED), 2):
        others = [node for node in range(OBSERVED) if node not in (cause, effect)]
        try:
            names = adjustment_set(graph, graph.names[cause], graph.names[effect])
        except NotIdentifiedError as error:
            reasons = [f"{one} <-> {other}" for one, other in graph.bidirected_edges]
            wanted = reasons if graph.names[effect] in graph.descendants(graph.names[cause]) else ["the effect is 0"]
            if not any(reason in str(error) for reason in wanted):
                pytest.fail(f"{error} names none of {wanted}")
            for size in range(len(others) + 1):
                for given in itertools.combinations(others, size):
                    assert abs(slope(covariance, cause, effect, given) - total[cause, effect]) > 1e-9
            continue
        given = [graph.names.index(name) for name in names]
        assert slope(covariance, cause, effect, given) == pytest.approx(total[cause, effect], abs=1e-9)


def test_of_a_pag_the_set_tells_the_effect_of_every_model_behind_it():
    found = refused = 0
    for seed in range(40):
        graph, total, covariance = model(seed)
        pag = graph.to_pag()
        for cause, effect in itertools.permutations(range(OBSERVED), 2):
            try:
                names = adjustment_set(pag, pag.names[cause], pag.names[effect])
            except NotIdentifiedError:
                refused += 1
                continue
            given = [graph.names.index(name) for name in names]
            assert slope(covariance, cause, effect, given) == pytest.approx(total[cause, effect], abs=1e-9)
            found += total[cause, effect] != 0
    assert found > 10
    assert refused > 10


def test_the_pair_in_the_way_is_named():
    confounded = CausalGraph.admg([[0, 1], [0, 0]], [[0, 1], [1, 0]], ["dose", "pain"])
    with pytest.raises(NotIdentifiedError, match=r"'dose' on 'pain' is not identified, because dose <-> pain"):
        adjustment_set(confounded, "dose", "pain")
    open_ = CausalGraph([[0, 1], [0, 0]], ["dose", "pain"]).to_pag()
    with pytest.raises(NotIdentifiedError, match=r"a hidden common cause may explain dose o-o pain"):
        adjustment_set(open_, "dose", "pain")


def test_sites_do_not_vote_on_hidden_causes():
    with pytest.raises(FeddagError, match="cannot vote on graphs with hidden common causes"):
        votable(CausalGraph.admg(np.zeros((2, 2)), [[0, 1], [1, 0]]))
