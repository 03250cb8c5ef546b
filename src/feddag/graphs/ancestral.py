"""Graphs over the observed variables where others are hidden: ADMGs, ancestral graphs and their equivalence classes.

All functions take and return matrices of marks (`feddag.graphs.marks`). There is no selection of rows: no edge here
means that data were selected by what it joins.

- Richardson and Spirtes, "Ancestral graph Markov models", Annals of Statistics 2002: maximal ancestral graphs (MAGs).
- Zhang, "On the completeness of orientation rules for causal discovery in the presence of latent confounders and
  selection bias", Artificial Intelligence 2008: the rules, numbered as there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from feddag.errors import FeddagError
from feddag.graphs import dag
from feddag.graphs.marks import ARROW, CIRCLE, NONE, TAIL, Marks, adjacency_of, admg_marks, bidirected_of
from feddag.graphs.matrices import Adjacency

Separators = Mapping[frozenset[int], Collection[int]]
"""For pairs of variables that are not adjacent, a set given which they are independent."""

Nodes = NDArray[np.bool_]


def project(adjacency: Adjacency, observed: Collection[int]) -> Marks:
    """Return the ADMG over the observed variables of a DAG: what is left of it when the others are hidden.

    There is i -> j where a directed path leads from i to j through hidden variables alone, and i <-> j where some
    hidden variable reaches both so (Verma's latent projection). The nodes are in the order of `observed`.
    """
    kept = np.array(list(observed), dtype=int)
    hidden = np.ones(len(adjacency), dtype=bool)
    hidden[kept] = False
    through = adjacency.astype(bool)
    for node in np.flatnonzero(hidden):
        through |= np.outer(through[:, node], through[node])
    reached = through[np.ix_(hidden, kept)]
    joined = (reached.T @ reached).astype(np.int8)
    np.fill_diagonal(joined, 0)
    return admg_marks(through[np.ix_(kept, kept)].astype(np.int8), joined)


def ancestors_of(marks: Marks, nodes: Collection[int]) -> Nodes:
    """Say of each node whether it is one of `nodes`, or a path of edges -> leads from it to one."""
    parents_of = adjacency_of(marks).T.astype(bool)
    found = np.zeros(len(marks), dtype=bool)
    found[list(nodes)] = True
    for node in nodes:
        found |= dag.reachable(parents_of, node)
    return found


def separated(marks: Marks, one: int, other: int, given: Collection[int]) -> bool:
    """Say whether a set of variables m-separates two others in an ADMG or MAG.

    It does if every path between them has a collider that is no ancestor of the set, or another inner node in it.
    """
    causes, joined = adjacency_of(marks).astype(bool), bidirected_of(marks).astype(bool)
    inside = np.zeros(len(marks), dtype=bool)
    inside[list(given)] = True
    opened = ancestors_of(marks, given)
    # a walk is at a node, and came by an edge with an arrow there or with a tail there
    by_arrow, by_tail = causes[one] | joined[one], causes[:, one].copy()
    while True:
        onward, colliding = (by_arrow | by_tail) & ~inside, by_arrow & opened
        turned = colliding | (by_tail & ~inside)
        next_by_arrow = by_arrow | causes[onward].any(axis=0) | joined[turned].any(axis=0)
        next_by_tail = by_tail | causes[:, turned].any(axis=1)
        if (next_by_arrow == by_arrow).all() and (next_by_tail == by_tail).all():
            return not (by_arrow | by_tail)[other]
        by_arrow, by_tail = next_by_arrow, next_by_tail


def to_mag(marks: Marks) -> Marks:
    """Return the maximal ancestral graph of an ADMG: the same m-separations and ancestors, one edge for each pair.

    Two variables are adjacent if no set separates them, which is so if their ancestors do not.
    """
    return _mag_and_separators(marks)[0]


def _mag_and_separators(marks: Marks) -> tuple[Marks, dict[frozenset[int], list[int]]]:
    _refuse_unless_admg(marks)
    causes = adjacency_of(marks).astype(bool)
    is_ancestor = np.array([dag.reachable(causes, node) for node in range(len(marks))])
    mag, separators = np.zeros_like(marks), {}
    for i, j in combinations(range(len(marks)), 2):
        given = [node for node in np.flatnonzero(ancestors_of(marks, (i, j))).tolist() if node not in (i, j)]
        if separated(marks, i, j, given):
            separators[frozenset((i, j))] = given
        else:
            mag[i, j] = TAIL if is_ancestor[j, i] else ARROW
            mag[j, i] = TAIL if is_ancestor[i, j] else ARROW
    return mag, separators


def _refuse_unless_admg(marks: Marks) -> None:
    if (marks == CIRCLE).any() or ((marks == TAIL) & (marks.T == TAIL)).any():
        raise FeddagError("It has circles or undirected edges. Give a DAG or an ADMG: edges -> and <-> alone.")
    if not dag.is_dag(adjacency_of(marks)):
        raise FeddagError("Its edges -> make a cycle. Give a DAG or an ADMG.")


def to_pag(marks: Marks) -> Marks:
    """Return the PAG of a DAG or ADMG: the marks that all graphs with its independences have, and circles."""
    mag, separators = _mag_and_separators(marks)
    skeleton = np.where(mag != NONE, CIRCLE, NONE).astype(np.int8)
    return apply_fci_rules(orient_colliders(skeleton, separators), separators)


def orient_colliders(marks: Marks, separators: Separators) -> Marks:
    """Apply rule 0: i *-> k <-* j where k joins i and j, which are not adjacent, and does not help to separate them.

    Marks other than circles stay as they are. A pair that `separators` does not have is left alone.
    """
    oriented = marks.copy()
    for pair, given in separators.items():
        i, j = sorted(pair)
        if marks[i, j] != NONE:
            continue
        for k in np.flatnonzero((marks[i] != NONE) & (marks[j] != NONE)).tolist():
            if k not in given:
                _set(oriented, i, k, ARROW)
                _set(oriented, j, k, ARROW)
    return oriented


def apply_fci_rules(marks: Marks, separators: Separators) -> Marks:
    """Turn the circles whose mark follows from the other marks, by rules 1-4 and 8-10, until none is left.

    These rules are complete where no rows were selected (Zhang 2008). Only circles change, so that marks which are
    known otherwise stay. `separators` decide rule 4, which is skipped for a pair that it does not have.
    """
    found = marks.copy()
    while True:
        before = found.copy()
        for rule in (_rule_1, _rule_2, _rule_3):
            rule(found)
        _rule_4(found, separators)
        if (found == before).all():
            for rule in (_rule_8, _rule_9, _rule_10):
                rule(found)
        if (found == before).all():
            return found


def _set(marks: Marks, start: int, end: int, mark: int) -> None:
    """Set the mark at `end`, if there is a circle."""
    if marks[start, end] == CIRCLE:
        marks[start, end] = mark


def _direct(marks: Marks, cause: int, effect: int) -> None:
    _set(marks, effect, cause, TAIL)
    _set(marks, cause, effect, ARROW)


def _circles(marks: Marks) -> list[tuple[int, int]]:
    """List the ordered pairs (i, j) with a circle at j."""
    return [(int(i), int(j)) for i, j in np.argwhere(marks == CIRCLE)]


def _rule_1(marks: Marks) -> None:
    """Find a *-> b o-* c, a and c not adjacent: b -> c, since b is no collider."""
    for c, b in _circles(marks):
        into_b = (marks[:, b] == ARROW) & (marks[:, c] == NONE)
        into_b[c] = False
        if marks[c, b] == CIRCLE and into_b.any():
            _direct(marks, b, c)


def _rule_2(marks: Marks) -> None:
    """Find a -> b *-> c or a *-> b -> c, and a *-o c: an arrow at c, else there were a cycle."""
    for a, c in _circles(marks):
        into_b, into_c = marks[a] == ARROW, marks[:, c] == ARROW
        caused, causes = marks[:, a] == TAIL, marks[c] == TAIL
        if (into_b & into_c & (caused | causes)).any():
            marks[a, c] = ARROW


def _rule_3(marks: Marks) -> None:
    """Find a *-> b <-* c, a *-o d o-* c, a and c not adjacent, d *-o b: an arrow at b."""
    for d, b in _circles(marks):
        around = np.flatnonzero((marks[:, b] == ARROW) & (marks[:, d] == CIRCLE))
        apart = marks[np.ix_(around, around)] == NONE
        np.fill_diagonal(apart, False)
        if apart.any():
            marks[d, b] = ARROW


def _rule_4(marks: Marks, separators: Separators) -> None:
    """Find a path <d, ..., a, b, c> that discriminates b, and b o-* c: b -> c, or arrows at b.

    What separates d and c decides: b -> c if b is in it.
    """
    for c, b in _circles(marks):
        if marks[c, b] != CIRCLE:
            continue
        for a, d in _discriminating(marks, b, c):
            given = separators.get(frozenset((d, c)))
            if given is None:
                continue
            if b in given:
                _direct(marks, b, c)
            else:
                for start, end in ((a, b), (c, b), (b, c)):
                    _set(marks, start, end, ARROW)
            break


def _discriminating(marks: Marks, b: int, c: int) -> Iterator[tuple[int, int]]:
    """Find (a, d) of paths <d, ..., a, b, c>: d and c are not adjacent, all between d and b are colliders and -> c."""
    causes_of_c = (marks[c] == TAIL) & (marks[:, c] == ARROW)
    for a in np.flatnonzero(causes_of_c & (marks[b] == ARROW)).tolist():
        seen, front = {a, b, c}, [a]
        while front:
            node = front.pop(0)
            for before in np.flatnonzero(marks[:, node] == ARROW).tolist():
                if before in seen:
                    continue
                seen.add(before)
                if marks[before, c] == NONE:
                    yield a, before
                elif causes_of_c[before] and marks[node, before] == ARROW:
                    front.append(before)


def _half_open(marks: Marks) -> list[tuple[int, int]]:
    """List the pairs (a, c) with a o-> c."""
    return [(a, c) for c, a in _circles(marks) if marks[a, c] == ARROW]


def _rule_8(marks: Marks) -> None:
    """Find a -> b -> c or a -o b -> c, and a o-> c: a -> c, since a is an ancestor of c."""
    for a, c in _half_open(marks):
        from_a = (marks[:, a] == TAIL) & (marks[a] != TAIL) & (marks[a] != NONE)
        if (from_a & (marks[c] == TAIL) & (marks[:, c] == ARROW)).any():
            marks[c, a] = TAIL


def _rule_9(marks: Marks) -> None:
    """Find a o-> c and an uncovered path a, b, ..., c that may be directed, b and c not adjacent: a -> c."""
    for a, c in _half_open(marks):
        starts = [b for b in _onward(marks, a) if b != c and marks[b, c] == NONE]
        if any(c in _reached_uncovered(marks, a, b) for b in starts):
            marks[c, a] = TAIL


def _rule_10(marks: Marks) -> None:
    """Find a o-> c, b -> c <- d, and uncovered paths that may be directed from a to b and to d: a -> c.

    The first nodes of these paths differ and are not adjacent.
    """
    for a, c in _half_open(marks):
        causes = set(np.flatnonzero((marks[c] == TAIL) & (marks[:, c] == ARROW)).tolist()) - {a}
        leads = {first: _reached_uncovered(marks, a, first) & causes for first in _onward(marks, a) if first != c}
        if any(
            marks[one, other] == NONE and len(leads[one] | leads[other]) > 1 and leads[one] and leads[other]
            for one in leads
            for other in leads
            if one < other
        ):
            marks[c, a] = TAIL


def _onward(marks: Marks, node: int) -> list[int]:
    """List the nodes to which an edge may be directed from `node`: no arrow here, no tail there."""
    here, there = marks[:, node], marks[node]
    return np.flatnonzero((there != NONE) & (here != ARROW) & (there != TAIL)).tolist()


def _reached_uncovered(marks: Marks, start: int, first: int) -> set[int]:
    """Collect the nodes on uncovered paths that may be directed and begin with start, first.

    Uncovered: no two nodes with one between them on the path are adjacent.
    """
    reached: set[int] = set()

    def walk(before: int, node: int, on_path: frozenset[int]) -> None:
        reached.add(node)
        for after in _onward(marks, node):
            if after not in on_path and marks[before, after] == NONE:
                walk(node, after, on_path | {after})

    walk(start, first, frozenset((start, first)))
    return reached
