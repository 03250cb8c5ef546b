"""Metrics of how far an estimated graph is from the true one.

Every metric looks at unordered pairs of nodes. A pair has no edge, or one of the kinds that `feddag.graphs.marks`
lists; where hidden common causes are possible it may have both -> and <->, which counts as a kind of its own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddag.errors import FeddagError
from feddag.graphs.causal_graph import CausalGraph
from feddag.graphs.marks import ARROW, BOTH, CIRCLE, NONE, TAIL, Marks

Graph: TypeAlias = CausalGraph | ArrayLike


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
    estimate must be, too. A circle of an estimate (a PAG) is open in the same sense: it counts as right whatever the
    truth has at this end. An undirected edge leaves open which of two variables is the cause, but denies that a hidden
    one joins them: for a true edge <-> it is wrong. `compare_marks` counts arrows, tails and circles by themselves.

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
    in_estimate, in_truth = (estimated != NONE).any(axis=0), (true != NONE).any(axis=0)
    in_both = in_estimate & in_truth
    same = (estimated == true).all(axis=0)
    right = in_both & (same | _is_left_open(estimated, true))

    missing = int((in_truth & ~in_estimate).sum())
    extra = int((in_estimate & ~in_truth).sum())
    reversed_ = int((in_both & ~right).sum())
    left_open = int((right & ~same).sum())
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
    """Count the pairs of nodes whose edges differ: the strict structural Hamming distance.

    A metric on DAGs, PDAGs, ADMGs and PAGs alike: symmetric, 0 for equal graphs only, and no detour is shorter.
    `compare` is lenient to undirected edges of an estimate, and therefore neither symmetric nor a metric.
    """
    ours, theirs = _edge_types(one, other)
    return int((ours != theirs).any(axis=0).sum())


@dataclass(frozen=True)
class Rates:
    """How many of the estimated things are right (precision), and how many of the true ones were found (recall)."""

    precision: float
    """1 if nothing is estimated."""
    recall: float
    """1 if there is nothing to find."""
    f1: float
    """The harmonic mean of both."""

    @classmethod
    def of(cls, estimated: NDArray[np.bool_], true: NDArray[np.bool_]) -> Self:
        """Count what is in the estimate, in the truth, and in both."""
        found, guessed, wanted = int((estimated & true).sum()), int(estimated.sum()), int(true.sum())
        return cls(
            precision=found / guessed if guessed else 1.0,
            recall=found / wanted if wanted else 1.0,
            f1=2 * found / (guessed + wanted) if guessed + wanted else 1.0,
        )


@dataclass(frozen=True)
class MarkMetrics:
    """The result of `compare_marks`."""

    shd: int
    """Pairs of nodes whose edges differ, as the function `shd` counts them."""
    mark_shd: int
    """Edges to add or to remove, and ends of common edges to change, to make the truth of the estimate."""
    adjacency: Rates
    """Pairs that are joined, by whatever edge."""
    arrowhead: Rates
    """Ends with an arrow: "this variable is no cause of that one"."""
    tail: Rates
    """Ends with a tail: "this variable is a cause of that one"."""
    circle: Rates
    """Ends that are open."""
    directed: Rates
    """Edges ->."""
    bidirected: Rates
    """Edges <->."""

    def as_dict(self) -> dict[str, int | float]:
        """Return the metrics by name, as a row of a table needs them: `arrowhead_precision` and so on."""
        row: dict[str, int | float] = {"shd": self.shd, "mark_shd": self.mark_shd}
        for name, rates in asdict(self).items():
            if isinstance(rates, dict):
                row |= {f"{name}_{rate}": value for rate, value in rates.items()}
        return row


def compare_marks(estimate: Graph, truth: Graph) -> MarkMetrics:
    """Compare two graphs end by end: PAGs with each other, or ADMGs.

    `mark_shd` is the distance of Triantafillou and Tsamardinos (2016): an edge too many or too few costs 1, and so
    does each end of a common edge whose mark differs. An arrow counts as found where the truth has one at the same
    end of the same pair; an arrow on an edge that the truth does not have counts against precision.

    Where a pair has both -> and <->, the cause's end has a tail and an arrow, and counts as both.

    Examples:
        >>> import feddag
        >>> truth = feddag.CausalGraph.admg([[0, 0], [0, 0]], [[0, 1], [1, 0]])
        >>> found = feddag.graphs.compare_marks(feddag.CausalGraph([[0, 1], [0, 0]]), truth)
        >>> found.adjacency.f1, found.arrowhead.precision, found.arrowhead.recall, found.mark_shd
        (1.0, 1.0, 0.5, 1)
    """
    ours, theirs = _edge_types(estimate, truth)
    joined, truly_joined = ours[0] != NONE, theirs[0] != NONE
    in_both, alone = joined & truly_joined, joined ^ truly_joined
    return MarkMetrics(
        shd=int((ours != theirs).any(axis=0).sum()),
        mark_shd=int(alone.sum() + (ours != theirs)[:, in_both].sum()),
        adjacency=Rates.of(joined, truly_joined),
        arrowhead=Rates.of((ours & ARROW) > 0, (theirs & ARROW) > 0),
        tail=Rates.of((ours & TAIL) > 0, (theirs & TAIL) > 0),
        circle=Rates.of(ours == CIRCLE, theirs == CIRCLE),
        directed=Rates.of(_directed(ours), _directed(theirs)),
        bidirected=Rates.of((ours[0] & ours[1] & ARROW) > 0, (theirs[0] & theirs[1] & ARROW) > 0),
    )


def _directed(ends: Marks) -> NDArray[np.bool_]:
    """Say for both ends of each pair whether an edge -> begins there."""
    return ((ends & TAIL) > 0) & ((ends[::-1] & ARROW) > 0)


def _is_left_open(estimated: Marks, true: Marks) -> NDArray[np.bool_]:
    """Say of each pair whether the estimate does not decide what it does not get right."""
    undirected = (estimated == TAIL).all(axis=0) & ((true & TAIL) > 0).any(axis=0) & (true != BOTH).all(axis=0)
    circles = (estimated == CIRCLE).any(axis=0) & ((estimated == CIRCLE) | (estimated == true)).all(axis=0)
    return undirected | circles


def _edge_types(estimate: Graph, truth: Graph) -> tuple[Marks, Marks]:
    """Return, for every unordered pair i < j, the marks at i and at j in either graph."""
    if isinstance(estimate, CausalGraph) and isinstance(truth, CausalGraph):
        try:
            estimate = estimate.reordered(truth.names)
        except FeddagError as error:
            raise FeddagError(f"The two graphs cannot be compared. {error}") from None
    ours, theirs = _marks(estimate), _marks(truth)
    if ours.shape != theirs.shape:
        raise FeddagError(
            f"The two graphs cannot be compared: one has {len(ours)} nodes, the other {len(theirs)}. "
            "Give both over the same variables."
        )
    pairs = np.triu_indices(len(ours), k=1)
    return np.stack([ours.T[pairs], ours[pairs]]), np.stack([theirs.T[pairs], theirs[pairs]])


def _marks(graph: Graph) -> Marks:
    return graph.marks if isinstance(graph, CausalGraph) else CausalGraph(graph).marks
