"""Metrics of how far an estimated graph is from the true one.

Every metric looks at unordered pairs of nodes. A pair has one of four edge types: i -> j, i <- j, i -- j,
or none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddag.errors import FeddagError
from feddag.graphs.causal_graph import CausalGraph
from feddag.graphs.matrices import Adjacency

Graph: TypeAlias = CausalGraph | ArrayLike

_NO_EDGE, _UNDIRECTED = 0, 3


@dataclass(frozen=True)
class GraphMetrics:
    """The result of `compare`. Counts are of pairs of nodes, so an undirected edge counts once."""

    shd: int
    """Structural Hamming distance, open edges counted as right: missing + extra + reversed."""
    tpr: float
    """True positive rate: the share of the true edges that were found. 1 if there are none to find."""
    fdr: float
    """False discovery rate: the share of estimated edges that are extra or reversed. 0 if there are none."""
    nnz: int
    """Edges in the estimate."""
    precision: float
    """1 - fdr."""
    recall: float
    """The same as tpr."""
    f1: float
    """The harmonic mean of precision and recall."""
    missing: int
    """Pairs with an edge in the truth alone."""
    extra: int
    """Pairs with an edge in the estimate alone."""
    reversed: int
    """Pairs with an edge in both, of which the estimate has the wrong type."""
    left_open: int
    """Pairs with a directed edge in the truth and an undirected one in the estimate."""
    strict_shd: int
    """Structural Hamming distance, open edges counted as errors: shd + left_open."""

    def as_dict(self) -> dict[str, int | float]:
        """Return the metrics by name, as a row of a table needs them."""
        return asdict(self)


def compare(estimate: Graph, truth: Graph) -> GraphMetrics:
    """Compare an estimate with the true graph, by two rules for edges whose direction the estimate leaves open.

    `shd` counts them as right, and so do all rates: this is the rule of the paper, which NOTEARS and most methods that
    return a DAG use (Zheng et al. 2018). PC and GES cannot tell the directions within an equivalence class, and
    are not blamed for those they leave open. `strict_shd` counts each as one error: the rule of Tsamardinos et al.
    (2006), of pcalg and of bnlearn, and the distance of the function `shd`. Report both for an estimate with open
    edges: by the first rule, a method that leaves every direction open makes no error of direction. `left_open` is
    their difference, and 0 for an estimate without undirected edges.

    The lenience is for undirected edges of the estimate only: where the truth itself is undirected (a CPDAG), the
    estimate must be, too.

    Two `CausalGraph`s are aligned by name; an array is taken to be in the order of the other graph. In an
    array, too, a pair with both entries 1 is an undirected edge: cut the cycles of an estimate first.

    Examples:
        >>> import feddag
        >>> truth = feddag.CausalGraph([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
        >>> found = feddag.compare([[0, 0, 1], [1, 0, 1], [0, 0, 0]], truth)
        >>> found.shd, found.missing, found.extra, found.reversed
        (2, 0, 1, 1)
        >>> unsure = feddag.compare(truth.to_cpdag(), truth)
        >>> unsure.shd, unsure.strict_shd
        (0, 2)
    """
    estimated, true = _edge_types(estimate, truth)
    in_estimate, in_truth = estimated != _NO_EDGE, true != _NO_EDGE
    in_both = in_estimate & in_truth
    right = in_both & ((estimated == true) | (estimated == _UNDIRECTED))

    missing = int((in_truth & ~in_estimate).sum())
    extra = int((in_estimate & ~in_truth).sum())
    reversed_ = int((in_both & ~right).sum())
    left_open = int((right & (estimated != true)).sum())
    found, nnz, true_edges = int(right.sum()), int(in_estimate.sum()), int(in_truth.sum())

    tpr = found / true_edges if true_edges else 1.0
    fdr = (extra + reversed_) / max(nnz, 1)
    precision = 1.0 - fdr
    return GraphMetrics(
        shd=missing + extra + reversed_,
        tpr=tpr,
        fdr=fdr,
        nnz=nnz,
        precision=precision,
        recall=tpr,
        f1=2 * found / (nnz + true_edges) if nnz + true_edges else 1.0,
        missing=missing,
        extra=extra,
        reversed=reversed_,
        left_open=left_open,
        strict_shd=missing + extra + reversed_ + left_open,
    )


def shd(one: Graph, other: Graph) -> int:
    """Count the pairs of nodes whose edge type differs: the strict structural Hamming distance.

    A metric on DAGs and PDAGs alike: symmetric, 0 for equal graphs only, and no detour is shorter. `compare`
    is lenient to undirected edges of an estimate, and therefore neither symmetric nor a metric.
    """
    ours, theirs = _edge_types(one, other)
    return int((ours != theirs).sum())


def _edge_types(estimate: Graph, truth: Graph) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return, for every unordered pair i < j, the edge type in either graph: 0 none, 1 i -> j, 2 i <- j, 3 i -- j."""
    if isinstance(estimate, CausalGraph) and isinstance(truth, CausalGraph):
        try:
            estimate = estimate.reordered(truth.names)
        except FeddagError as error:
            raise FeddagError(f"The two graphs cannot be compared. {error}") from None
    ours, theirs = _adjacency(estimate), _adjacency(truth)
    if ours.shape != theirs.shape:
        raise FeddagError(
            f"The two graphs cannot be compared: one has {len(ours)} nodes, the other {len(theirs)}. "
            "Give both over the same variables."
        )
    pairs = np.triu_indices(len(ours), k=1)
    return (ours + 2 * ours.T)[pairs], (theirs + 2 * theirs.T)[pairs]


def _adjacency(graph: Graph) -> Adjacency:
    return graph.adjacency if isinstance(graph, CausalGraph) else CausalGraph(graph).adjacency
