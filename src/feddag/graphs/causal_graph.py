"""The graph that a learner returns and that every report, export and metric takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddag.errors import FeddagError, check_unique
from feddag.graphs import dag
from feddag.graphs.ancestral import to_pag
from feddag.graphs.marks import (
    Edge,
    Marks,
    adjacency_of,
    admg_marks,
    as_marks,
    bidirected_of,
    doubted,
    edges_of,
    marks_of,
    marks_of_edges,
)
from feddag.graphs.matrices import Adjacency, Scores, as_adjacency, as_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, init=False, eq=False, repr=False)
class CausalGraph:
    """A graph over named variables: a DAG, a partially directed graph (PDAG) as PC and GES return, an ADMG or a PAG.

    `adjacency[i, j] = 1` is the edge i -> j; an undirected edge has both entries 1. `scores`, where a learner
    has them, say how much speaks for each possible edge (a probability, a share of votes), drawn or not.

    Where hidden common causes are possible, a graph has further kinds of edges: `<->`, `o->` and `o-o`
    (`feddag.graphs.marks` says what they mean). `from_marks` and `admg` make such graphs, `marks` has all ends of all
    edges, and `marked_edges` lists them. `adjacency` has the edges -> and -- alone, so that whoever reads it sees
    causes that the graph is sure of.

    The arrays are copied and read-only. Two graphs are equal if names (in order) and edges are; scores do not
    matter, so that a learned graph can equal the true one. Without names, the nodes are called X1, X2, ...

    A notebook shows the graph as a drawing.

    Examples:
        >>> import feddag
        >>> graph = feddag.CausalGraph([[0, 1, 0], [0, 0, 1], [0, 0, 0]], ["rain", "river", "flood"])
        >>> graph.edges
        [('rain', 'river'), ('river', 'flood')]
        >>> graph.parents("flood"), graph.ancestors("flood")
        (['river'], ['rain', 'river'])
        >>> print(graph.to_cpdag())
        CausalGraph(3 nodes, 2 edges)
          rain -- river
          river -- flood
        >>> print(graph.to_pag())
        CausalGraph(3 nodes, 2 edges)
          rain o-o river
          river o-o flood
    """

    adjacency: Adjacency
    names: tuple[str, ...]
    scores: Scores | None
    _marks: Marks | None
    """None where all edges are directed or undirected: the adjacency then has them all."""

    def __init__(
        self, adjacency: ArrayLike, names: Sequence[str] | None = None, scores: ArrayLike | None = None
    ) -> None:
        checked = as_adjacency(adjacency)
        nodes = len(checked)
        if nodes == 0:
            raise FeddagError("A graph needs at least one node. Got an adjacency of shape (0, 0) instead.")
        names = tuple(f"X{i + 1}" for i in range(nodes)) if names is None else _checked_names(names, nodes)
        if checked.diagonal().any():
            name = names[int(checked.diagonal().argmax())]
            raise FeddagError(f"Node {name!r} has an edge to itself. Set the diagonal of the adjacency to 0.")
        checked.setflags(write=False)
        object.__setattr__(self, "adjacency", checked)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "scores", None if scores is None else _checked_scores(scores, nodes))
        object.__setattr__(self, "_marks", None)

    @classmethod
    def from_marks(cls, marks: ArrayLike, names: Sequence[str] | None = None, scores: ArrayLike | None = None) -> Self:
        """Make a graph with edges of any kind from the marks at their ends; see `feddag.graphs.marks`.

        Examples:
            >>> import feddag
            >>> from feddag.graphs.marks import ARROW, CIRCLE
            >>> print(feddag.CausalGraph.from_marks([[0, ARROW], [CIRCLE, 0]], ["rain", "river"]))
            CausalGraph(2 nodes, 1 edges)
              rain o-> river
        """
        checked = as_marks(marks)
        graph = cls(adjacency_of(checked), names, scores)
        if checked.diagonal().any():
            name = graph.names[int(checked.diagonal().argmax())]
            raise FeddagError(f"Node {name!r} has an edge to itself. Set the diagonal of the marks to 0.")
        if not np.array_equal(checked, marks_of(graph.adjacency)):
            checked.setflags(write=False)
            object.__setattr__(graph, "_marks", checked)
        return graph

    @classmethod
    def admg(
        cls,
        directed: ArrayLike,
        bidirected: ArrayLike,
        names: Sequence[str] | None = None,
        scores: ArrayLike | None = None,
    ) -> Self:
        """Make a graph of edges i -> j, and of edges i <-> j: pairs that a hidden common cause joins.

        Examples:
            >>> import feddag
            >>> print(feddag.CausalGraph.admg([[0, 1], [0, 0]], [[0, 1], [1, 0]], ["rain", "river"]))
            CausalGraph(2 nodes, 2 edges)
              rain -> river
              rain <-> river
        """
        causes, joined = as_adjacency(directed), as_adjacency(bidirected)
        if causes.shape != joined.shape:
            raise FeddagError(f"directed has the shape {causes.shape} and bidirected {joined.shape}. Give both alike.")
        if not np.array_equal(joined, joined.T):
            raise FeddagError("bidirected must be symmetric: an edge i <-> j has both entries 1.")
        if (causes & causes.T).any():
            raise FeddagError("directed has both entries of a pair, which is an undirected edge. An ADMG has none.")
        return cls.from_marks(admg_marks(causes, joined), names, scores)

    @classmethod
    def from_edges(
        cls, edges: Iterable[Edge], names: Sequence[str] | None = None, scores: ArrayLike | None = None
    ) -> Self:
        """Make a graph of edges with marks; without names, the nodes are those of the edges, in their order."""
        edges = list(edges)
        names = list(dict.fromkeys(end for edge in edges for end in edge[:2])) if names is None else names
        return cls.from_marks(marks_of_edges(edges, tuple(names)), names, scores)

    @classmethod
    def from_networkx(cls, graph: nx.Graph) -> Self:
        """Make a graph of a networkx graph whose nodes are strings; the inverse of `to_networkx`.

        An undirected networkx graph gives undirected edges. Edges may carry `score`: then all of them must,
        and pairs without an edge get the score 0. Edges may carry `source_mark` and `target_mark`: then all of them
        must, and each stands once.
        """
        if any("source_mark" in attributes for *_, attributes in graph.edges.data()):
            return cls._from_marked_networkx(graph)
        if graph.is_multigraph():
            raise FeddagError("The graph has parallel edges. Keep one edge per pair of nodes.")
        graph = graph.to_directed()
        names = list(graph)
        index = {name: i for i, name in enumerate(names)}
        adjacency = np.zeros((len(names), len(names)), dtype=np.int8)
        scores = np.zeros(adjacency.shape)
        scored = any("score" in attributes for *_, attributes in graph.edges.data())
        for source, target, score in graph.edges.data("score"):
            edge = index[source], index[target]
            adjacency[edge] = 1
            if scored:
                scores[edge] = _checked_edge_score(source, target, score)
        return cls(adjacency, names, scores if scored else None)

    @classmethod
    def _from_marked_networkx(cls, graph: nx.Graph) -> Self:
        names, scored = list(graph), any("score" in attributes for *_, attributes in graph.edges.data())
        edges, directed, joined = [], np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
        for source, target, attributes in graph.edges.data():
            if not {"source_mark", "target_mark"} <= set(attributes):
                raise FeddagError(f"Edge {source!r} - {target!r} has no source_mark and target_mark. Give it both.")
            edge = Edge(source, target, attributes["source_mark"], attributes["target_mark"])
            edges.append(edge)
            if scored:
                i, j = names.index(source), names.index(target)
                score = _checked_edge_score(source, target, attributes.get("score"))
                (directed if edge.directed else joined)[i, j] = score
        joined = np.where(directed != 0, directed, joined + joined.T)
        return cls.from_edges(edges, names, joined if scored else None)

    def to_networkx(self) -> nx.DiGraph:
        """Make a networkx graph whose nodes are the names; its edges carry `score` if there are scores.

        networkx has no mixed graphs: an undirected edge becomes both directions, as in the adjacency. In a graph with
        other kinds of edges, each edge stands once and carries `source_mark` and `target_mark`; where a pair is joined
        by -> and <->, the second runs against the first.
        """
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        if self._marks is not None:
            for edge in self.marked_edges:
                source, target = edge[:2] if not graph.has_edge(*edge[:2]) else edge[1::-1]
                attributes = {} if self.scores is None else {"score": self.score_of(edge)}
                graph.add_edge(source, target, source_mark=edge.at_source, target_mark=edge.at_target, **attributes)
            return graph
        for i, j in np.argwhere(self.adjacency):
            attributes = {} if self.scores is None else {"score": float(self.scores[i, j])}
            graph.add_edge(self.names[i], self.names[j], **attributes)
        return graph

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Return the directed edges, as (source, target)."""
        return [(self.names[i], self.names[j]) for i, j in np.argwhere(self._directed)]

    @property
    def undirected_edges(self) -> list[tuple[str, str]]:
        """Return the undirected edges, each once, its two ends in the order of `names`."""
        undirected = np.triu(self.adjacency & self.adjacency.T)
        return [(self.names[i], self.names[j]) for i, j in np.argwhere(undirected)]

    @property
    def bidirected_edges(self) -> list[tuple[str, str]]:
        """Return the pairs that a hidden common cause joins, each once, its two ends in the order of `names`."""
        return [(self.names[i], self.names[j]) for i, j in np.argwhere(np.triu(self.bidirected))]

    @property
    def marked_edges(self) -> list[Edge]:
        """Return every edge once, with the marks at both ends: directed ones, then undirected ones, then all others."""
        return edges_of(self.marks, self.names)

    @property
    def marks(self) -> Marks:
        """Return the mark at each end of each edge: `marks[i, j]` stands at j; see `feddag.graphs.marks`."""
        return marks_of(self.adjacency) if self._marks is None else self._marks

    def doubted(self, causes: Iterable[tuple[str, str]]) -> Self:
        """Return the graph with a circle at each tail but those of `causes`: a hidden cause may explain the others.

        Examples:
            >>> import feddag
            >>> graph = feddag.CausalGraph([[0, 1, 0], [0, 0, 1], [0, 0, 0]], ["rain", "river", "flood"])
            >>> print(graph.doubted([("rain", "river")]))
            CausalGraph(3 nodes, 2 edges)
              rain -> river
              river o-> flood
        """
        sure = np.zeros_like(self.adjacency)
        for cause, effect in causes:
            sure[self._position(cause), self._position(effect)] = 1
        return self.from_marks(doubted(self.marks, sure), self.names, self.scores)

    def score_of(self, edge: Edge) -> float:
        """Return the score of an edge: of an edge that is not directed, the higher of both directions.

        Where a pair has -> and <->, the score of the second stands in the opposite direction of the first.

        Raises:
            FeddagError: The graph has no scores.
        """
        if self.scores is None:
            raise FeddagError("The graph has no scores.")
        i, j = self._position(edge.source), self._position(edge.target)
        forth, back = float(self.scores[i, j]), float(self.scores[j, i])
        if edge.directed:
            return forth
        if self.adjacency[i, j] != self.adjacency[j, i]:
            return back if self.adjacency[i, j] else forth
        return max(forth, back)

    @property
    def bidirected(self) -> Adjacency:
        """Return the edges <-> as a symmetric matrix."""
        return bidirected_of(self.marks)

    @property
    def allows_hidden_causes(self) -> bool:
        """Whether the graph has edges that a hidden common cause makes, or may make: `<->`, `o->` or `o-o`."""
        return self._marks is not None

    @property
    def edge_count(self) -> int:
        """The number of edges of all kinds."""
        return len(self.marked_edges)

    def parents(self, name: str) -> list[str]:
        """Return the causes of a variable that have an edge to it, in the order of `names`.

        Whoever is joined by an undirected edge is neither a parent nor a child.
        """
        return self._named(self._directed[:, self._position(name)])

    def children(self, name: str) -> list[str]:
        """Return the effects of a variable that it has an edge to, in the order of `names`."""
        return self._named(self._directed[self._position(name)])

    def ancestors(self, name: str) -> list[str]:
        """Return all variables from which a path of directed edges leads to this one, in the order of `names`."""
        return self._named(dag.reachable(self._directed.T, self._position(name)))

    def descendants(self, name: str) -> list[str]:
        """Return all variables to which a path of directed edges leads from this one, in the order of `names`."""
        return self._named(dag.reachable(self._directed, self._position(name)))

    @property
    def _directed(self) -> dag.Edges:
        return (self.adjacency == 1) & (self.adjacency.T == 0)

    def _position(self, name: str) -> int:
        if name not in self.names:
            raise FeddagError(f"The graph has no variable {name!r}. It has {', '.join(map(repr, self.names))}.")
        return self.names.index(name)

    def _named(self, chosen: NDArray[np.bool_]) -> list[str]:
        return [self.names[k] for k in np.flatnonzero(chosen)]

    @property
    def is_dag(self) -> bool:
        """Whether every edge is directed and there is no cycle."""
        return not self.allows_hidden_causes and dag.is_dag(self.adjacency)

    def to_cpdag(self) -> Self:
        """Return the equivalence class of this DAG; see `feddag.graphs.to_cpdag`.

        The scores are left behind: they speak of directions that the class leaves open.
        """
        if self.allows_hidden_causes:
            raise FeddagError(f"A CPDAG is defined for a DAG, and this graph has {self._first_hidden()}. Use to_pag().")
        return type(self)(dag.to_cpdag(self.adjacency), self.names)

    def to_pag(self) -> Self:
        """Return what observational data show of this DAG or ADMG if there may be hidden common causes: its PAG.

        The scores are left behind: they speak of directions that the class leaves open.
        """
        try:
            return type(self).from_marks(to_pag(self.marks), self.names)
        except FeddagError as error:
            raise FeddagError(f"The graph has no PAG. {error}") from None

    def _first_hidden(self) -> str:
        return next(str(edge) for edge in self.marked_edges if edge.kind not in ("->", "--"))

    def reordered(self, names: Sequence[str]) -> Self:
        """Return the same graph with its nodes in the order of `names`, which must be the same set."""
        names = _checked_names(names, len(names))
        if set(names) != set(self.names):
            differing = {
                "lacks": [name for name in names if name not in self.names],
                "has besides": [name for name in self.names if name not in names],
            }
            found = " and ".join(f"{verb} {', '.join(map(repr, its))}" for verb, its in differing.items() if its)
            raise FeddagError(f"The nodes differ: the graph {found}. Name them alike.")
        order = np.ix_(*[[self.names.index(name) for name in names]] * 2)
        scores = None if self.scores is None else self.scores[order]
        if self._marks is None:
            return type(self)(self.adjacency[order], names, scores)
        return type(self).from_marks(self._marks[order], names, scores)

    def subgraph(self, names: Sequence[str]) -> Self:
        """Return the edges among some of the variables, in the order of `names`."""
        chosen = np.ix_(*[[self._position(name) for name in names]] * 2)
        return type(self).from_marks(self.marks[chosen], names, None if self.scores is None else self.scores[chosen])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the graph by Matplotlib, causes above their effects; needs `feddag[report]`.

        The wider an edge, the higher its score, if the graph has scores. Undirected edges are dashed. An arrow head
        or a circle stands at each end that has one.
        """
        from feddag.drawing.plots import plot_graph  # noqa: PLC0415 - loads pandas and scipy, which graphs do not need

        return plot_graph(self, ax)

    def _repr_svg_(self) -> str:
        """Show the graph in a notebook."""
        from feddag.drawing.graph_svg import draw_svg  # noqa: PLC0415 - loads scipy

        return str(draw_svg(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CausalGraph):
            return NotImplemented
        return self.names == other.names and np.array_equal(self.marks, other.marks)

    def __hash__(self) -> int:
        return hash((self.names, self.marks.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # numpy forgets the read-only flag when it pickles; the constructor sets it again.
        if self._marks is None:
            return type(self), (self.adjacency, self.names, self.scores)
        return type(self).from_marks, (self._marks, self.names, self.scores)

    def __repr__(self) -> str:
        return f"CausalGraph({len(self.names)} nodes, {self.edge_count} edges)"

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"  {edge}" for edge in self.marked_edges)])


def _checked_names(names: Sequence[str], nodes: int) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str) or not name:
            raise FeddagError(f"Names must be non-empty strings. Got {name!r} ({type(name).__name__}) instead.")
    if len(names) != nodes:
        raise FeddagError(f"There are {len(names)} names for {nodes} nodes. Give one name per node.")
    check_unique(names, "The name", "Names must be unique.")
    return tuple(str(name) for name in names)


def _checked_scores(scores: ArrayLike, nodes: int) -> Scores:
    checked = as_scores(scores)
    if len(checked) != nodes:
        raise FeddagError(f"scores are {checked.shape} for {nodes} nodes. Score every ordered pair.")
    checked.setflags(write=False)
    return checked


def _checked_edge_score(source: str, target: str, score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        raise FeddagError(
            f"Edge {source!r} -> {target!r} has the score {score!r}. Give every edge a number, or none."
        ) from None
