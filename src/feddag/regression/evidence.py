"""How well a set of parents explains a variable: the evidence of a Gaussian-process regression.

A family's score is the negative log-evidence per row of

    y ~ N(0, σ²(I + ΦΦᵀ/λ)),

where y is the child and Φ holds functions of the parents, all standardised and centred. It is

    ½ log(Q/n) + log det(I + ΦᵀΦ/λ) / 2n,    Q = yᵀ(I + ΦΦᵀ/λ)⁻¹y,

up to a constant, with σ² at its best value, and the evidence averaged over a few λ: lower is better. The second
term charges for what the functions could have fitted besides, so that a superfluous parent makes the score worse
without any penalty; and since y is standardised, units do not matter. Where all variables have noise of one variance σ²
(`precision` = their own variance over σ²), the first term is `½ (precision · Q/n − log precision)` instead.

The functions are those of `features`. *Coarse* evidence has the functions of each parent, and needs
nothing of the data but one Gram matrix. *Joint* evidence adds functions of all parents together,
layer by layer, and averages over the number of layers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import get_lapack_funcs

from feddag.regression.features import FUNCTIONS, LINEAR_WEIGHT

RIDGES = (0.05, 1.0, 20.0)
"""The λ: noise variance over the variance of the function to be found."""
LEAST_VARIANCE = 1e-9
"""A variable that its parents explain to this share of its variance counts as determined by them."""

_BATCH_BYTES = 2**24

_potrf, _trtrs = get_lapack_funcs(("potrf", "trtrs"), dtype=np.float64)


def per_row(
    residual: Float[np.ndarray, "..."], precision: Float[np.ndarray, "..."] | float | None
) -> Float[np.ndarray, "..."]:
    """Return the first term of the score, from Q/n."""
    residual = np.maximum(residual, LEAST_VARIANCE)
    return 0.5 * np.log(residual) if precision is None else 0.5 * (precision * residual - np.log(precision))


def average_evidence(scores: Float[np.ndarray, "option *family"], rows: float) -> Float[np.ndarray, "*family"]:
    """Return the score of the mean evidence: every option was as likely as any other beforehand."""
    best = scores.min(axis=0)
    return best - np.log(np.exp(rows * (best - scores)).mean(axis=0)) / rows


class Fit(NamedTuple):
    """The regression of a family: its score, averaged over λ and the number of layers, and the best of these."""

    score: float
    ridge: float
    size: int
    """How many features it uses."""
    factor: Float[np.ndarray, "feature feature"]
    """L, where LLᵀ = ΦᵀΦ + λI for all features: its first rows and columns are that of the first features."""
    solved: Float[np.ndarray, " feature"]
    """L⁻¹Φᵀy."""


class Factors:
    """The factors of one set of features at each λ, which all children of these parents share."""

    def __init__(self, gram: Float[np.ndarray, "feature feature"]) -> None:
        """Factorise; rounding may make the system of a small λ indefinite: then a larger one will do."""
        diagonal = np.arange(len(gram))
        self._of_ridge: list[tuple[float, np.ndarray, np.ndarray]] = []
        for ridge in RIDGES if len(gram) else ():
            system = gram.copy(order="F")
            system[diagonal, diagonal] += ridge
            factor, info = _potrf(system, lower=1, overwrite_a=1)
            if not info:
                complexity = np.cumsum(2 * np.log(factor.diagonal()) - np.log(ridge))
                self._of_ridge.append((ridge, factor, complexity))

    def best_fit(
        self,
        cross: Float[np.ndarray, " feature"],
        total: float,
        rows: float,
        ends: list[int],
        precision: float | None,
    ) -> Fit:
        """Score a family at each λ with each number of layers: one factor for each λ gives all of these.

        Args:
            cross, total: Products of the features with the child, and of the child with itself.
            rows: How many.
            ends: Where layers end.
            precision: See `per_row`.
        """
        if not ends[-1]:
            return Fit(float(per_row(np.array(total / rows), precision)), RIDGES[0], 0, np.zeros((0, 0)), cross)
        last = np.array(ends) - 1
        found = np.full((len(RIDGES), len(ends)), np.inf)
        solutions = []
        for k, (_, factor, complexity) in enumerate(self._of_ridge):
            solutions.append(_trtrs(factor, cross, lower=1)[0])
            residual = total - np.cumsum(solutions[k] ** 2)[last]
            found[k] = per_row(residual / rows, precision) + complexity[last] / (2 * rows)
        k, end = np.unravel_index(found.argmin(), found.shape)
        ridge, factor, _ = self._of_ridge[k]
        return Fit(float(average_evidence(found.reshape(-1), rows)), ridge, ends[end], factor, solutions[k])


def best_fit(
    gram: Float[np.ndarray, "feature feature"],
    cross: Float[np.ndarray, " feature"],
    total: float,
    rows: float,
    ends: list[int],
    precision: float | None,
) -> Fit:
    """Score one family whose features have these products with each other: see `Factors.best_fit`."""
    return Factors(gram).best_fit(cross, total, rows, ends, precision)


def coefficients(fit: Fit) -> Float[np.ndarray, " used"]:
    """Return the coefficients of the regression that `best_fit` found best."""
    if not fit.size:
        return np.zeros(0)
    return _trtrs(fit.factor[: fit.size, : fit.size], fit.solved[: fit.size], lower=1, trans=1)[0]


def leave_one_out(
    features: Float[np.ndarray, "row used"], fit: Fit, residuals: Float[np.ndarray, " row"], precision: float | None
) -> float:
    """Return how badly a regression predicts each row from all others: the negative log-likelihood per row, as scores.

    It has no price for what the functions could have fitted besides: this is paid by fitting them to other rows.
    """
    if not fit.size:
        return float(per_row(np.array(np.mean(residuals**2)), precision))
    solved, _ = _trtrs(fit.factor[: fit.size, : fit.size], features.T, lower=1)
    free = np.maximum(1 - (solved**2).sum(axis=0), 1e-6)
    return float(per_row(np.array(np.mean(residuals**2 / free)), precision) - 0.5 * np.log(free).mean())


class Targets(NamedTuple):
    """The variables, or functions of them, that are regressed on the parents."""

    nodes: Int[np.ndarray, " target"]
    """The variable of each target, which cannot be its own parent."""
    products: Float[np.ndarray, "feature target"]
    """The products of all coarse features with each target."""
    totals: Float[np.ndarray, " target"]
    """The product of each target with itself."""


class _Regressions(NamedTuple):
    """The regressions of families, each at every λ, with A = ΦᵀΦ + λI for the functions Φ of its parents.

    They tell those of all neighbours: a parent more or less changes Q and log det A by what `_eliminate` finds in a
    matrix as small as the number of functions that come or go with it.
    """

    root: Float[np.ndarray, "ridge family column column"]
    """R, where RᵀR = A⁻¹."""
    explained: Float[np.ndarray, "ridge family column"]
    """RΦᵀy, whose squares sum up to yᵀy − Q."""
    residual: Float[np.ndarray, "ridge family"]
    """Q."""
    volume: Float[np.ndarray, "ridge family"]
    """log det(A/λ)."""


class CoarseEvidence:
    """Scores of whole neighbourhoods of families, from one Gram matrix alone: that of all coarse features.

    The functions of a set of parents are those of each parent.
    """

    def __init__(
        self,
        gram: Float[np.ndarray, "feature feature"],
        rows: float,
        precisions: Float[np.ndarray, " target"] | None,
        nodes: int,
        targets: Targets | None = None,
    ) -> None:
        """`targets` are the variables themselves where it is None."""
        self.nodes = nodes
        self._gram = gram
        self._rows = rows
        self._precisions = precisions
        self._functions = len(gram) // nodes
        if targets is None:
            products = gram[:, :: self._functions] / LINEAR_WEIGHT
            totals = products[:: self._functions].diagonal() / LINEAR_WEIGHT
            targets = Targets(np.arange(nodes), products, totals)
        self._targets = targets

    def neighbourhoods(
        self, targets: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"]
    ) -> Float[np.ndarray, "family node"]:
        """Score, for each family, each that differs from it by one parent; at the child, the family itself."""
        scores = np.empty(parents.shape)
        sizes = parents.sum(axis=1)
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            border, width = self._functions, size * self._functions
            step = max(1, _BATCH_BYTES // (8 * len(RIDGES) * self.nodes * border * (width + border)))
            for start in range(0, len(chosen), step):
                batch = chosen[start : start + step]
                members = np.nonzero(parents[batch])[1].reshape(len(batch), size)
                scores[batch] = self._of_equal_size(targets[batch], members)
        return scores

    def _columns(self, nodes: Int[np.ndarray, "*set node"]) -> Int[np.ndarray, "*set column"]:
        """Return the columns of each node's own functions."""
        return (nodes[..., None] * self._functions + np.arange(self._functions)).reshape(*nodes.shape[:-1], -1)

    def _of_equal_size(
        self, targets: Int[np.ndarray, " family"], members: Int[np.ndarray, "family parent"]
    ) -> Float[np.ndarray, "family node"]:
        size = members.shape[1]
        families, children = np.arange(len(members)), self._targets.nodes[targets]
        columns = self._columns(members)
        now = self._regressions(targets, columns)
        residual = np.broadcast_to(now.residual[..., None], (*now.residual.shape, self.nodes)).copy()
        growth = np.zeros_like(residual)
        others = self._others(children, members)
        if others.shape[1]:
            new = (slice(None), families[:, None], others)
            residual[new], growth[new] = self._with_one_more(now, targets, others, columns)
        if size:
            old = (slice(None), families[:, None], members)
            residual[old], growth[old] = self._with_one_less(now, size)
        precisions = None if self._precisions is None else self._precisions[targets, None]
        scores = per_row(residual / self._rows, precisions) + (now.volume[..., None] + growth) / (2 * self._rows)
        return average_evidence(scores, self._rows)

    def _regressions(
        self, targets: Int[np.ndarray, " family"], columns: Int[np.ndarray, "family column"]
    ) -> _Regressions:
        width, ridges = columns.shape[1], np.array(RIDGES)[:, None]
        own = self._targets.products[columns, targets[:, None]]
        within = self._gram[columns[:, :, None], columns[:, None, :]]
        system = within + ridges[..., None, None] * np.eye(width)
        factor = np.linalg.cholesky(system)
        root = _invert(factor)
        explained = (root @ own[..., None])[..., 0]
        residual = self._targets.totals[targets] - (explained**2).sum(axis=-1)
        volume = 2 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
        return _Regressions(root, explained, residual, volume - width * np.log(ridges))

    def _others(
        self, children: Int[np.ndarray, " family"], members: Int[np.ndarray, "family parent"]
    ) -> Int[np.ndarray, "family other"]:
        """List the nodes that might be further parents."""
        free = np.ones((len(members), self.nodes), bool)
        np.put_along_axis(free, np.concatenate([members, children[:, None]], axis=1), False, axis=1)
        return np.nonzero(free)[1].reshape(len(members), -1)

    def _with_one_more(
        self,
        now: _Regressions,
        targets: Int[np.ndarray, " family"],
        others: Int[np.ndarray, "family other"],
        columns: Int[np.ndarray, "family column"],
    ) -> tuple[Float[np.ndarray, "ridge family other"], Float[np.ndarray, "ridge family other"]]:
        """Return Q with a further parent, and the growth of log det(A/λ): the functions that come with it border A."""
        count, further = others.shape
        borders = self._columns(others[..., None])
        width, border = columns.shape[1], borders.shape[2]
        across = self._gram[borders[..., None], columns[:, None, None, :]]
        corners = self._gram[borders[..., :, None], borders[..., None, :]].transpose(2, 3, 0, 1)
        flat = across.reshape(count, further * border, width)
        to_child = self._targets.products[borders, targets[:, None, None]].transpose(2, 0, 1)
        ridges = np.array(RIDGES)[:, None, None]

        bordered = np.zeros((border + 1, border + 1, len(RIDGES), count, further))
        flat = flat @ now.root.swapaxes(-1, -2)
        projected = flat.reshape(len(RIDGES), count, further, border, width)
        bordered[:-1, :-1] = corners[:, :, None] - (projected @ projected.swapaxes(-1, -2)).transpose(3, 4, 0, 1, 2)
        bordered[np.arange(border), np.arange(border)] += ridges
        bordered[-1, :-1] = to_child[:, None] - (flat @ now.explained[..., None]).reshape(
            len(RIDGES), count, further, border
        ).transpose(3, 0, 1, 2)
        bordered[-1, -1] = now.residual[..., None]
        residual, growth = _eliminate(bordered)
        return residual, growth - border * np.log(ridges)

    def _with_one_less(
        self, now: _Regressions, size: int
    ) -> tuple[Float[np.ndarray, "ridge family parent"], Float[np.ndarray, "ridge family parent"]]:
        """Return Q without each parent, and by how much log det(A/λ) grows: what goes with it is taken from A⁻¹."""
        several = self._functions
        leaving = np.arange(size * several).reshape(size, several)
        taken = np.zeros((several + 1, several + 1, *now.residual.shape, size))
        parts = np.ascontiguousarray(now.root.swapaxes(-1, -2)[:, :, leaving])
        taken[:-1, :-1] = (parts @ parts.swapaxes(-1, -2)).transpose(3, 4, 0, 1, 2)
        taken[-1, :-1] = (parts @ now.explained[:, :, None, :, None])[..., 0].transpose(3, 0, 1, 2)
        lost, shrinkage = _eliminate(taken)
        return now.residual[..., None] - lost, shrinkage + several * np.log(RIDGES)[:, None, None]


def _invert(
    factors: Float[np.ndarray, "*batch column column"],
) -> Float[np.ndarray, "*batch column column"]:
    """Invert lower triangular matrices, half by half: nearly all of it is products of matrices."""
    width = factors.shape[-1]
    if width <= FUNCTIONS:
        return np.linalg.inv(factors)
    half = width // 2
    first, second = _invert(factors[..., :half, :half]), _invert(factors[..., half:, half:])
    inverse = np.zeros(factors.shape)
    inverse[..., :half, :half] = first
    inverse[..., half:, :half] = -second @ factors[..., half:, :half] @ first
    inverse[..., half:, half:] = second
    return inverse


def _eliminate(
    matrices: Float[np.ndarray, "row column *batch"],
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    """Return s − rᵀR⁻¹r and log det R of symmetric [[R, r], [rᵀ, s]]. Reads their lower halves, overwrites all.

    Gaussian elimination over all at once: far quicker than a library call for each small matrix.
    """
    volume = np.zeros(matrices.shape[2:])
    for k in range(len(matrices) - 1):
        pivot = matrices[k, k]
        volume += np.log(pivot)
        column = matrices[k + 1 :, k]
        matrices[k + 1 :, k + 1 :] -= (column / pivot)[:, None] * column
    return matrices[-1, -1], volume
