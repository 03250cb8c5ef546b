"""The graph with names: immutable, comparable, and readable by people and by networkx."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.graphs import CausalGraph
from feddag.silos import simulate
from same_graphs import same

CHAIN = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
SCORES = [[0.0, 0.9, 0.2], [0.1, 0.0, 0.8], [0.0, 0.3, 0.0]]


@pytest.fixture
def chain() -> CausalGraph:
    return CausalGraph(CHAIN, ["a", "b", "c"], SCORES)


@pytest.fixture
def pdag() -> CausalGraph:
    """a -- b -> c."""
    return CausalGraph([[0, 1, 0], [1, 0, 1], [0, 0, 0]], ["a", "b", "c"])


def test_edges_are_named(chain, pdag):
    assert chain.edges == [("a", "b"), ("b", "c")]
    assert chain.undirected_edges == []
    assert pdag.edges == [("b", "c")]
    assert pdag.undirected_edges == [("a", "b")]


def test_a_pdag_is_not_a_dag(chain, pdag):
    assert chain.is_dag
    assert not pdag.is_dag


def test_relatives_are_those_of_networkx():
    truth = simulate(12, sites=2, rows=10, seed=4).truth
    network, order = truth.to_networkx(), truth.names.index
    for name in truth.names:
        assert truth.parents(name) == sorted(network.predecessors(name), key=order)
        assert truth.children(name) == sorted(network.successors(name), key=order)
        assert truth.ancestors(name) == sorted(nx.ancestors(network, name), key=order)
        assert truth.descendants(name) == sorted(nx.descendants(network, name), key=order)


def test_an_undirected_edge_makes_no_relatives(pdag):
    assert (pdag.parents("b"), pdag.children("a"), pdag.ancestors("c"), pdag.descendants("a")) == ([], [], ["b"], [])


@pytest.mark.parametrize("relatives", ["parents", "children", "ancestors", "descendants"])
def test_relatives_of_an_unknown_variable_are_refused_with_the_names_there_are(chain, relatives):
    with pytest.raises(FeddagError, match=r"no variable 'd'\. It has 'a', 'b', 'c'"):
        getattr(chain, relatives)("d")


def test_a_notebook_shows_a_drawing_of_all_nodes_and_edges(chain, pdag):
    drawn = ElementTree.fromstring(chain._repr_svg_())
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    shapes = [each.tag.rpartition("}")[2] for each in drawn.iter()]
    assert (shapes.count("rect"), shapes.count("polygon")) == (3, 2)
    assert {each.text for each in drawn.iterfind(".//{*}text")} == {"a", "b", "c"}
    widths = {each.find("{*}title").text: float(each.find("{*}path").get("stroke-width")) for each in edges_in(drawn)}
    assert widths["a → b"] > widths["b → c"]  # the scores are 0.9 and 0.8
    open_ = edges_in(ElementTree.fromstring(pdag._repr_svg_()))
    assert {each.find("{*}title").text: "undirected" in each.get("class") for each in open_} == {
        "a — b": True,
        "b → c": False,
    }


def test_a_name_in_a_drawing_stays_a_name():
    name = "<script>alert('&')</script>"
    drawn = CausalGraph(CHAIN, ["a", "b", name])._repr_svg_()
    assert "<script" not in drawn
    assert name in {each.text for each in ElementTree.fromstring(drawn).iterfind(".//{*}title")}


def edges_in(drawn: ElementTree.Element) -> list[ElementTree.Element]:
    return [each for each in drawn.iterfind(".//{*}g") if each.get("class").startswith("edge")]


def test_nodes_without_names_are_numbered_from_one():
    assert CausalGraph(CHAIN).names == ("X1", "X2", "X3")


def test_repr_is_short_and_counts_an_undirected_edge_once(chain, pdag):
    assert repr(chain) == repr(pdag) == "CausalGraph(3 nodes, 2 edges)"


def test_str_lists_the_edges(pdag):
    assert str(pdag).splitlines() == ["CausalGraph(3 nodes, 2 edges)", "  b -> c", "  a -- b"]


def test_it_keeps_a_copy_that_cannot_be_written(chain):
    adjacency, scores = np.array(CHAIN, dtype=np.int8), np.array(SCORES)
    graph = CausalGraph(adjacency, scores=scores)
    adjacency[0, 2], scores[0, 2] = 1, 7.0
    assert graph.adjacency[0, 2] == 0
    assert graph.scores is not None
    assert graph.scores[0, 2] == 0.2
    for array in (graph.adjacency, graph.scores):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        chain.names = ("x", "y", "z")


def test_equal_names_and_edges_are_equal_and_hash_alike(chain):
    """So that a graph learned without an error is the true one."""
    for scores in (SCORES, np.transpose(SCORES), None):
        equal = CausalGraph(np.array(CHAIN, dtype=bool), ("a", "b", "c"), scores)
        assert equal == chain
        assert hash(equal) == hash(chain)


def test_any_difference_in_names_or_edges_is_a_difference(chain):
    others = [
        CausalGraph(np.transpose(CHAIN), chain.names, SCORES),
        CausalGraph(CHAIN, ["a", "b", "d"], SCORES),
        CausalGraph(CHAIN, ["a", "c", "b"], SCORES),
        "a -> b -> c",
    ]
    assert all(other != chain for other in others)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_a_pickled_or_copied_graph_is_equal_and_still_read_only(chain, duplicate):
    twin = duplicate(chain)
    assert same(twin, chain)
    assert not twin.adjacency.flags.writeable
    assert not twin.scores.flags.writeable


def test_its_cpdag_keeps_the_names_and_drops_the_scores(chain):
    cpdag = chain.to_cpdag()
    assert same(cpdag, CausalGraph(np.array(CHAIN) | np.transpose(CHAIN), chain.names))


def test_networkx_gets_names_in_order_edges_and_scores(chain):
    graph = chain.to_networkx()
    assert isinstance(graph, nx.DiGraph)
    assert list(graph) == ["a", "b", "c"]
    assert list(graph.edges.data("score")) == [("a", "b", 0.9), ("b", "c", 0.8)]
    assert "score" not in CausalGraph(CHAIN).to_networkx().edges["X1", "X2"]


def test_networkx_and_back_loses_nothing_but_the_scores_of_absent_edges(chain, pdag):
    assert same(CausalGraph.from_networkx(pdag.to_networkx()), pdag)
    scores_of_edges = CausalGraph(CHAIN, chain.names, np.multiply(CHAIN, SCORES))
    assert same(CausalGraph.from_networkx(chain.to_networkx()), scores_of_edges)


def test_an_undirected_networkx_graph_has_undirected_edges():
    assert CausalGraph.from_networkx(nx.Graph([("a", "b")])).undirected_edges == [("a", "b")]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.MultiDiGraph([("a", "b"), ("a", "b")]), "parallel edges"),
        (nx.DiGraph([("a", "b", {"score": 0.1}), ("b", "c")]), "'b' -> 'c' has the score None"),
        (nx.DiGraph([("a", "b", {"score": "high"})]), "'a' -> 'b' has the score 'high'"),
        (nx.DiGraph([(0, 1)]), "non-empty strings. Got 0"),
    ],
)
def test_a_networkx_graph_that_is_no_causal_graph_is_refused(graph, message):
    with pytest.raises(FeddagError, match=message):
        CausalGraph.from_networkx(graph)


def test_reordering_moves_edges_and_scores_with_their_names(chain):
    moved = chain.reordered(["c", "a", "b"])
    assert moved.names == ("c", "a", "b")
    assert moved.edges == [("a", "b"), ("b", "c")]
    assert moved.scores[moved.names.index("a"), moved.names.index("c")] == 0.2
    assert same(moved.reordered(chain.names), chain)


def test_reordering_to_other_names_says_which_differ(chain):
    with pytest.raises(FeddagError, match="the graph lacks 'd' and has besides 'c'"):
        chain.reordered(["a", "b", "d"])
    with pytest.raises(FeddagError, match="the graph has besides 'c'"):
        chain.reordered(["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"adjacency": [[0, 1]]}, "square"),
        ({"adjacency": np.zeros((0, 0))}, "at least one node"),
        ({"adjacency": [[0, 2], [0, 0]]}, "2 in row 0, column 1"),
        ({"adjacency": [[0, np.nan], [0, 0]]}, "nan in row 0, column 1"),
        ({"adjacency": [[0, 0], [0, 1]], "names": ["a", "b"]}, "'b' has an edge to itself"),
        ({"adjacency": CHAIN, "names": ["a", "b"]}, "2 names for 3 nodes"),
        ({"adjacency": CHAIN, "names": ["a", "b", "a"]}, "'a' occurs 2 times"),
        ({"adjacency": CHAIN, "names": ["a", "b", 3]}, r"Got 3 \(int\)"),
        ({"adjacency": CHAIN, "names": ["a", "b", ""]}, "non-empty"),
        ({"adjacency": CHAIN, "scores": np.zeros((2, 2))}, r"scores are \(2, 2\) for 3 nodes"),
        ({"adjacency": CHAIN, "scores": np.full((3, 3), np.nan)}, "scores has nan"),
    ],
)
def test_a_malformed_graph_is_refused_with_the_reason(arguments, message):
    with pytest.raises(FeddagError, match=message):
        CausalGraph(**arguments)
