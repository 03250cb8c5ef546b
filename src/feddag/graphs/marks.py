"""Edges of every kind as one matrix: what stands at each end of an edge.

| edge      | ends            | says                                                                                  |
|-----------|-----------------|---------------------------------------------------------------------------------------|
| i -> j    | tail, arrow     | i is a cause of j                                                                     |
| i -- j    | tail, tail      | one is a cause of the other, and which is open                                        |
| i <-> j   | arrow, arrow    | neither is a cause of the other: a hidden common cause joins them                     |
| i o-> j   | circle, arrow   | j is no cause of i; i is a cause of j, or a hidden common cause joins them, or both   |
| i o-o j   | circle, circle  | joined, and nothing is known of the direction                                         |

This is how to read a partial ancestral graph (PAG), which has circles: an arrow at i says that i is no cause of j, by
whatever path, a tail that it is one, a circle that this is open. An acyclic directed mixed graph (ADMG) has edges ->
and <->, each for itself: a pair may have both, and one of i <-> j may act on the other along other edges.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddag.errors import FeddagError
from feddag.graphs.matrices import Adjacency, as_square, refuse

NONE, TAIL, ARROW, CIRCLE = 0, 1, 2, 4
BOTH = TAIL | ARROW
"""At i, where there are the edges i -> j and i <-> j."""

Mark = Literal["tail", "arrow", "circle"]

Marks = NDArray[np.int8]
"""`marks[i, j]` stands at j on the edge between i and j: 0 where there is none, or TAIL, ARROW, CIRCLE, BOTH."""

_WORDS: dict[int, Mark] = {TAIL: "tail", ARROW: "arrow", CIRCLE: "circle"}
_VALUES = {word: value for value, word in _WORDS.items()}
_KINDS: dict[tuple[Mark, Mark], tuple[str, str]] = {
    ("tail", "arrow"): ("->", "→"),
    ("arrow", "tail"): ("<-", "←"),
    ("tail", "tail"): ("--", "—"),
    ("arrow", "arrow"): ("<->", "↔"),
    ("circle", "arrow"): ("o->", "o→"),
    ("arrow", "circle"): ("<-o", "←o"),
    ("circle", "circle"): ("o-o", "o–o"),
    ("circle", "tail"): ("o-", "o–"),
    ("tail", "circle"): ("-o", "–o"),
}


class Edge(NamedTuple):
    """An edge between two variables, with the mark at each of its ends.

    Examples:
        >>> import feddag
        >>> edge = feddag.graphs.Edge("rain", "river", "circle", "arrow")
        >>> str(edge), edge.kind, edge.directed
        ('rain o-> river', 'o->', False)
    """

    source: str
    target: str
    at_source: Mark
    at_target: Mark

    @property
    def kind(self) -> str:
        """Return both marks as an arrow: `->`, `--`, `<->`, `o->`, `o-o`."""
        return _KINDS[self.at_source, self.at_target][0]

    @property
    def symbol(self) -> str:
        """Return the kind as one typographic arrow, for people."""
        return _KINDS[self.at_source, self.at_target][1]

    @property
    def directed(self) -> bool:
        """Whether the source is a cause of the target."""
        return (self.at_source, self.at_target) == ("tail", "arrow")

    def __str__(self) -> str:
        return f"{self.source} {self.kind} {self.target}"


def mark_value(word: str) -> int:
    """Return the number of a mark in a matrix.

    Raises:
        FeddagError: The word is no mark.
    """
    if word not in _VALUES:
        raise FeddagError(f"A mark must be one of {', '.join(get_args(Mark))}. Got {word!r} instead.")
    return _VALUES[word]


def mark_word(value: int) -> Mark:
    """Return the word for a mark of one edge."""
    return _WORDS[int(value)]


def as_marks(matrix: ArrayLike) -> Marks:
    """Copy `matrix` to int8; it must hold marks, at both ends of an edge or at neither."""
    entries = as_square(matrix, "marks")
    allowed = np.isin(entries, (NONE, TAIL, ARROW, BOTH, CIRCLE))
    refuse("marks", entries, ~allowed, "0, TAIL (1), ARROW (2), BOTH (3) or CIRCLE (4)")
    refuse("marks", entries, (entries != 0) & (entries.T == 0), "0 where the other end of the pair has no mark")
    refuse("marks", entries, (entries == BOTH) & (entries.T != ARROW), "BOTH (3) opposite an ARROW (2) only")
    return entries.astype(np.int8)


def marks_of(adjacency: Adjacency) -> Marks:
    """Return the marks of a graph with directed and undirected edges."""
    forth, back = adjacency == 1, adjacency.T == 1
    return (ARROW * (forth & ~back) + TAIL * back).astype(np.int8)


def adjacency_of(marks: Marks) -> Adjacency:
    """Return the directed edges i -> j, and the undirected ones as both directions; other edges are left out."""
    tail_here, tail_there = (marks.T & TAIL) > 0, marks == TAIL
    return (tail_here & (tail_there | ((marks & ARROW) > 0))).astype(np.int8)


def bidirected_of(marks: Marks) -> Adjacency:
    """Return the edges i <-> j, as a symmetric matrix."""
    return (((marks & ARROW) > 0) & ((marks.T & ARROW) > 0)).astype(np.int8)


def admg_marks(directed: Adjacency, bidirected: Adjacency) -> Marks:
    """Join the matrix of edges i -> j and the symmetric one of edges i <-> j to marks."""
    return (marks_of(directed) | (ARROW * bidirected)).astype(np.int8)


def doubted(marks: Marks, sure: Adjacency) -> Marks:
    """Put a circle at each tail of an edge, unless it is sure that one variable causes the other."""
    return np.where((marks == TAIL) & (sure.T == 0), CIRCLE, marks).astype(np.int8)


def edges_of(marks: Marks, names: tuple[str, ...]) -> list[Edge]:
    """List every edge once: directed ones, then undirected ones, then all others, each in the order of names.

    A directed edge begins at the cause, and an edge with one circle at the circle.
    """
    edges: list[Edge] = []
    for i, j in np.argwhere(marks).tolist():
        here, there = int(marks[j, i]), int(marks[i, j])
        if here == BOTH:
            edges += [_edge(names, i, j, TAIL, ARROW), _edge(names, min(i, j), max(i, j), ARROW, ARROW)]
        elif there != BOTH and ((here == there and i < j) or _precedes(here, there)):
            edges.append(_edge(names, i, j, here, there))
    return sorted(edges, key=lambda edge: (not edge.directed, edge.kind != "--"))


def _precedes(here: int, there: int) -> bool:
    return (here, there) in ((TAIL, ARROW), (CIRCLE, ARROW), (CIRCLE, TAIL))


def _edge(names: tuple[str, ...], i: int, j: int, here: int, there: int) -> Edge:
    return Edge(names[i], names[j], mark_word(here), mark_word(there))


def marks_of_edges(edges: list[Edge], names: tuple[str, ...]) -> Marks:
    """Make marks of a list of edges.

    Raises:
        FeddagError: A pair has edges that cannot stand together.
    """
    index = {name: k for k, name in enumerate(names)}
    marks = np.zeros((len(names), len(names)), dtype=np.int8)
    for edge in edges:
        i, j = index[edge.source], index[edge.target]
        if i == j:
            raise FeddagError(f"Node {edge.source!r} has an edge to itself. Remove it.")
        here, there = mark_value(edge.at_source), mark_value(edge.at_target)
        ends = int(marks[j, i]) | here, int(marks[i, j]) | there
        second = marks[i, j] and not (ends in ((BOTH, ARROW), (ARROW, BOTH)) and BOTH not in (marks[i, j], marks[j, i]))
        if second:
            raise FeddagError(
                f"{edge.source!r} and {edge.target!r} have two edges. A pair has one, or -> and <->. Keep one."
            )
        marks[j, i], marks[i, j] = ends
    return marks
