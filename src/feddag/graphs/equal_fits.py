"""Bow-free ADMGs that fit all linear data with normal noise equally well.

Two of them do if they join the same pairs and have the same colliders, `-> v <-` with whatever other ends (Nowzohour,
Maathuis, Evans and Bühlmann, "Distributional equivalence and structure learning for bow-free acyclic path diagrams",
Electronic Journal of Statistics 2017). So marks are open at variables with at most one arrow head. Edges between such
variables form trees, and the marks of one tree do not depend on those of another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import networkx as nx
import numpy as np

from feddag.graphs.marks import ARROW, NONE, TAIL, Marks

_KINDS = ((TAIL, ARROW), (ARROW, TAIL), (ARROW, ARROW))


def most_typical(marks: Marks, is_allowed: Callable[[Marks], bool]) -> Marks:
    """Return the allowed graph that agrees in most edges with all that fit as well as this one, which is allowed."""
    typical = marks
    for tree in _open_trees(marks):
        equal = np.array([each for each in equal_fits(typical, tree) if is_allowed(each)])
        kinds = equal[:, tree] * (ARROW + 1) + equal[:, :, tree].swapaxes(1, 2)
        agreement = (kinds[:, None] == kinds).sum(axis=(1, 2, 3))
        typical = equal[agreement.argmax()]
    return typical


def equal_fits(marks: Marks, nodes: Collection[int]) -> list[Marks]:
    """List the graphs that fit as well and differ only in marks at some variables, this one first."""
    found = {marks.tobytes(): marks}
    left = [marks]
    while left:
        for near in _neighbours(left.pop(0), nodes):
            if near.tobytes() not in found:
                found[near.tobytes()] = near
                left.append(near)
    return list(found.values())


def _open_trees(marks: Marks) -> list[list[int]]:
    open_nodes = np.flatnonzero((marks == ARROW).sum(axis=0) <= 1)
    joined = nx.from_numpy_array(marks[np.ix_(open_nodes, open_nodes)] != NONE)
    return [open_nodes[sorted(tree)].tolist() for tree in nx.connected_components(joined)]


def _neighbours(marks: Marks, nodes: Collection[int]) -> Iterator[Marks]:
    """Change one edge at some variables, each end of it only where no other edge has a head."""
    heads = (marks == ARROW).sum(axis=0)
    for i in nodes:
        for j in np.flatnonzero(marks[i] != NONE).tolist():
            now = int(marks[j, i]), int(marks[i, j])
            may_change = [
                node in nodes and heads[node] == (mark == ARROW) for node, mark in zip((i, j), now, strict=True)
            ]
            for ends in _KINDS:
                stays = [old == new for old, new in zip(now, ends, strict=True)]
                if ends != now and all(np.logical_or(may_change, stays)):
                    near = marks.copy()
                    near[j, i], near[i, j] = ends
                    yield near
