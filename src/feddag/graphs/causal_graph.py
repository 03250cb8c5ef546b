"""The graph that a learner returns and that every report, export and metric takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddag.errors import FeddagError
from feddag.graphs import dag
from feddag.graphs.matrices import Adjacency, Scores, as_adjacency, as_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, init=False, eq=False, repr=False)
class CausalGraph:
    """A graph over named variables: a DAG, or a partially directed graph (PDAG) as PC and GES return.

    `adjacency[i, j] = 1` is the edge i -> j; an undirected edge has both entries 1. `scores`, where a learner
    has them, say how much speaks for each possible edge (a probability, a share of votes), drawn or not.

    The arrays are copied and read-only. Two graphs are equal if names (in order) and adjacency are; scores do not
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
    """

    adjacency: Adjacency
    names: tuple[str, ...]
    scores: Scores | None

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

    @classmethod
    def from_networkx(cls, graph: nx.Graph) -> Self:
        """Make a graph of a networkx graph whose nodes are strings; the inverse of `to_networkx`.

        An undirected networkx graph gives undirected edges. Edges may carry `score`: then all of them must,
        and pairs without an edge get the score 0.
        """
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

    def to_networkx(self) -> nx.DiGraph:
        """Make a networkx graph whose nodes are the names; its edges carry `score` if there are scores.

        networkx has no mixed graphs: an undirected edge becomes both directions, as in the adjacency.
        """
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
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
        return dag.is_dag(self.adjacency)

    def to_cpdag(self) -> Self:
        """Return the equivalence class of this DAG; see `feddag.graphs.to_cpdag`.

        The scores are left behind: they speak of directions that the class leaves open.
        """
        return type(self)(dag.to_cpdag(self.adjacency), self.names)

    def reordered(self, names: Sequence[str]) -> Self:
        """Return the same graph with its nodes in the order of `names`, which must be the same set."""
        names = _checked_names(names, len(names))
        if set(names) != set(self.names):
            lacking = [name for name in names if name not in self.names]
            besides = [name for name in self.names if name not in names]
            raise FeddagError(
                f"The nodes differ: the graph lacks {lacking} and has {besides} besides. Name them alike."
            )
        order = np.ix_(*[[self.names.index(name) for name in names]] * 2)
        return type(self)(self.adjacency[order], names, None if self.scores is None else self.scores[order])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the graph by Matplotlib, causes above their effects; needs `feddag[report]`.

        The wider an edge, the higher its score, if the graph has scores. Undirected edges are dashed.
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
        return self.names == other.names and np.array_equal(self.adjacency, other.adjacency)

    def __hash__(self) -> int:
        return hash((self.names, self.adjacency.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # numpy forgets the read-only flag when it pickles; the constructor sets it again.
        return type(self), (self.adjacency, self.names, self.scores)

    def __repr__(self) -> str:
        edges = len(self.edges) + len(self.undirected_edges)
        return f"CausalGraph({len(self.names)} nodes, {edges} edges)"

    def __str__(self) -> str:
        directed = [f"  {source} -> {target}" for source, target in self.edges]
        undirected = [f"  {one} -- {other}" for one, other in self.undirected_edges]
        return "\n".join([repr(self), *directed, *undirected])


def _checked_names(names: Sequence[str], nodes: int) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str) or not name:
            raise FeddagError(f"Names must be non-empty strings. Got {name!r} ({type(name).__name__}) instead.")
    if len(names) != nodes:
        raise FeddagError(f"There are {len(names)} names for {nodes} nodes. Give one name per node.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FeddagError(f"Names must be unique. {twice} stand more than once.")
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
