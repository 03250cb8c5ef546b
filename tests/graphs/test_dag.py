"""What is a DAG, what becomes one, and what data can tell of it."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddag.errors import FeddagError
from feddag.graphs import is_dag, threshold_to_dag, to_cpdag

# Few distinct values, so that ties are the rule; 0.5 itself, so that the threshold is met exactly.
score_matrices = st.integers(1, 7).flatmap(
    lambda d: hnp.arrays(np.float64, (d, d), elements=st.sampled_from([0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
)


def all_digraphs(nodes: int):
    off_diagonal = np.flatnonzero(~np.eye(nodes, dtype=bool))
    for bits in itertools.product([0, 1], repeat=len(off_diagonal)):
        adjacency = np.zeros(nodes * nodes, dtype=np.int8)
        adjacency[off_diagonal] = bits
        yield adjacency.reshape(nodes, nodes)


def all_dags(nodes: int) -> list[np.ndarray]:
    return [
        a for a in all_digraphs(nodes) if nx.is_directed_acyclic_graph(nx.from_numpy_array(a, create_using=nx.DiGraph))
    ]


def skeleton_and_v_structures(adjacency: np.ndarray) -> tuple[frozenset, frozenset]:
    nodes = range(len(adjacency))
    skeleton = frozenset(frozenset((i, j)) for i in nodes for j in nodes if adjacency[i, j])
    colliders = frozenset(
        (frozenset((i, k)), j)
        for j in nodes
        for i, k in itertools.combinations(nodes, 2)
        if adjacency[i, j] and adjacency[k, j] and frozenset((i, k)) not in skeleton
    )
    return skeleton, colliders


def orientations(adjacency: np.ndarray):
    """Every DAG with the same skeleton."""
    pairs = np.argwhere(np.triu(adjacency | adjacency.T))
    for flips in itertools.product([False, True], repeat=len(pairs)):
        candidate = np.zeros_like(adjacency)
        for (i, j), flip in zip(pairs, flips, strict=True):
            candidate[(j, i) if flip else (i, j)] = 1
        if nx.is_directed_acyclic_graph(nx.from_numpy_array(candidate, create_using=nx.DiGraph)):
            yield candidate


def test_is_dag_agrees_with_networkx_on_every_graph_of_four_nodes():
    for adjacency in all_digraphs(4):
        graph = nx.from_numpy_array(adjacency, create_using=nx.DiGraph)
        assert is_dag(adjacency) == nx.is_directed_acyclic_graph(graph)


def test_a_self_loop_is_a_cycle():
    assert not is_dag([[1]])


def test_a_graph_without_nodes_is_a_dag():
    assert is_dag(np.zeros((0, 0)))


@pytest.mark.parametrize("function", [is_dag, threshold_to_dag, to_cpdag])
@pytest.mark.parametrize("matrix", [np.zeros((2, 3)), np.zeros(4), np.zeros((2, 2, 2)), [[0, 1], [0]], [["a"]]])
def test_what_is_not_a_square_matrix_is_refused(function, matrix):
    with pytest.raises(FeddagError, match="square matrix"):
        function(matrix)


def test_an_adjacency_that_is_not_binary_is_refused_with_its_place():
    with pytest.raises(FeddagError, match=r"0\.3 in row 1, column 0.*0 or 1"):
        is_dag([[0, 0], [0.3, 0]])


@given(score_matrices)
def test_thresholding_keeps_an_acyclic_graph_as_it_is(scores):
    above = np.triu(scores, k=1) > 0.5
    np.testing.assert_array_equal(threshold_to_dag(np.triu(scores)), above)


def test_an_edge_must_exceed_the_threshold():
    assert threshold_to_dag([[0, 0.5], [0, 0]], threshold=0.5).sum() == 0
    assert threshold_to_dag([[0, 0.5], [0, 0]], threshold=0.49).sum() == 1


def test_the_diagonal_never_becomes_an_edge():
    assert threshold_to_dag(np.eye(3)).sum() == 0
    assert threshold_to_dag(np.zeros((1, 1)), threshold=-1.0).sum() == 0


def test_the_result_is_int8():
    assert threshold_to_dag(np.eye(2)).dtype == np.int8
    assert to_cpdag(np.zeros((2, 2))).dtype == np.int8


def test_the_weakest_edge_of_a_cycle_is_cut_and_a_weaker_one_off_every_cycle_stays():
    scores = np.zeros((4, 4))
    scores[0, 1], scores[1, 2], scores[2, 0] = 0.9, 0.7, 0.8
    scores[2, 3] = 0.6
    kept = threshold_to_dag(scores)
    assert np.argwhere(kept).tolist() == [[0, 1], [2, 0], [2, 3]]


def test_an_edge_shared_by_two_cycles_is_cut_once_for_both():
    scores = np.zeros((4, 4))
    scores[0, 1] = 0.6
    scores[1, 2] = scores[2, 0] = scores[1, 3] = scores[3, 0] = 0.9
    assert np.argwhere(threshold_to_dag(scores)).tolist() == [[1, 2], [1, 3], [2, 0], [3, 0]]


def test_among_equal_scores_the_lowest_source_then_the_lowest_target_is_cut():
    assert np.argwhere(threshold_to_dag(np.ones((2, 2)))).tolist() == [[1, 0]]
    assert np.argwhere(threshold_to_dag(np.ones((3, 3)))).tolist() == [[1, 0], [2, 0], [2, 1]]


@given(score_matrices)
def test_cutting_follows_the_rule_step_by_step(scores):
    """The rule taken literally: list the cycles, cut the weakest edge on any of them, look again."""
    edges = scores > 0.5
    np.fill_diagonal(edges, False)
    graph = nx.from_numpy_array(edges, create_using=nx.DiGraph)
    while not nx.is_directed_acyclic_graph(graph):
        components = nx.strongly_connected_components(graph)
        on_a_cycle = [e for c in components for e in graph.subgraph(c).edges]
        graph.remove_edge(*min(on_a_cycle, key=lambda edge: (scores[edge], edge)))
    np.testing.assert_array_equal(threshold_to_dag(scores), nx.to_numpy_array(graph, nodelist=range(len(scores))))


@given(hnp.arrays(np.float64, (5, 5), elements=st.floats(0, 1)), st.floats(0, 1))
def test_the_result_is_acyclic_and_lacks_only_edges_that_lay_on_a_cycle(scores, threshold):
    kept = threshold_to_dag(scores, threshold)
    assert nx.is_directed_acyclic_graph(nx.from_numpy_array(kept, create_using=nx.DiGraph))
    above = (scores > threshold) & ~np.eye(5, dtype=bool)
    assert not (kept & ~above).any()
    cycles = nx.simple_cycles(nx.from_numpy_array(above, create_using=nx.DiGraph))
    on_a_cycle = {edge for cycle in cycles for edge in itertools.pairwise([*cycle, cycle[0]])}
    assert {tuple(edge) for edge in np.argwhere(above & ~kept.astype(bool)).tolist()} <= on_a_cycle


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused_with_their_place(value):
    scores = np.zeros((3, 3))
    scores[0, 2] = value
    with pytest.raises(FeddagError, match=r"row 0, column 2.*finite"):
        threshold_to_dag(scores)


@pytest.mark.parametrize("nodes", [3, 4])
def test_the_cpdag_directs_exactly_the_edges_that_the_whole_class_directs_alike(nodes):
    classes: dict[object, list[np.ndarray]] = {}
    for adjacency in all_dags(nodes):
        classes.setdefault(skeleton_and_v_structures(adjacency), []).append(adjacency)
    assert len(classes) == {3: 11, 4: 185}[nodes], "the known numbers of equivalence classes"
    for members in classes.values():
        union = np.bitwise_or.reduce(members)
        for adjacency in members:
            np.testing.assert_array_equal(to_cpdag(adjacency), union)


@settings(max_examples=25)
@given(hnp.arrays(np.int8, (5, 5), elements=st.integers(0, 1)), st.permutations(range(5)))
def test_the_cpdag_of_five_nodes_is_the_union_of_its_class(upper, order):
    adjacency = np.triu(upper, k=1)[np.ix_(order, order)]
    mark = skeleton_and_v_structures(adjacency)
    members = [other for other in orientations(adjacency) if skeleton_and_v_structures(other) == mark]
    np.testing.assert_array_equal(to_cpdag(adjacency), np.bitwise_or.reduce(members))


def test_meeks_third_rule_directs_the_kite():
    """0 -- 1, 0 -- 2, 0 -> 3, and the collider 1 -> 3 <- 2."""
    dag = np.zeros((4, 4), dtype=np.int8)
    dag[0, [1, 2, 3]] = dag[[1, 2], 3] = 1
    cpdag = to_cpdag(dag)
    assert [cpdag[0, 3], cpdag[3, 0]] == [1, 0]
    assert cpdag[1, 0] == cpdag[0, 1] == cpdag[2, 0] == cpdag[0, 2] == 1


@pytest.mark.parametrize("cyclic", [[[0, 1], [1, 0]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]])
def test_a_graph_with_a_cycle_has_no_cpdag(cyclic):
    with pytest.raises(FeddagError, match="cycle"):
        to_cpdag(cyclic)
