from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddag import CausalGraph
from feddag.drawing.layers import _inversions
from feddag.drawing.layout import NODE_HEIGHT, label, lay_out


@st.composite
def graphs(draw):
    """DAGs, graphs with open directions, and graphs with cycles."""
    nodes = draw(st.integers(1, 14))
    pairs = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=30))
    adjacency = np.zeros((nodes, nodes), dtype=int)
    for i, j in pairs:
        if i != j:
            adjacency[i, j] = 1
    if draw(st.booleans()):
        adjacency = np.triu(adjacency)
    names = draw(st.lists(st.text(min_size=1, max_size=40), min_size=nodes, max_size=nodes, unique=True))
    return CausalGraph(adjacency, names)


def dag(nodes, edges_per_node, seed):
    draw = np.random.default_rng(seed)
    order = draw.permutation(nodes)
    adjacency = np.zeros((nodes, nodes), dtype=int)
    adjacency[np.ix_(order, order)] = np.triu(draw.random((nodes, nodes)) < 2 * edges_per_node / (nodes - 1), k=1)
    return CausalGraph(adjacency)


def boxes(layout):
    half = np.column_stack([layout.widths, np.full(len(layout.widths), NODE_HEIGHT)]) / 2
    return np.concatenate([layout.centres - half, layout.centres + half], axis=1)


def overlapping(layout):
    return [
        (one, other)
        for (one, a), (other, b) in combinations(enumerate(boxes(layout)), 2)
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


def crossings(layout):
    """Pairs of straight pieces of edges that cross."""
    pieces = [(points[k], points[k + 1]) for points in layout.routes.values() for k in range(len(points) - 1)]

    def turn(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    return sum(
        turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0
        for (a, b), (c, d) in combinations(pieces, 2)
    )


@settings(max_examples=80)
@given(graphs())
def test_nodes_stand_apart_and_within_the_drawing(graph):
    layout = lay_out(graph)
    assert not overlapping(layout)
    assert (boxes(layout)[:, :2] >= 0).all()
    assert (boxes(layout)[:, 2] <= layout.width).all()
    assert (boxes(layout)[:, 3] <= layout.height).all()


@settings(max_examples=80)
@given(graphs())
def test_every_edge_leads_from_one_of_its_nodes_to_the_other(graph):
    layout = lay_out(graph)
    assert len(layout.routes) == len(graph.edges) + len(graph.undirected_edges)
    limits = boxes(layout)
    for (i, j), points in layout.routes.items():
        assert graph.adjacency[i, j]
        for node, (x, y) in ((i, points[0]), (j, points[-1])):
            left, top, right, bottom = limits[node]
            assert left <= x <= right
            assert y in (pytest.approx(top), pytest.approx(bottom))


@pytest.mark.parametrize(("nodes", "edges_per_node"), [(2, 0.5), (11, 1.5), (40, 1.5), (100, 1.0), (100, 2.0)])
def test_effects_stand_below_their_causes_and_no_edge_runs_through_a_node(nodes, edges_per_node):
    graph = dag(nodes, edges_per_node, seed=1)
    layout = lay_out(graph)
    assert not overlapping(layout)
    limits = boxes(layout)
    for (i, j), points in layout.routes.items():
        assert (np.diff(points[:, 1]) > 0).all()
        for node, (left, top, right, bottom) in enumerate(limits):
            if node in (i, j):
                continue
            # an edge is vertical within a layer, so that it is enough to look at its points
            inside = (points[:, 0] > left) & (points[:, 0] < right) & (points[:, 1] >= top) & (points[:, 1] <= bottom)
            assert not inside.any()


def test_equal_graphs_give_equal_drawings():
    one, other = lay_out(dag(40, 2.0, 5)), lay_out(dag(40, 2.0, 5))
    np.testing.assert_array_equal(one.centres, other.centres)
    assert one.routes.keys() == other.routes.keys()
    assert all(np.array_equal(one.routes[edge], other.routes[edge]) for edge in one.routes)


def test_layers_are_as_many_as_the_longest_path_needs():
    graph = dag(12, 1.5, seed=2)
    longest = nx.dag_longest_path_length(graph.to_networkx())
    assert len(np.unique(lay_out(graph).centres[:, 1])) >= longest + 1
    chain = CausalGraph(np.eye(6, k=1, dtype=int))
    assert len(np.unique(lay_out(chain).centres[:, 1])) == 6
    np.testing.assert_allclose(np.ptp(lay_out(chain).centres[:, 0]), 0, atol=1e-6)


@pytest.mark.parametrize("shape", ["tree", "grid"])
def test_what_can_be_drawn_without_crossings_is(shape):
    graph = nx.balanced_tree(2, 4, create_using=nx.DiGraph) if shape == "tree" else nx.DiGraph()
    if shape == "grid":
        graph.add_edges_from(((i, j), (i + a, j + 1 - a)) for i in range(4) for j in range(4) for a in (0, 1))
    shuffled = np.random.default_rng(3).permutation(len(graph))
    adjacency = nx.to_numpy_array(graph, dtype=int)[np.ix_(shuffled, shuffled)]
    assert crossings(lay_out(CausalGraph(adjacency))) == 0


def test_sweeps_leave_fewer_crossings_than_a_drawing_in_the_given_order(monkeypatch):
    graph = dag(40, 1.5, seed=4)
    sorted_out = crossings(lay_out(graph))
    monkeypatch.setattr("feddag.drawing.layout.Levels.reduce_crossings", lambda self: None)
    assert sorted_out < 0.7 * crossings(lay_out(graph))


def test_undirected_edges_and_cycles_are_drawn_once():
    layout = lay_out(CausalGraph([[0, 1, 0], [1, 0, 1], [0, 0, 0]]))
    assert set(layout.routes) in ({(0, 1), (1, 2)}, {(1, 0), (1, 2)})
    circle = lay_out(CausalGraph([[0, 1, 0], [0, 0, 1], [1, 0, 0]]))
    upwards = [points[-1, 1] < points[0, 1] for points in circle.routes.values()]
    assert sorted(upwards) == [False, False, True]


def test_a_wide_layer_is_broken_up():
    star = np.zeros((80, 80), dtype=int)
    star[0, 1:] = 1
    layout = lay_out(CausalGraph(star))
    assert layout.width < 4 * layout.height


def test_long_names_are_shortened_in_the_middle():
    assert label("systolic blood pressure at admission") == "systolic blo…t admission"
    assert label("age") == "age"


def test_inversions_are_those_that_comparing_all_pairs_counts():
    values = np.random.default_rng(0).integers(0, 20, 60).tolist()
    assert _inversions(values) == sum(one > other for one, other in combinations(values, 2))
