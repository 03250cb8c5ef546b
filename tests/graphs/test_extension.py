from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddag.graphs import dag_extension, is_dag, parent_sets, to_cpdag


@st.composite
def dags(draw):
    nodes = draw(st.integers(2, 5))
    upper = np.triu(np.array(draw(st.lists(st.booleans(), min_size=nodes**2, max_size=nodes**2))).reshape(nodes, -1), 1)
    order = draw(st.permutations(range(nodes)))
    return upper[np.ix_(order, order)].astype(np.int8)


def members_of_class(cpdag):
    """Every DAG with this CPDAG, by trying all directions."""
    open_ = [(i, j) for i, j in np.argwhere(np.triu(cpdag & cpdag.T))]
    for choice in product((False, True), repeat=len(open_)):
        dag = cpdag.copy()
        for (i, j), forth in zip(open_, choice, strict=True):
            dag[(j, i) if forth else (i, j)] = 0
        if is_dag(dag) and (to_cpdag(dag) == cpdag).all():
            yield dag


@settings(max_examples=60)
@given(dags())
def test_an_extension_is_a_member_of_the_class(dag):
    cpdag = to_cpdag(dag)
    found = dag_extension(cpdag)
    assert is_dag(found)
    np.testing.assert_array_equal(to_cpdag(found), cpdag)


@settings(max_examples=60)
@given(dags())
def test_parent_sets_are_those_of_the_members_of_the_class(dag):
    cpdag = to_cpdag(dag)
    members = list(members_of_class(cpdag))
    for node in range(len(dag)):
        expected = {tuple(np.flatnonzero(each[:, node]).tolist()) for each in members}
        assert set(parent_sets(cpdag, node)) == expected


def test_a_dag_is_its_own_extension_and_has_one_set_of_parents():
    dag = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(dag_extension(dag), dag)
    assert list(parent_sets(dag, 2)) == [(0, 1)]


def test_a_graph_that_no_class_has_still_becomes_a_dag_that_keeps_its_directed_edges():
    square = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    found = dag_extension(square)
    assert is_dag(found)
    np.testing.assert_array_equal(found | found.T, square)


def test_a_directed_cycle_is_cut():
    cycle = nx.to_numpy_array(nx.cycle_graph(3, create_using=nx.DiGraph))
    assert dag_extension(cycle).sum() == pytest.approx(2)
