"""What the sums of a study tell about one row: whether it is in a table, and a value of it that is hidden.

The attacker is the honest server: it knows the questions, the sums, and the law of the rows, of which it draws tables
of its own. A row moves each sum by its *influence*: how the answer of a table changes if the row joins it. If the row
is in a table, the sums lie off their expectation by that influence, else by chance alone; the likelihood ratio of the
two, for normal sums, is the strongest test (Homer et al. 2008 for means). The covariance of the sums is that of made-up
tables or of single rows, and shrunk, since there are fewer of these than numbers.

Where sites add up all products of some functions, a hidden value is guessed by leverage too: the functions of a row of
the table lie nearer to those of the others, in the metric of the sums themselves, than with any other value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.interpolate import PchipInterpolator

from feddag.regression.gram import from_triangle

SHRINKAGES = (1e-2, 1e-1, 1.0, 10.0)
"""What is added to the variance of each number, which is 1. The attacker takes the best for rows that it knows."""
TRUST = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
"""How far the attacker believes the sums beside what other rows say about the hidden value."""
FALSE_ALARMS = 0.05
_FINE = 81


@dataclass(frozen=True)
class Membership:
    """How well an attacker distinguishes rows of the tables from others."""

    auc: float
    """The chance that a row of the tables looks more like one than another row does; 0.5 is guessing."""
    true_positives: float
    """The share of the tables' rows that are found, if 5 % of other rows are taken for such."""
    rows: int
    """How many rows of the tables were tried."""


@dataclass(frozen=True)
class HiddenValue:
    """How well one value of a row is guessed if all others are known: the median error, in standard deviations."""

    error: float
    others: float
    """The same for rows that are in no table."""
    rows: int


class Metric:
    """The inverse of a shrunk covariance, from samples that have it."""

    def __init__(self, samples: Float[np.ndarray, "sample number"]) -> None:
        if samples.shape[0] < samples.shape[1]:
            _, sizes, axes = np.linalg.svd(samples / np.sqrt(len(samples)), full_matrices=False)
            self._variances, self._axes = sizes**2, axes.T
        else:
            self._variances, self._axes = np.linalg.eigh(samples.T @ samples / len(samples))

    def products(
        self, left: Float[np.ndarray, "one number"], right: Float[np.ndarray, "other number"], shrinkage: float
    ) -> Float[np.ndarray, "one other"]:
        """Return `left (C + shrinkage·1)⁻¹ rightᵀ`."""
        one, other = left @ self._axes, right @ self._axes
        inside = (one / (self._variances + shrinkage)) @ other.T
        return inside + (left @ right.T - one @ other.T) / shrinkage

    def squares(self, vectors: Float[np.ndarray, "one number"], shrinkage: float) -> Float[np.ndarray, " one"]:
        """Return the square length of each vector."""
        one = vectors @ self._axes
        inside = (one**2 / (self._variances + shrinkage)).sum(axis=1)
        return inside + np.maximum((vectors**2).sum(axis=1) - (one**2).sum(axis=1), 0.0) / shrinkage


def membership(
    metric: Metric,
    influences: Float[np.ndarray, "row number"],
    deviations: Float[np.ndarray, "federation number"],
    sites: int,
    own: Int[np.ndarray, " row"],
) -> Membership:
    """Tell rows of a federation's tables from others. Each row is tried on its own federation, and on all the others.

    Args:
        metric: The metric of the numbers.
        influences: How each row moves the numbers; at least twice as many rows as federations.
        deviations: How far each federation's numbers lie off what is expected.
        sites: The sites of a federation.
        own: The federation that each row is in.
    """
    inside = _inside(own, len(deviations))
    scores = []
    for shrinkage in SHRINKAGES:
        lengths = np.sqrt(np.maximum(metric.squares(influences, shrinkage), 1e-300))[:, None]
        products = metric.products(influences, deviations, shrinkage)
        # rows alike, however much each moves the sums; and rows by their likelihood ratio, those that move much first
        scores += [products / lengths, products - lengths**2 / 2 / sites]
    halves = np.arange(len(own)) // len(deviations) % 2 == 0
    areas, shares = (_best_of(measure, scores, inside, halves) for measure in (area, caught))
    return Membership(areas, shares, len(own))


def _best_of(
    measure: Callable[[np.ndarray, np.ndarray], float],
    scores: Sequence[Float[np.ndarray, "row federation"]],
    inside: Bool[np.ndarray, "row federation"],
    halves: Bool[np.ndarray, " row"],
) -> float:
    """Return what the best scores reach: they are chosen on one half of the rows, and measured on the other."""
    found = []
    for half in (halves, ~halves):
        best = int(np.argmax([measure(*_parted(each, inside, ~half)) for each in scores]))
        found.append(measure(*_parted(scores[best], inside, half)))
    return float(np.mean(found))


def caught(members: Float[np.ndarray, " member"], others: Float[np.ndarray, " other"]) -> float:
    """Return the share of members above a threshold that 5 % of the others exceed."""
    return float((members > np.quantile(others, 1 - FALSE_ALARMS)).mean())


def area(members: Float[np.ndarray, " member"], others: Float[np.ndarray, " other"]) -> float:
    """Return the chance that a member scores higher than another; ties count half."""
    ranked = np.sort(others)
    below = np.searchsorted(ranked, members, "left") + np.searchsorted(ranked, members, "right")
    return float(below.mean() / 2 / len(ranked))


def _parted(
    scores: Float[np.ndarray, "row federation"],
    inside: Bool[np.ndarray, "row federation"],
    rows: Bool[np.ndarray, " row"],
) -> tuple[Float[np.ndarray, " member"], Float[np.ndarray, " other"]]:
    """Return the scores of some rows against their own federations, and against the others."""
    return scores[rows][inside[rows]], scores[rows][~inside[rows]]


def _inside(own: Int[np.ndarray, " row"], federations: int) -> Bool[np.ndarray, "row federation"]:
    return own[:, None] == np.arange(federations)


@dataclass(frozen=True)
class Guesses:
    """One row with a hidden value, and what the attacker has for each guess of it."""

    truth: float
    deviation: float
    """The standard deviation of the hidden variable."""
    values: Float[np.ndarray, " guess"]
    discrete: bool
    prior: tuple[float, float]
    """The mean and standard deviation of the value, given the row's other values."""
    influences: Float[np.ndarray, "guess number"]
    functions: Sequence[Float[np.ndarray, "guess function"]]
    """For each block of products that sites add up, its functions."""
    own: int


def hidden_value(
    metric: Metric,
    rows: Sequence[Guesses],
    deviations: Float[np.ndarray, "federation number"],
    sites: int,
    blocks: Sequence[Sequence[Float[np.ndarray, "function whitened"]]],
) -> HiddenValue:
    """Guess the hidden value of each row from its own federation's sums, and from all the others'.

    Args:
        metric: The metric of the numbers.
        rows: The rows, at least two.
        deviations: How far each federation's numbers lie off what is expected.
        sites: The sites of a federation.
        blocks: For each federation and each block of products the inverse root of the summed products.
    """
    evidence = [[_ratio(metric, row, deviations, sites, each) for row in rows] for each in SHRINKAGES]
    if blocks and blocks[0]:
        evidence.append([_leverage(row, blocks) for row in rows])
    ways = [(each, trust) for each in evidence for trust in TRUST]
    # for each way and each row: the log density of the truth, and the error of the guess; by federation
    tried = [[_guess(row, each[place], trust) for place, row in enumerate(rows)] for each, trust in ways]
    density, errors = (np.array([[found[part] for found in way] for way in tried]) for part in (0, 1))
    inside = _inside(np.array([row.own for row in rows]), len(deviations))
    halves = np.arange(len(rows)) % 2 == 0
    ours, others = [], []
    for half in (halves, ~halves):
        best = int(np.argmax([_parted(each, inside, ~half)[0].mean() for each in density]))
        members, rest = _parted(errors[best], inside, half)
        ours.append(members)
        others.append(rest)
    return HiddenValue(float(np.median(np.concatenate(ours))), float(np.median(np.concatenate(others))), len(rows))


def _ratio(
    metric: Metric, row: Guesses, deviations: Float[np.ndarray, "federation number"], sites: int, shrinkage: float
) -> Float[np.ndarray, "federation guess"]:
    """Return the log-likelihood ratio of each guess."""
    products = metric.products(deviations, row.influences, shrinkage)
    return products - metric.squares(row.influences, shrinkage) / 2 / sites


def _leverage(
    row: Guesses, blocks: Sequence[Sequence[Float[np.ndarray, "function whitened"]]]
) -> Float[np.ndarray, "federation guess"]:
    squares = [
        sum(((functions @ root) ** 2).sum(axis=1) for functions, root in zip(row.functions, roots, strict=True))
        for roots in blocks
    ]
    return -np.array(squares) / 2


def inverse_root(triangle: Float[np.ndarray, " pair"]) -> Float[np.ndarray, "function whitened"]:
    """Return a root of the inverse of a matrix of products, of which each entry is given once."""
    sizes, axes = np.linalg.eigh(from_triangle(triangle))
    return axes / np.sqrt(np.maximum(sizes, sizes.max(initial=0.0) * 1e-12 + 1e-300))


def _guess(
    row: Guesses, evidence: Float[np.ndarray, "federation guess"], trust: float
) -> tuple[Float[np.ndarray, " federation"], Float[np.ndarray, " federation"]]:
    """Return the log density of the truth and the error of the guess, for each federation's sums."""
    values = row.values
    if not row.discrete:
        values = np.linspace(row.values[0], row.values[-1], _FINE)
        evidence = PchipInterpolator(row.values, evidence, axis=1)(values)
    mean, deviation = row.prior
    log = trust * evidence - ((values - mean) / deviation) ** 2 / 2
    log -= log.max(axis=1, keepdims=True)
    weights = np.exp(log)
    weights /= weights.sum(axis=1, keepdims=True)
    nearest = int(np.abs(values - row.truth).argmin())
    middle = (np.cumsum(weights, axis=1) < 0.5).sum(axis=1).clip(max=len(values) - 1)
    guessed = values[weights.argmax(axis=1) if row.discrete else middle]
    return np.log(np.maximum(weights[:, nearest], 1e-300)), np.abs(guessed - row.truth) / row.deviation
