"""What is left of a DAG when variables are hidden, and what independences tell about it."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from causallearn.graph.Endpoint import Endpoint
from causallearn.search.ConstraintBased.FCI import fci

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph, compare_marks, project, separated, to_mag, to_pag
from feddag.graphs.marks import ARROW, CIRCLE, TAIL


def random_dag(nodes, seed, density=0.35):
    rng = np.random.default_rng(seed)
    order = rng.permutation(nodes)
    adjacency = np.zeros((nodes, nodes), dtype=np.int8)
    adjacency[np.ix_(order, order)] = np.triu(rng.random((nodes, nodes)) < density, k=1)
    return adjacency


def subsets(items):
    return itertools.chain.from_iterable(itertools.combinations(items, size) for size in range(len(items) + 1))


@pytest.mark.parametrize("seed", range(12))
def test_an_admg_has_the_separations_of_its_dag(seed):
    adjacency, observed = random_dag(7, seed), [0, 2, 3, 5, 6]
    marks = project(adjacency, observed)
    network = nx.DiGraph(adjacency)
    for one, other in itertools.combinations(range(len(observed)), 2):
        for given in subsets([k for k in range(len(observed)) if k not in (one, other)]):
            expected = nx.is_d_separator(network, {observed[one]}, {observed[other]}, {observed[k] for k in given})
            assert separated(marks, one, other, given) == expected
            assert separated(to_mag(marks), one, other, given) == expected


@pytest.mark.parametrize("seed", range(12))
def test_two_variables_are_adjacent_in_a_mag_if_no_set_separates_them(seed):
    marks = project(random_dag(7, seed), [0, 1, 3, 4, 6])
    mag = to_mag(marks)
    for one, other in itertools.combinations(range(5), 2):
        apart = any(
            separated(marks, one, other, given) for given in subsets([k for k in range(5) if k not in (one, other)])
        )
        assert (mag[one, other] == 0) == apart


def with_oracle(adjacency, observed):
    """Run the FCI of causal-learn on the true d-separations of the observed variables."""
    network = nx.relabel_nodes(
        nx.DiGraph(adjacency),
        {node: k for k, node in enumerate(observed)}
        | {node: f"hidden {node}" for node in range(len(adjacency)) if node not in observed},
    )
    rows = np.random.default_rng(0).normal(size=(10, len(observed)))
    graph, _ = fci(rows, "d_separation", true_dag=network, show_progress=False)
    ends = {Endpoint.ARROW.value: ARROW, Endpoint.TAIL.value: TAIL, Endpoint.CIRCLE.value: CIRCLE, 0: 0}
    # their entry [i, j] stands at i
    return np.vectorize(ends.__getitem__)(graph.graph.T)


@pytest.mark.parametrize("seed", range(25))
def test_the_pag_is_that_of_fci_with_an_oracle(seed):
    rng = np.random.default_rng(seed)
    adjacency = random_dag(9, seed, rng.uniform(0.2, 0.5))
    observed = sorted(rng.choice(9, size=6, replace=False).tolist())
    assert np.array_equal(to_pag(project(adjacency, observed)), with_oracle(adjacency, observed))


@pytest.mark.parametrize("seed", range(8))
def test_a_pag_has_the_marks_that_all_equivalent_graphs_share(seed):
    """Enumerate all ancestral graphs of 4 variables: the definition itself."""
    rng = np.random.default_rng(seed)
    marks = project(random_dag(6, seed, 0.45), rng.choice(6, size=4, replace=False).tolist())
    mag = to_mag(marks)
    same = [each for each in all_mags(mag != 0) if np.array_equal(independences(each), independences(mag))]
    shared = np.where(np.all([each == same[0] for each in same], axis=0), same[0], CIRCLE)
    assert np.array_equal(to_pag(marks), np.where(mag != 0, shared, 0))


def independences(marks):
    pairs = itertools.combinations(range(len(marks)), 2)
    return [
        separated(marks, one, other, given)
        for one, other in pairs
        for given in subsets([k for k in range(len(marks)) if k not in (one, other)])
    ]


def all_mags(skeleton):
    pairs = [tuple(pair) for pair in np.argwhere(np.triu(skeleton))]
    for kinds in itertools.product([(TAIL, ARROW), (ARROW, TAIL), (ARROW, ARROW)], repeat=len(pairs)):
        marks = np.zeros(skeleton.shape, dtype=np.int8)
        for (i, j), (here, there) in zip(pairs, kinds, strict=True):
            marks[j, i], marks[i, j] = here, there
        try:
            if np.array_equal(to_mag(marks), marks):  # ancestral, and maximal
                yield marks
        except FeddagError:  # a cycle
            continue


def test_hidden_causes_become_bidirected_edges():
    # hidden 0 -> 1, 0 -> 2, and 3 between 1 and 4
    adjacency = np.zeros((5, 5), dtype=np.int8)
    for i, j in ((0, 1), (0, 2), (1, 3), (3, 4)):
        adjacency[i, j] = 1
    graph = CausalGraph.from_marks(project(adjacency, [1, 2, 4]), ["a", "b", "c"])
    assert [str(edge) for edge in graph.marked_edges] == ["a -> c", "a <-> b"]


def test_a_pair_that_is_only_confounded_is_told_from_a_cause():
    """Two instruments: u -> a <-> b <- w has arrows at both ends of a - b, and no circle there."""
    graph = CausalGraph.admg(
        [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]],
        ["u", "w", "a", "b"],
    )
    assert [str(edge) for edge in graph.to_pag().marked_edges] == ["u o-> a", "w o-> b", "a <-> b"]
    assert compare_marks(graph.to_pag(), graph).bidirected.f1 == 1.0


def test_only_dags_and_admgs_have_a_pag():
    with pytest.raises(FeddagError, match=r"has no PAG. It has circles or undirected edges"):
        CausalGraph([[0, 1], [1, 0]]).to_pag()
